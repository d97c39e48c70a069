"""The scripts of examples/python."""
import os
import re
import subprocess
import sys

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
