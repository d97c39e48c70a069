"""Makes a wheel of the Python modules in BUILD/python and the library:

    python/make_wheel.py BUILD VERSION FOLDER

Prints its path. The wheel fits the interpreter that runs this, and machines that have the
libraries of Debian that libmillrace.so is linked with. The functions build_wheel and build_sdist are
those that pip and `python -m build` call (PEP 517, pyproject.toml): they run `make python` first,
with the flags of the variable MAKEFLAGS, and in the folder that BUILD names.
"""
import base64
import gzip
import hashlib
import io
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import zipfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

SUMMARY = "Trains Caffe models on one machine or many; nets, solvers and pycaffe in Python"


def members(build, version):
    """Pairs of a file's name in the wheel and its path."""
    folder = os.path.join(build, "python")
    for place, _, names in sorted(os.walk(folder)):
        for name in sorted(names):
            if not name.endswith(".pyc"):
                path = os.path.join(place, name)
                yield os.path.relpath(path, folder), path
    soname = "libmillrace.so." + ".".join(version.split(".")[:2])
    yield f"millrace/{soname}", os.path.join(build, soname)
    modules = os.path.join(build, "modules")
    for name in sorted(os.listdir(modules)):
        yield f"millrace/modules/{name}", os.path.join(modules, name)


def metadata(version):
    return (f"Metadata-Version: 2.1\nName: millrace\nVersion: {version}\nSummary: {SUMMARY}\n"
            "License: BSD-2-Clause\nRequires-Python: >=3.9\nRequires-Dist: numpy\n"
            "Requires-Dist: protobuf\nProvides-Extra: images\n"
            "Requires-Dist: pillow; extra == 'images'\n")


def make(build, version, out):
    """Writes the wheel to folder `out` and returns its path."""
    tag = "cp{0}{1}-cp{0}{1}-{2}".format(
        *sys.version_info[:2], sysconfig.get_platform().replace("-", "_").replace(".", "_"))
    information = f"millrace-{version}.dist-info"
    texts = {
        "METADATA": metadata(version),
        "WHEEL": f"Wheel-Version: 1.0\nGenerator: millrace\nRoot-Is-Purelib: false\nTag: {tag}\n",
        "top_level.txt": "caffe\nmillrace\n",
    }
    files = [(name, open(path, "rb").read()) for name, path in members(build, version)]
    files += [(f"{information}/{name}", text.encode()) for name, text in texts.items()]
    record = []
    os.makedirs(out, exist_ok=True)
    wheel = os.path.join(out, f"millrace-{version}-{tag}.whl")
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files:
            archive.writestr(zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0)), content,
                             zipfile.ZIP_DEFLATED)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=")
            record.append(f"{name},sha256={digest.decode()},{len(content)}\n")
        record.append(f"{information}/RECORD,,\n")
        archive.writestr(f"{information}/RECORD", "".join(record))
    return wheel


def source_version():
    """The version of the headers, as the Makefile reads it."""
    with open(os.path.join(ROOT, "include/millrace/version.h"), encoding="utf-8") as header:
        return ".".join(re.findall(r"define MILLRACE_VERSION_[MP]\w* (\d+)", header.read()))


def sources():
    """The names of the files of this tree, relative to ROOT: of its repository, or all of them."""
    if os.path.exists(os.path.join(ROOT, ".git")):
        command = ["git", "-C", ROOT, "ls-files", "-zco", "--exclude-standard"]
        listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        return sorted(name for name in listed.split("\0")
                      if name and os.path.exists(os.path.join(ROOT, name)))
    names = []
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [name for name in folders if name not in ("__pycache__", "dist")
                      and (folder != ROOT or not name.startswith("build"))]
        names += [os.path.relpath(os.path.join(folder, name), ROOT) for name in files]
    return sorted(name for name in names if name != "PKG-INFO")


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """The wheel of this tree, after `make python`: its file name in `wheel_directory`."""
    build = os.environ.get("BUILD", "build")
    # An isolated environment has neither numpy nor protobuf, which the probe of make looks for.
    interpreter = os.path.join(sys.base_prefix, "bin", "python{}.{}".format(*sys.version_info[:2]))
    command = ["make", "-C", ROOT, "python", f"BUILD={build}", f"PYTHON3={interpreter}", "PYTHON=on"]
    if not os.environ.get("MAKEFLAGS"):
        command.append(f"-j{os.cpu_count()}")
    subprocess.run(command, check=True, stdout=sys.stderr)
    return os.path.basename(make(os.path.join(ROOT, build), source_version(), wheel_directory))


def build_sdist(sdist_directory, config_settings=None):
    """An archive of this tree's files: its file name in `sdist_directory`."""
    version = source_version()
    name = f"millrace-{version}"
    path = os.path.join(sdist_directory, f"{name}.tar.gz")
    with open(path, "wb") as raw, gzip.GzipFile("", "wb", mtime=0, fileobj=raw) as packed, \
            tarfile.open(mode="w", fileobj=packed, format=tarfile.PAX_FORMAT) as archive:
        for file in sources():
            entry = archive.gettarinfo(os.path.join(ROOT, file), f"{name}/{file}")
            entry.mtime, entry.uid, entry.gid, entry.uname, entry.gname = 0, 0, 0, "", ""
            if entry.isreg():
                with open(os.path.join(ROOT, file), "rb") as content:
                    archive.addfile(entry, content)
            else:
                archive.addfile(entry)
        text = metadata(version).encode()
        entry = tarfile.TarInfo(f"{name}/PKG-INFO")
        entry.size = len(text)
        archive.addfile(entry, io.BytesIO(text))
    return os.path.basename(path)


if __name__ == "__main__":
    print(make(*sys.argv[1:]))
