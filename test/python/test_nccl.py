"""caffe.NCCL: solvers of several processes, in the form of BVLC's python/train.py."""
import os
import re
import subprocess
import sys

import numpy as np
import pytest

import caffe

TRAIN = """
import sys
from multiprocessing import Process
import numpy as np
import caffe

def train(solver, snapshot, gpus, out):
    uid = caffe.NCCL.new_uid()
    caffe.init_log()
    caffe.log('Using devices %s' % str(gpus))
    procs = []
    for rank in range(len(gpus)):
        p = Process(target=solve, args=(solver, snapshot, gpus, uid, rank, out))
        p.daemon = True
        p.start()
        procs.append(p)
    for p in procs:
        p.join()
    sys.exit(max(p.exitcode for p in procs))

def solve(proto, snapshot, gpus, uid, rank, out):
    caffe.set_mode_cpu()
    caffe.set_solver_count(len(gpus))
    caffe.set_solver_rank(rank)
    caffe.set_multiprocess(True)
    solver = caffe.SGDSolver(proto)
    if snapshot and len(snapshot) != 0:
        solver.restore(snapshot)
    nccl = caffe.NCCL(solver, uid)
    nccl.bcast()
    solver.add_callback(nccl)
    if solver.param.layer_wise_reduce:
        solver.net.after_backward(nccl)
    if rank == BREAKS:
        solver.add_callback(lambda: None, lambda: 1 / 0 if solver.iter == 3 else None)
    solver.step(solver.param.max_iter)
    np.savez('%s.%d' % (out, rank), *[blob.data for layer in solver.net.params.values()
                                      for blob in layer])

train(sys.argv[1], sys.argv[2], list(range(int(sys.argv[3]))), sys.argv[4])
"""


@pytest.fixture
def solver_file(caffe_fixture):
    """solver_file(batch): the fixture's solver, whose batches have this size."""
    def path(batch):
        net = (caffe_fixture / "net.prototxt").read_text()
        text = re.sub(r"batch_size: \d+", f"batch_size: {batch}", net)
        (caffe_fixture / f"net{batch}.prototxt").write_text(text)
        solver = (caffe_fixture / "solver.prototxt").read_text()
        solver = solver.replace("net.prototxt", f"net{batch}.prototxt")
        solver = re.sub(r"display: \d+", "display: 5", solver)
        solver = re.sub(r"max_iter: \d+", "max_iter: 10", solver)
        file = caffe_fixture / f"solver{batch}.prototxt"
        file.write_text(re.sub(r"snapshot: \d+", "snapshot: 6", solver))
        return str(file)
    return path


def train(folder, solver, processes, snapshot="", breaks=-1):
    script = folder / "train.py"
    script.write_text(TRAIN.replace("BREAKS", str(breaks)))
    return subprocess.run([sys.executable, script, solver, snapshot, str(processes),
                           folder / "out"], capture_output=True, text=True, timeout=300,
                          check=False)


def groups():
    """The files of groups of processes."""
    return {name for name in os.listdir("/dev/shm") if name.startswith("millrace.group.")}


def weights_of(folder, rank):
    stored = np.load(folder / f"out.{rank}.npz")
    return [stored[name] for name in stored.files]


@pytest.mark.parametrize("processes", [2, 3])
def test_processes_compute_what_one_does_with_their_batches_together(solver_file, tmp_path,
                                                                     processes):
    before = groups()
    run = train(tmp_path, solver_file(2), processes)
    assert run.returncode == 0, run.stderr
    first = weights_of(tmp_path, 0)
    for rank in range(1, processes):
        for own, other in zip(first, weights_of(tmp_path, rank)):
            np.testing.assert_array_equal(own, other)
    one = caffe.SGDSolver(solver_file(2 * processes))
    one.step(10)
    for ours, blob in zip(first, (blob for layer in one.net.params.values() for blob in layer)):
        np.testing.assert_allclose(ours, blob.data, rtol=1e-3, atol=1e-5)
    # The first one alone displays and saves.
    assert run.stderr.count("Iteration 5, loss") == 1
    assert groups() <= before


def test_processes_go_on_from_a_snapshot(solver_file, tmp_path, caffe_fixture):
    file = solver_file(4)
    assert train(tmp_path, file, 2).returncode == 0
    run = train(tmp_path, file, 2, str(caffe_fixture / "ours_iter_6.solverstate"))
    assert run.returncode == 0, run.stderr
    assert "Iteration 10, loss" in run.stderr  # of the 10 after iteration 6


def test_a_process_that_ends_ends_the_others(solver_file, tmp_path):
    run = train(tmp_path, solver_file(2), 2, breaks=1)
    assert run.returncode == 1
    assert "ZeroDivisionError" in run.stderr
    assert "millrace.Error: a group of processes: rank 1 of 2 has ended" in run.stderr


def test_settings_of_the_group():
    assert caffe.has_nccl() and isinstance(caffe.NCCL.new_uid(), bytes)
    assert caffe.NCCL.new_uid() != caffe.NCCL.new_uid()
    assert (caffe.solver_count(), caffe.solver_rank()) == (1, 0)
    with pytest.raises(RuntimeError, match="set_solver_count: 0 given"):
        caffe.set_solver_count(0)
    with pytest.raises(RuntimeError, match="set_solver_rank: -1 given"):
        caffe.set_solver_rank(-1)


# A group of one, in this process.
def test_a_group_of_one(solver_file):
    solver = caffe.SGDSolver(solver_file(4))
    plain = caffe.SGDSolver(solver_file(4))
    nccl = caffe.NCCL(solver, caffe.NCCL.new_uid())
    nccl.bcast()
    solver.add_callback(nccl)
    for each in (solver, plain):
        each.step(3)
    for name, blobs in solver.net.params.items():
        np.testing.assert_array_equal(blobs[0].data, plain.net.params[name][0].data)
