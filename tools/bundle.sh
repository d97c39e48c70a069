# What tools/make-gpu-bundle and tools/make-dist share: shared libraries for a machine that has
# glibc, and perhaps an NVIDIA driver, and nothing else. Sourced.

# Paths of the libraries that these programs load at their start, but for those of glibc, the
# driver, and what lies in the folder of a build. Fails if one is missing.
libraries_of() {
  local glibc='^(linux-vdso|ld-linux.*|libc|libm|libdl|librt|libpthread|libresolv|libcuda)\.so'
  local found
  found=$(ldd "$@") || return 1
  if grep "not found" <<<"$found" >&2; then
    echo "a library is missing" >&2
    return 1
  fi
  awk '$2 == "=>" && $3 ~ /^\// { print $3 }' <<<"$found" | sort -u |
    while read -r library; do
      grep -qE "$glibc" <<<"$(basename "$library")" || echo "$library"
    done
}
