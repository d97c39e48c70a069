"""Where the modules are put: by make install, and in a wheel."""
import glob
import os
import subprocess
import sys
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


def test_a_wheel_has_the_modules_and_the_library(tmp_path):
    run = subprocess.run([sys.executable, os.path.join(ROOT, "python/make_wheel.py"), BUILD,
                          millrace.__version__, str(tmp_path)],
                         capture_output=True, text=True, check=True)
    wheel = run.stdout.strip()
    assert wheel.endswith(".whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
        record = archive.read(f"millrace-{millrace.__version__}.dist-info/RECORD").decode()
    assert len(record.splitlines()) == len(archive.namelist())
    site = str(tmp_path / "site")
    assert import_from(site)[0] == f"{site}/millrace/__init__.py"
