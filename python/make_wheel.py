"""Makes a wheel of the Python modules in BUILD/python and the library:

    python/make_wheel.py BUILD VERSION FOLDER

Prints its path. The wheel fits the interpreter that runs this, and machines that have the
libraries of Debian that libmillrace.so is linked with.
"""
import base64
import hashlib
import os
import sys
import sysconfig
import zipfile

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


def main(build, version, out):
    tag = "cp{0}{1}-cp{0}{1}-{2}".format(
        *sys.version_info[:2], sysconfig.get_platform().replace("-", "_").replace(".", "_"))
    information = f"millrace-{version}.dist-info"
    texts = {
        "METADATA": f"Metadata-Version: 2.1\nName: millrace\nVersion: {version}\n"
                    f"Summary: {SUMMARY}\nLicense: BSD-2-Clause\nRequires-Dist: numpy\n"
                    "Requires-Dist: protobuf\nProvides-Extra: images\n"
                    "Requires-Dist: pillow; extra == 'images'\n",
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
    print(wheel)


if __name__ == "__main__":
    main(*sys.argv[1:])
