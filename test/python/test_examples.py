"""The scripts of examples/python."""
import os
import re
import subprocess
import sys

import pytest

from conftest import ROOT


def test_train_lenet(fashion_lmdb, tmp_path):
    os.symlink(os.path.join(ROOT, "examples"), tmp_path / "examples")
    os.makedirs(tmp_path / "data/fashion_mnist")
    for part in ("train", "test"):
        os.symlink(fashion_lmdb, tmp_path / f"data/fashion_mnist/fashion_mnist_{part}_lmdb")
    run = subprocess.run([sys.executable, "examples/python/train_lenet.py", "101"], cwd=tmp_path,
                         check=True, capture_output=True, text=True)
    lines = run.stdout.splitlines()
    assert lines[1].startswith("iteration 100: loss")
    accuracy = float(re.search(r"accuracy (\d\.\d+)", lines[2]).group(1))
    assert accuracy > 0.5
    assert re.fullmatch(r"the first image is of class \d, by [\d.]+%", lines[3])
    assert (tmp_path / "data/fashion_mnist/lenet_iter_101.caffemodel").exists()


def run_pair(script, topology, iterations):
    """Accuracies that two processes of an example print."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    nodes = [subprocess.Popen([sys.executable, os.path.join(ROOT, "examples", script), name,
                               f"--topology={topology}", f"--iterations={iterations}"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              env=environment) for name in "ab"]
    results = [node.communicate(timeout=300) for node in nodes]
    assert [node.returncode for node in nodes] == [0, 0], results
    found = [re.fullmatch(r"node ([ab]): (\d+) iterations, accuracy (\d\.\d+)\n", out)
             for out, _ in results]
    assert [match[1] for match in found] == ["a", "b"]
    assert found[0][2] == found[1][2] and int(found[0][2]) >= iterations
    return [float(match[3]) for match in found]


def test_numpy_example(fashion_lmdb, two_nodes):
    first, second = run_pair("numpy/train_mlp.py", two_nodes, 1000)
    assert first == second > 0.7


def test_pytorch_example(fashion_lmdb, two_nodes):
    pytest.importorskip("torch", reason="no module torch: install python3-torch")
    first, second = run_pair("pytorch/train_lenet.py", two_nodes, 200)
    assert first == second > 0.5
