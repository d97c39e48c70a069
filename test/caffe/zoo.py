"""Caffe loads the models of examples/zoo that Millrace saved, and computes the same scores."""
import contextlib
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__)))), "examples/zoo"))

import generate  # noqa: E402
import nets  # noqa: E402

FOLDER = "zoo"
ITERATIONS = 2


@contextlib.contextmanager
def inside(folder):
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


# All layers of these are Caffe's own.
NAMES = [name for name in nets.NETS if "ssd" not in name]


def scores(bench, name):
    """Trains the net for a moment; what both programs find with the model that is saved."""
    with inside(bench.folder):
        generate.generate(FOLDER)
        make, images, _ = nets.NETS[name]
        base = f"{FOLDER}/{name}"
        with open(base + ".prototxt", "w") as file:
            file.write(make(FOLDER, images).text())
        with open(base + "_solver.prototxt", "w") as file:
            file.write(f'net: "{base}.prototxt"\nbase_lr: 1e-6\nlr_policy: "fixed"\n'
                       f"momentum: 0.9\nmax_iter: {ITERATIONS}\ndisplay: 1\ntest_iter: 1\n"
                       f'test_interval: 1000\ntest_initialization: false\n'
                       f'snapshot_prefix: "{base}"\nrandom_seed: 1\nsolver_mode: CPU\n')
    bench.millrace.train(base + "_solver.prototxt")
    model = f"{base}_iter_{ITERATIONS}.caffemodel"
    found = [program.test(base + ".prototxt", model, 1).means
             for program in (bench.caffe, bench.millrace)]
    os.remove(os.path.join(bench.folder, model))  # some have half a gigabyte
    return found
