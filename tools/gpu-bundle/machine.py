"""The first step of each part: unpacks the bundle and describes the machine, its GPU and the libraries."""
import concurrent.futures
import importlib.metadata
import os
import platform
import tarfile

import programs


def unpack_file(name):
    """Unpacks an archive, once."""
    done = os.path.join(programs.ROOT, f".{name}.unpacked")
    if not os.path.exists(done):
        with tarfile.open(os.path.join(programs.ROOT, name)) as archive:
            archive.extractall(programs.ROOT)
        with open(done, "w"):
            pass


def unpack():
    """Unpacks programs, libraries and data side by side."""
    found = [name for name in os.listdir(programs.ROOT) if name.endswith(".tar.xz")]
    with concurrent.futures.ThreadPoolExecutor() as pool:
        for _ in pool.map(unpack_file, found):
            pass


def processor():
    with open("/proc/cpuinfo") as file:
        for line in file:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return "unknown processor"


def version_of(package):
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def missing_libraries(part):
    """Runs ldd on all programs. Returns lines that name libraries without a file."""
    missing = []
    for folder in ("bin", "lib"):
        for name in sorted(os.listdir(os.path.join(programs.ROOT, folder))):
            if folder == "lib" and not name.startswith("libmillrace"):
                continue
            lines = []
            part.runner.run("ldd", ["ldd", f"{folder}/{name}"], 5, on_line=lambda line: lines.append(line or ""))
            missing += [f"{folder}/{name}: {line.strip()}" for line in lines if "not found" in line]
    return missing


def describe(part):
    """Returns lines about what is wrong with the machine."""
    unpack()
    said, wrong = part.report.machine, []
    said.append(f"{platform.system()} {platform.release()} {platform.machine()}; {processor()}, {os.cpu_count()} "
                f"processors; Python {platform.python_version()}, PyTorch {version_of('torch')}")
    for tool in ("nvcc", "ncu", "compute-sanitizer"):
        said.append(f"{tool}: {programs.find_tool(tool) or 'not installed'}")
    said.append("LD_LIBRARY_PATH=" + programs.library_path())

    def ask(name, command, own_libraries):
        lines = []
        ended = part.runner.run(name, command, 6, own_libraries=own_libraries,
                                on_line=lambda line: lines.append(line) if line is not None else None)
        said.extend(line for line in lines if line.strip())
        if not ended.ok:
            wrong.append(f"{os.path.basename(command[0])} {command[-1]}: {ended.why()}")

    ask("nvidia_smi", ["nvidia-smi", "--query-gpu=name,driver_version,memory.total,pcie.link.gen.current,"
                       "pcie.link.width.current,clocks.sm,clocks.mem,temperature.gpu,persistence_mode,mig.mode.current",
                       "--format=csv"], False)
    ask("device_query", ["bin/millrace", "device_query"], True)
    return missing_libraries(part) + wrong
