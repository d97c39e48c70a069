"""millrace.Run."""
import os
import signal
import sys
import threading
import time

import pytest

import millrace
from test_session import SOLVER


@pytest.fixture
def start(write, tmp_path):
    def start_run(fields="", **options):
        text = SOLVER.replace("max_iter: 10 ", "") + f"snapshot_prefix: '{tmp_path / 'run'}' "
        return millrace.Run(write("run.prototxt", text + (fields or "max_iter: 100000000")),
                            **options)
    return start_run


def wait_until(run, holds):
    end = time.monotonic() + 60
    while not holds(status := run.status()):
        assert time.monotonic() < end and status["state"] != "ended", status
        time.sleep(0.001)
    return status


def test_a_run_ends_with_its_schedule(start):
    run = start("max_iter: 50", cpus=2)
    result = run.wait()
    assert result["iteration"] == 50 and not result["stopped_early"]
    assert os.path.exists(result["model"]) and result["state"].endswith("_iter_50.solverstate")
    status = run.status()
    assert status["state"] == "ended" and status["iteration"] == status["max_iteration"] == 50
    assert status["snapshot"] == result["state"]
    assert run.wait_for(0) and run.wait() == result
    with pytest.raises(millrace.Error, match="the run has ended"):
        run.pause()


def test_a_run_pauses_tests_saves_and_goes_on(start):
    run = start(cpus=2)
    wait_until(run, lambda status: status["iteration"] > 10)
    run.pause()
    run.test()
    run.snapshot()
    status = wait_until(run, lambda status: status["tests"] and status["snapshot"])
    assert status["state"] == "paused"
    assert [name for name, _ in status["tests"][0]["outputs"]] == ["loss"]
    assert os.path.exists(status["snapshot"])
    run.resume()
    wait_until(run, lambda now: now["iteration"] > status["iteration"] + 10)
    run.set_learning_rate(1e-7)
    wait_until(run, lambda now: now["learning_rate"] == pytest.approx(1e-7))
    with pytest.raises(millrace.Error, match="expected a finite number of at least 0"):
        run.set_learning_rate(-1)
    run.stop()
    assert run.wait()["stopped_early"]


def test_a_bad_file_is_an_error_of_wait(write):
    run = millrace.Run(write("bad.prototxt", "net: 5"))
    for _ in range(2):
        with pytest.raises(millrace.Error, match=r"bad\.prototxt:1:"):
            run.wait()


def test_deleting_a_run_stops_it(start):
    run = start()
    wait_until(run, lambda status: status["iteration"] > 0)
    del run


def test_ctrl_c_ends_wait(start):
    run = start()
    wait_until(run, lambda status: status["iteration"] > 0)
    waits = threading.Event()
    thread = threading.Thread(
        target=lambda: waits.wait(60) and os.kill(os.getpid(), signal.SIGINT))
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        waits.set()
        run.wait()
    thread.join()
    run.stop()
    assert run.wait()["stopped_early"]


PYTHON_LAYER = """
train_net_param { name: 'sums'
  layer { name: 'in' type: 'DummyData' top: 'x' top: 'y' dummy_data_param {
    shape { dim: 4 dim: 3 } shape { dim: 4 dim: 3 }
    data_filler { type: 'uniform' min: -1 max: 1 } data_filler { type: 'constant' value: 1 } } }
  layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'ip' inner_product_param {
    num_output: 3 weight_filler { type: 'xavier' } } }
  layer { name: 'own' type: 'Python' bottom: 'ip' top: 'own' python_param {
    module: 'MODULE' layer: 'LAYER' } }
  layer { name: 'loss' type: 'EuclideanLoss' bottom: 'own' bottom: 'y' top: 'loss' } }
base_lr: 0.05 lr_policy: 'fixed' max_iter: 60 random_seed: 2 snapshot_after_train: false
"""


LAYERS = """
import threading
import millrace
threads = set()
class Twice(millrace.Layer):
    def reshape(self, bottom, top):
        top[0].reshape(*bottom[0].shape)
    def forward(self, bottom, top):
        threads.add(threading.get_ident())
        top[0].data[...] = 2 * bottom[0].data
    def backward(self, top, propagate_down, bottom):
        bottom[0].diff[...] = 2 * top[0].diff
class Broken(Twice):
    def forward(self, bottom, top):
        raise KeyError("what is missing")
"""


# What pycaffe forbids: layers in Python with several solvers.
@pytest.mark.parametrize("strategy", ["hogwild", "allreduce"])
def test_several_solvers_have_layers_in_python(write, tmp_path, monkeypatch, strategy):
    module = f"layers_of_{strategy}"
    write(module + ".py", LAYERS)
    monkeypatch.syspath_prepend(tmp_path)
    text = PYTHON_LAYER.replace("MODULE", module) + f"strategy {{ type: '{strategy}' }} "
    run = millrace.Run(write("run.prototxt", text.replace("LAYER", "Twice")), cpus=2)
    result = run.wait()
    assert result["iteration"] == 60
    # One of two solvers that do not step together may take all iterations, and the last loss may be
    # that of the first iteration.
    if strategy == "allreduce":
        assert result["loss"] < 1 and len(sys.modules[module].threads) >= 2
    with pytest.raises((KeyError, millrace.Error), match="what is missing"):
        millrace.Run(write("broken.prototxt", text.replace("LAYER", "Broken")), cpus=2).wait()
