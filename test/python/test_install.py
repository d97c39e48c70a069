"""Where the modules are put: by make install, and in a wheel."""
import glob
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import zipfile

import pytest

import millrace
from conftest import BUILD, ROOT
from test_run import LAYERS, PYTHON_LAYER

PROGRAM = """
import caffe, millrace, sys
net = millrace.Net.from_text("layer { name: 'i' type: 'Input' top: 'x' }")
net.forward()
print(millrace.__file__, caffe.__file__)
"""


def import_from(folder):
    """The modules' paths in a process that finds them in `folder` alone."""
    run = subprocess.run(["/usr/bin/env", "-i", f"PYTHONPATH={folder}", sys.executable, "-c",
                          PROGRAM], capture_output=True, text=True, cwd="/", check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout.split()


@pytest.mark.parametrize("libdir", ["lib", "lib64"])
def test_installed_modules_find_the_library(write, tmp_path, libdir):
    environment = {**os.environ, "PREFIX": "/opt/m", "LIBDIR": f"/opt/m/{libdir}",
                   "DESTDIR": str(tmp_path)}
    run = subprocess.run([os.path.join(ROOT, "packaging/install"), BUILD, millrace.__version__],
                         env=environment, capture_output=True, text=True, check=True)
    assert "millrace, caffe" in run.stdout
    folder, = glob.glob(str(tmp_path / "opt/m/lib/python3*/*-packages"))
    assert import_from(folder) == [f"{folder}/millrace/__init__.py", f"{folder}/caffe/__init__.py"]
    if not os.path.exists(f"{folder}/millrace/python_layers.so"):
        return  # the interpreter has no shared library
    write("own_layers.py", LAYERS)
    solver = write("solver.prototxt",
                   PYTHON_LAYER.replace("MODULE", "own_layers").replace("LAYER", "Twice"))
    trained = subprocess.run([tmp_path / "opt/m/bin/millrace", "train", f"--solver={solver}",
                              "--plugins=python"], cwd=tmp_path, env={"PATH": os.environ["PATH"]},
                             capture_output=True, text=True, check=False)
    assert trained.returncode == 0, trained.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel of the build."""
    run = subprocess.run([sys.executable, os.path.join(ROOT, "python/make_wheel.py"), BUILD,
                          millrace.__version__, str(tmp_path_factory.mktemp("wheel"))],
                         capture_output=True, text=True, check=True)
    return run.stdout.strip()


def test_a_wheel_has_the_modules_and_the_library(wheel, tmp_path):
    assert wheel.endswith(".whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
        record = archive.read(f"millrace-{millrace.__version__}.dist-info/RECORD").decode()
    assert len(record.splitlines()) == len(archive.namelist())
    site = str(tmp_path / "site")
    assert import_from(site)[0] == f"{site}/millrace/__init__.py"


# numpy, protobuf and pytest are the system's: nothing is downloaded.
def test_tests_pass_with_the_wheel_in_a_new_environment(wheel, tmp_path):
    pytest.importorskip("ensurepip", reason="no module ensurepip: install python3-venv")
    folder = tmp_path / "venv"
    made = subprocess.run([sys.executable, "-m", "venv", "--system-site-packages", folder],
                          capture_output=True, text=True, check=False)
    if made.returncode != 0:
        pytest.skip(f"no environments: install python3-venv: {made.stdout.strip()[-80:]}")
    plain = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    run = lambda *command, **more: subprocess.run([folder / "bin/python", *command], text=True,
                                                  capture_output=True, check=False, **more)
    installed = run("-m", "pip", "install", "--no-index", "--no-deps", wheel, env=plain)
    assert installed.returncode == 0, installed.stderr
    where = run("-c", "import millrace; print(millrace.__file__)", env=plain, cwd="/")
    assert where.stdout.startswith(str(folder)), where.stderr
    # Copied, so that the tests find the installed modules and no folder of the build.
    tests = tmp_path / "root/test/python"
    shutil.copytree(os.path.join(ROOT, "test/python"), tests)
    os.symlink(os.path.join(ROOT, "test/caffe"), tmp_path / "root/test/caffe")
    support = {"PYTHONPATH": os.path.join(ROOT, "test/support"), "BUILD": "no_build",
               "PYTHONDONTWRITEBYTECODE": "1"}
    tested = run("-m", "pytest", "-q", "-p", "no:cacheprovider", "test/python/test_net.py",
                 "test/python/test_parts.py", "test/python/test_caffe.py", "-k", "not documents",
                 cwd=tmp_path / "root", env={**plain, **support})
    assert tested.returncode == 0, tested.stdout[-3000:]
    assert " passed" in tested.stdout


def sdist(root, folder):
    """The path of the archive that the build backend of tree `root` makes in `folder`."""
    folder.mkdir()
    run = subprocess.run([sys.executable, "-c", "import make_wheel, sys; "
                          "print(make_wheel.build_sdist(sys.argv[1]))", str(folder)],
                         env={**os.environ, "PYTHONPATH": str(root / "python")}, cwd=root,
                         capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return folder / run.stdout.strip()


def test_a_source_archive_makes_the_same_archive(tmp_path):
    first = sdist(pathlib.Path(ROOT), tmp_path / "first")
    assert first.name == f"millrace-{millrace.__version__}.tar.gz"
    with tarfile.open(first) as archive:
        archive.extractall(tmp_path)
        names = set(archive.getnames())
    tree = tmp_path / f"millrace-{millrace.__version__}"
    assert {f"{tree.name}/{name}" for name in ("Makefile", "pyproject.toml", "PKG-INFO",
                                               "src/nn/net.cc", "python/src/net.cc")} <= names
    assert not any("/build/" in name for name in names)
    assert sdist(tree, tmp_path / "second").read_bytes() == first.read_bytes()
