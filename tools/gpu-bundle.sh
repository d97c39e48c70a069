# What run-checks and run-bench share. Sourced in the folder of the bundle.

# Unpacks programs, libraries and data, once.
unpack() {
  local file
  { find bin lib data -name '*.xz' 2>/dev/null || true; } | while read -r file; do
    [ ! -e "${file%.xz}" ] || continue
    if command -v xz >/dev/null; then
      xz -dc "$file" >"${file%.xz}.tmp"
    else
      python3 -c 'import lzma, shutil, sys
shutil.copyfileobj(lzma.open(sys.argv[1]), sys.stdout.buffer)' "$file" >"${file%.xz}.tmp"
    fi || { rm -f "${file%.xz}.tmp"; echo "cannot unpack $file: it needs xz or python3" >&2; return 1; }
    mv "${file%.xz}.tmp" "${file%.xz}"
  done || return 1
  chmod +x bin/* 2>/dev/null || true
}

# The folders with cuBLAS and cuDNN in the packages of the machine's Python, each behind a colon.
python_libraries() {
  local python
  python=$(command -v python3) || return 0
  "$python" - <<'FOLDERS' 2>/dev/null || true
import glob, site, sysconfig
places = {sysconfig.get_paths()["purelib"], sysconfig.get_paths()["platlib"]}
places.update(site.getsitepackages())
print("".join(":" + folder for place in sorted(places)
              for folder in sorted(glob.glob(place + "/nvidia/*/lib"))), end="")
FOLDERS
}

# Runs a program of the bundle with the bundle's libraries. Others (python3) keep their own.
library_path=$PWD/lib$(python_libraries)${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
run() { LD_LIBRARY_PATH=$library_path "$@"; }

# Why this machine has no GPU to work on; nothing if it has one.
why_no_gpu() {
  local line
  line=$(run bin/millrace device_query 2>&1) && return 0
  line=$(tail -n 1 <<<"$line")
  echo "${line:-device_query fails}"
}

# The machine, for the heads of reports.
describe_machine() {
  date -u +%FT%TZ
  uname -srm
  grep -m1 'model name' /proc/cpuinfo | sed 's/.*: //' || true
  echo "$(nproc) processors"
  command -v nvidia-smi >/dev/null &&
    nvidia-smi --query-gpu=name,driver_version,memory.total,pcie.link.gen.current,pcie.link.width.current \
    --format=csv,noheader 2>&1 | head -n 20
  run bin/millrace device_query 2>&1 | tail -n 20
}
