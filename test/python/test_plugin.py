"""Layers in Python in nets that the program millrace runs."""
import os
import re
import shutil
import subprocess

import pytest

from conftest import BUILD
from test_parts import ALL, PARTS, SOLVER as PARTS_SOLVER
from test_run import LAYERS, PYTHON_LAYER

MODULES = os.path.join(BUILD, "python")
PLUGIN = os.path.join(MODULES, "millrace/python_layers.so")
pytestmark = pytest.mark.skipif(not os.path.exists(PLUGIN),
                                reason="the interpreter has no shared library")


def train(folder, *flags, environment=None):
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run([os.path.join(BUILD, "millrace"), "train", *flags], cwd=folder,
                          env={**variables, **(environment or {})}, capture_output=True, text=True,
                          timeout=300, check=False)


@pytest.fixture
def solver(write):
    """solver(layer, fields): the path of a solver file whose net has a layer in Python."""
    def path(layer, fields=""):
        write("own_layers.py", LAYERS + "\nprint('imported')\n")
        text = PYTHON_LAYER.replace("MODULE", "own_layers").replace("LAYER", layer)
        return write("solver.prototxt", text + fields + " display: 20")
    return path


@pytest.mark.parametrize("strategy", ["hogwild", "allreduce"])
def test_two_solvers_train_a_net_with_a_layer_in_python(solver, tmp_path, strategy):
    file = solver("Twice", f"strategy {{ type: '{strategy}' }}")
    run = train(tmp_path, f"--solver={file}", "--cpu=2", "--plugins=python")
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("imported\n")  # once; what layers print is not lost
    losses = [float(loss) for loss in re.findall(r"loss = ([\d.]+)", run.stderr)]
    assert len(losses) >= 3 and losses[-1] < losses[0], run.stderr


def test_an_exception_ends_the_run(solver, tmp_path):
    run = train(tmp_path, f"--solver={solver('Broken')}", "--cpu=2", "--plugins=python")
    assert run.returncode == 1
    assert "KeyError: 'what is missing'" in run.stderr
    assert re.search(r"own_layers.py\(\d+\): forward", run.stderr), run.stderr


def train_with_parts(folder, fields, **options):
    (folder / "own_parts.py").write_text(PARTS)
    (folder / "solver.prototxt").write_text(PARTS_SOLVER + fields)
    return train(folder, "--solver=solver.prototxt", "--cpu=2", "--plugins=own_parts.py", **options)


def test_a_file_registers_parts(tmp_path):
    run = train_with_parts(tmp_path, ALL + "display: 1")
    assert run.returncode == 0, run.stderr
    assert "Iteration 20, loss" in run.stderr
    stopped = train_with_parts(tmp_path, "stop_condition { type: 'enough' }")
    assert stopped.returncode == 0 and "enough at iteration" in stopped.stderr, stopped.stderr


@pytest.mark.parametrize("fields, says", [
    ("sampler { type: 'backwards' param { key: 'fails_at' value: 12 } }",
     r"LookupError: in record\s+At:.*own_parts.py\(\d+\): record"),
    ("type: 'Momentum' custom_param { key: 'mode' value: 'fails' }",
     r"KeyError: 'in apply'\s+At:.*own_parts.py\(\d+\): apply"),
    ("stop_condition { type: 'enough' param { key: 'iterations' value: 66 } }",
     r"LookupError: in after_iteration\s+At:.*own_parts.py\(\d+\): after_iteration"),
    ("strategy { type: 'local' sync_condition { type: 'moved' param { key: 'above' value: 77 } } }",
     r"LookupError: in fires\s+At:.*own_parts.py\(\d+\): fires"),
    ("type: 'Momentum' momentum: 0.5", "momentum is set, expected friction"),
])
def test_an_exception_of_a_part_ends_the_run(tmp_path, fields, says):
    run = train_with_parts(tmp_path, fields)
    assert run.returncode == 1
    assert re.search(says, run.stderr), run.stderr


def test_files_that_cannot_be_imported(tmp_path):
    missing = train(tmp_path, "--solver=solver.prototxt", "--plugins=none.py")
    assert missing.returncode == 1
    assert "--plugins: none.py: No such file or directory" in missing.stderr
    (tmp_path / "wrong.py").write_text("import millrace\nmillrace.nothing()\n")
    wrong = train(tmp_path, "--solver=solver.prototxt", "--plugins=wrong.py")
    assert wrong.returncode == 1
    assert "has no attribute 'nothing'" in wrong.stderr and "wrong.py(2)" in wrong.stderr


def test_modules_are_found_by_pythonpath(solver, tmp_path):
    file = solver("Twice")
    (tmp_path / "modules").mkdir()
    shutil.move(tmp_path / "own_layers.py", tmp_path / "modules")
    missing = train(tmp_path, f"--solver={file}", f"--plugins={PLUGIN}")
    assert missing.returncode == 1
    assert "ModuleNotFoundError: No module named 'own_layers'" in missing.stderr
    found = train(tmp_path, f"--solver={file}", "--plugins=python",
                  environment={"PYTHONPATH": f"{tmp_path / 'modules'}:{MODULES}"})
    assert found.returncode == 0, found.stderr


def test_without_the_module_one_line_says_what_to_do(solver, tmp_path):
    file = solver("Twice")
    without = train(tmp_path, f"--solver={file}")
    assert without.returncode == 1
    assert "type: a layer in Python, expected the Python module millrace: --plugins=python" in (
        without.stderr)
    # The plugin where there is no module.
    lonely = tmp_path / "lonely/millrace"
    lonely.mkdir(parents=True)
    shutil.copy(PLUGIN, lonely)
    (lonely / "__init__.py").write_text("raise ImportError('this is no module\\nat all')")
    broken = train(tmp_path, f"--solver={file}", f"--plugins={lonely / 'python_layers.so'}",
                   environment={"LD_LIBRARY_PATH": BUILD})
    assert broken.returncode == 1
    assert "layers in Python: import of millrace: this is no module" in broken.stderr
    assert "at all" not in broken.stderr
    copy = tmp_path / "bin/millrace"
    copy.parent.mkdir()
    shutil.copy(os.path.join(BUILD, "millrace"), copy)
    nowhere = subprocess.run([copy, "train", f"--solver={file}", "--plugins=python"],
                             env={"LD_LIBRARY_PATH": BUILD}, capture_output=True, text=True,
                             timeout=300, check=False)
    assert nowhere.returncode == 1
    assert "--plugins=python: there is no millrace/python_layers.so" in nowhere.stderr
