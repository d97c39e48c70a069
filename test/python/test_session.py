"""millrace.Session and millrace.train."""
import gc
import os
import re
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import millrace
from conftest import BUILD, ROOT, SECONDS

SOLVER = """
train_net_param { name: 'sums'
  layer { name: 'in' type: 'DummyData' top: 'x' top: 'y' dummy_data_param {
    shape { dim: 4 dim: 3 } shape { dim: 4 dim: 2 }
    data_filler { type: 'uniform' min: -1 max: 1 } data_filler { type: 'constant' value: 1 } } }
  layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'ip' inner_product_param {
    num_output: 2 weight_filler { type: 'xavier' } bias_filler { type: 'constant' } } }
  layer { name: 'loss' type: 'EuclideanLoss' bottom: 'ip' bottom: 'y' top: 'loss' } }
test_net_param { name: 'sums'
  layer { name: 'in' type: 'DummyData' top: 'x' top: 'y' dummy_data_param {
    shape { dim: 4 dim: 3 } shape { dim: 4 dim: 2 }
    data_filler { type: 'constant' value: 1 } data_filler { type: 'constant' value: 1 } } }
  layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'ip' inner_product_param {
    num_output: 2 } }
  layer { name: 'loss' type: 'EuclideanLoss' bottom: 'ip' bottom: 'y' top: 'loss' } }
test_iter: 2 test_interval: 1000 base_lr: 0.1 lr_policy: 'step' stepsize: 5 gamma: 0.1
momentum: 0.9 max_iter: 10 random_seed: 2
"""


@pytest.fixture
def solver(write, tmp_path):
    return write("solver.prototxt", SOLVER + f"snapshot_prefix: '{tmp_path / 'sums'}'")


def test_a_session_steps_to_the_end_of_its_schedule(solver):
    session = millrace.Session(solver)
    assert session.iteration == 0 and session.learning_rate == pytest.approx(0.1)
    steps = []
    while step := session.step():
        steps.append(step)
    assert [step.iteration for step in steps] == list(range(10))
    assert steps[-1].learning_rate == pytest.approx(0.01)
    assert steps[-1].loss < steps[0].loss
    assert session.iteration == 10 and session.step() is None
    assert session.step(3) is None
    beyond = millrace.Session(solver, past_max_iter=True)
    assert beyond.step(12).iteration == 11


def test_several_solvers_of_a_session_share_its_schedule(solver):
    session = millrace.Session(solver, solvers=4)
    assert [step.iteration for step in iter(session.step, None)] == [3, 7, 9]
    assert session.iteration == 10
    loss = session.test()[0][1]
    assert loss < millrace.Session(solver).test()[0][1]
    session.snapshot()
    session.finish()
    with pytest.raises(millrace.Error, match="SessionOptions.solvers: 0, expected 1 or more"):
        millrace.Session(solver, solvers=0)


def test_a_session_on_gpus_uses_the_processor_where_there_is_none(solver):
    session = millrace.Session(solver, gpus="all")
    while session.step():
        pass
    assert session.iteration == 10
    assert session.test()[0][1] < millrace.Session(solver).test()[0][1]
    session.finish()
    with pytest.raises(millrace.Error, match="--gpu=0,0,x: expected numbers of GPUs"):
        millrace.Session(solver, gpus="0,0,x")


def test_sessions_and_runs_meet_by_a_registry(etcd, segments, solver):
    def options(place):
        return {"topology": segments, "nodes": "1:4",
                "rendezvous": f"etcd://{etcd}/run?lease=5&address={place}"}
    one = millrace.Session(solver, **options("127.0.0.2"))
    assert one.step(3).iteration == 2
    other = millrace.Session.from_text(SOLVER, "sums", solvers=2, **options("127.0.0.3"))
    assert other.iteration >= 3  # of the run
    with ThreadPoolExecutor(2) as pool:
        def end(session):
            while session.step():
                pass
            session.finish()
        for each in [pool.submit(end, session) for session in (one, other)]:
            each.result(SECONDS)
    assert one.iteration == other.iteration >= 10  # nodes may begin the last ones at once
    for mine, its in zip(one.net.params["ip"], other.net.params["ip"]):
        assert np.array_equal(mine.data, its.data)
    run = millrace.Run(solver, rendezvous=f"etcd://{etcd}/next", nodes="1:2")
    assert run.wait()["iteration"] == 10
    with pytest.raises(millrace.Error, match="expected MIN:MAX"):
        millrace.Session(solver, rendezvous=f"etcd://{etcd}/run", nodes="none")


def test_nets_of_a_session_are_live(solver):
    session = millrace.Session(solver)
    weights = session.net.params["ip"][0].data
    before = weights.copy()
    step = session.step()
    assert not np.array_equal(weights, before)
    assert session.net.blobs["loss"].data == pytest.approx(step.loss)
    test = session.test_nets[0]
    weights[...] = 0
    session.net.params["ip"][1].data[...] = 3
    test.forward()
    assert np.all(test.blobs["ip"].data == 3)
    assert session.test() == [("loss", pytest.approx(4.0))]
    bias = session.net.params["ip"][1]
    bias.diff[...] = 1
    session.net.params["ip"][0].diff[...] = 0
    del session, test
    gc.collect()
    assert np.all(bias.data == 3) and np.all(bias.diff == 1)


def test_a_session_without_live_blobs_trains_the_same(solver):
    losses = []
    for live in (True, False):
        session = millrace.Session(solver, live_blobs=live)
        losses.append([step.loss for step in iter(session.step, None)])
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-5)
    assert session.net.params["ip"][0].shape == (2, 3) and session.test()[0][0] == "loss"
    for call in (lambda: session.net.blobs, lambda: session.net.blob("ip"), session.net.forward,
                 session.net.backward, session.test_nets[0].forward):
        with pytest.raises(millrace.Error, match="session without live_blobs"):
            call()
    for call in (session.net.reshape, session.net.clear_gradients):
        with pytest.raises(millrace.Error, match="plain_blobs"):
            call()
    del session
    gc.collect()


CONVOLUTION = SOLVER[SOLVER.index("base_lr"):] + """
train_net_param { name: 'images'
  layer { name: 'in' type: 'DummyData' top: 'x' top: 'y' dummy_data_param {
    shape { dim: 4 dim: 3 dim: 9 dim: 9 } shape { dim: 4 }
    data_filler { type: 'uniform' min: -1 max: 1 } data_filler { type: 'constant' value: 1 } } }
  layer { name: 'c' type: 'Convolution' bottom: 'x' top: 'c' convolution_param {
    num_output: 16 kernel_size: 3 weight_filler { type: 'xavier' } } }
  layer { name: 'relu' type: 'ReLU' bottom: 'c' top: 'c' }
  layer { name: 'pool' type: 'Pooling' bottom: 'c' top: 'pool' pooling_param {
    kernel_size: 2 stride: 2 } }
  layer { name: 'ip' type: 'InnerProduct' bottom: 'pool' top: 'ip' inner_product_param {
    num_output: 3 weight_filler { type: 'xavier' } } }
  layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'y' top: 'loss' } }
"""


def test_blobs_show_what_the_steps_before_their_first_use_computed(write):
    text = write("convolution.prototxt", CONVOLUTION)
    late, early = millrace.Session(text), millrace.Session(text)
    early.net.forward()  # blobs are in plain order from now on
    loss = late.net.blobs["loss"].data
    weights = [blob.diff for blob in late.net.params["c"]]
    shapes = {name: blob.shape for name, blob in late.net.blobs.items()}
    for count in (3, 1):
        assert late.step(count).loss == pytest.approx(early.step(count).loss, rel=1e-4)
        assert loss == pytest.approx(late.net.blobs["loss"].data)
        for name, blob in early.net.blobs.items():
            other = late.net.blobs[name]
            assert other.shape == shapes[name] == blob.shape
            np.testing.assert_allclose(other.data, blob.data, rtol=1e-3, atol=1e-5)
            np.testing.assert_allclose(other.diff, blob.diff, rtol=1e-3, atol=1e-5)
        for mine, blob in zip(weights, early.net.params["c"]):
            np.testing.assert_allclose(mine, blob.diff, rtol=1e-3, atol=1e-5)
    view = late.net.blobs["pool"].data
    before = view.copy()
    late.step()
    assert not np.array_equal(view, before)
    np.testing.assert_array_equal(view, late.net.blobs["pool"].data)
    before = view.copy()
    del late
    gc.collect()
    np.testing.assert_array_equal(view, before)


def test_a_backward_pass_after_steps_asks_for_a_forward_pass(write):
    session = millrace.Session(write("convolution.prototxt", CONVOLUTION))
    session.step()
    with pytest.raises(millrace.Error, match="expected a forward pass before it"):
        session.net.backward_layers()
    session.net.forward()
    session.net.backward_layers()
    with pytest.raises(millrace.Error, match="there is no blob 'none'"):
        session.net.blob("none")


@pytest.mark.parametrize("count", [1, 1 << 40])
def test_another_thread_may_look_at_blobs_while_a_session_steps(write, count):
    session = millrace.Session(write("convolution.prototxt", CONVOLUTION), past_max_iter=True)
    session.step()
    seen, stop = [], threading.Event()

    def look():
        try:
            seen.append(float(np.abs(session.net.blobs["pool"].data).max()))
        finally:
            stop.set()
            os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=look)
    with pytest.raises(KeyboardInterrupt):
        thread.start()
        while True:
            session.step(count)
    thread.join()
    assert stop.is_set() and seen and seen[0] > 0


def test_blobs_may_be_used_first_between_gradients_and_update(write):
    text = write("convolution.prototxt", CONVOLUTION)
    session, other = millrace.Session(text), millrace.Session(text)
    seen = []
    session.on_gradients(lambda: seen.append(session.net.blobs["c"].diff.copy()))
    assert session.step(4).loss == pytest.approx(other.step(4).loss, rel=1e-4)
    assert len(seen) == 4 and np.abs(seen[0]).max() > 0
    np.testing.assert_array_equal(seen[3], session.net.blobs["c"].diff)


def test_another_schedule(solver):
    session = millrace.Session(solver)
    session.step(3)
    session.set_schedule("base_lr: 0.2 lr_policy: 'fixed'")
    assert session.learning_rate == pytest.approx(0.2)
    assert session.step().learning_rate == pytest.approx(0.2)
    for text, says in (("nothing: 1", "set_schedule:1: .*nothing"),
                       ("lr_policy: 'odd'", 'lr_policy: there is no policy "odd"')):
        with pytest.raises(millrace.Error, match=says):
            session.set_schedule(text)


def test_a_session_follows_the_shapes_that_python_gives(write, solver):
    inputs = SOLVER.replace("type: 'DummyData' top: 'x' top: 'y' dummy_data_param {",
                            "type: 'Input' top: 'x' top: 'y' input_param {")
    for filler in ("data_filler { type: 'uniform' min: -1 max: 1 }",
                   "data_filler { type: 'constant' value: 1 }"):
        inputs = inputs.replace(filler, "")
    session = millrace.Session(write("inputs.prototxt", inputs))
    for net in (session.net, session.test_nets[0]):
        net.blobs["x"].reshape(50, 3)
        with pytest.raises(millrace.Error, match="loss"):
            session.step()
        with pytest.raises(millrace.Error, match="loss"):
            session.test()
        net.blobs["y"].reshape(50, 2)
        net.blobs["y"].data[...] = 1
        if net is session.net:
            assert session.step().loss == pytest.approx(1)
    assert session.net.blobs["ip"].shape == (50, 2)
    assert session.test() == [("loss", pytest.approx(1, abs=0.5))]
    assert session.test_nets[0].blobs["ip"].shape == (50, 2)


def test_apply_update_uses_the_gradients_of_the_net(solver):
    session = millrace.Session(solver)
    bias = session.net.params["ip"][1]
    bias.diff[...] = 1
    session.net.params["ip"][0].diff[...] = 0
    session.apply_update()
    np.testing.assert_allclose(bias.data, -0.1)
    assert session.iteration == 0


def test_a_step_by_hand_is_a_step(solver):
    own, whole = millrace.Session(solver), millrace.Session(solver)
    whole.step()
    own.net.clear_gradients()
    own.net.forward()
    own.net.backward_layers()
    own.apply_update()
    for one, other in zip(own.net.params["ip"], whole.net.params["ip"]):
        np.testing.assert_allclose(one.data, other.data, rtol=1e-6)


def test_gradients_can_be_changed_before_the_update(solver):
    session = millrace.Session(solver)
    diffs = [blob.diff for blob in session.net.params["ip"]]
    seen = []

    def clear():
        seen.append(max(np.abs(diff).max() for diff in diffs))
        for diff in diffs:
            diff[...] = 0

    before = session.net.params["ip"][0].data.copy()
    session.on_gradients(clear)
    session.step()
    assert seen[0] > 0
    np.testing.assert_array_equal(session.net.params["ip"][0].data, before)
    session.on_gradients(None)
    session.step()
    assert len(seen) == 1

    def fail():
        raise KeyError("stop here")

    session.on_gradients(fail)
    with pytest.raises(KeyError, match="stop here"):
        session.step()


def test_a_snapshot_is_continued(solver):
    whole = millrace.Session(solver)
    whole.step(4)
    state = whole.snapshot()
    rest = [step.loss for step in iter(whole.step, None)]
    restored = millrace.Session(solver)
    view = restored.net.params["ip"][0].data
    restored.restore(state)
    assert restored.iteration == 4
    resumed = millrace.Session(solver, snapshot=state)
    for session in (restored, resumed):
        assert session.iteration == 4
        assert len(list(iter(session.step, None))) == len(rest) == 6
    np.testing.assert_array_equal(view, resumed.net.params["ip"][0].data)
    np.testing.assert_array_equal(view, whole.net.params["ip"][0].data)
    with pytest.raises(millrace.Error, match="solver.prototxt"):
        restored.restore(solver)


def test_train_runs_the_schedule_and_obeys_its_control(solver, tmp_path):
    seen = []

    def watch(control):
        seen.append(control.step.iteration)
        if len(seen) == 3:
            control.snapshot()
        if len(seen) == 6:
            control.stop()

    session = millrace.train(solver, watch, test_interval=2)
    assert seen == list(range(6)) and session.iteration == 6
    assert os.path.exists(tmp_path / "sums_iter_3.solverstate")
    assert millrace.train(solver).iteration == 10
    with pytest.raises(ZeroDivisionError):
        millrace.train(solver, lambda control: 1 / 0)


def test_metrics_show_the_run(solver):
    session = millrace.Session(solver)
    session.step(3)
    metrics = {metric["name"]: metric["value"] for metric in session.metrics()}
    assert metrics, "a session has metrics"
    assert 3 in metrics.values()  # iterations
    assert all(metric["help"] for metric in session.metrics())


@pytest.mark.parametrize("text, says", [
    ("net: 'none.prototxt' base_lr: 1 lr_policy: 'fixed' max_iter: 1", "none.prototxt"),
    ("base_lr: 'x'", "solver.prototxt:1"),
    (SOLVER + "type: 'Nothing'", "Nothing"),
    (SOLVER.replace("lr_policy: 'step'", "lr_policy: 'nothing'"), "nothing"),
])
def test_errors_of_files_are_exceptions_of_one_line(write, text, says):
    with pytest.raises(millrace.Error) as error:
        millrace.Session(write("solver.prototxt", text))
    assert says in str(error.value) and "\n" not in str(error.value)


def test_a_loss_that_is_not_finite_is_an_exception(solver):
    session = millrace.Session(solver)
    session.net.params["ip"][1].data[...] = np.nan
    with pytest.raises(millrace.Error, match="not finite"):
        session.step()


@pytest.mark.parametrize("call", ["step", "test", "snapshot"])
def test_other_threads_run_meanwhile(solver, call, others_run_during):
    session = millrace.Session(solver, past_max_iter=True)
    assert others_run_during(getattr(session, call))


def test_ctrl_c_ends_a_long_step(solver):
    session = millrace.Session(solver, past_max_iter=True)

    def interrupt():
        limit = time.monotonic() + 120
        while session.iteration < 3 and time.monotonic() < limit:
            time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        session.step(1 << 40)
    thread.join()
    at = session.iteration
    assert at >= 3 and session.step().iteration == at


def test_losses_are_those_that_caffe_printed(caffe_fixture):
    session = millrace.Session(caffe_fixture / "solver.prototxt",
                               weights=[caffe_fixture / "caffe_iter_0.caffemodel"])
    for line in (caffe_fixture / "train.txt").read_text().splitlines():
        iteration, loss, rate = line.split()
        step = session.step()
        assert step.iteration == int(iteration)
        assert step.loss == pytest.approx(float(loss), rel=1e-4, abs=1e-5)
        assert step.learning_rate == pytest.approx(float(rate))


def test_lenet_learns_as_millrace_train_does(fashion_lmdb, tmp_path):
    net = open(os.path.join(ROOT, "examples/fashion_mnist/lenet_train_test.prototxt")).read()
    net = re.sub(r'source: "[^"]*"', f'source: "{fashion_lmdb}"', net)
    (tmp_path / "net.prototxt").write_text(net)
    solver = tmp_path / "solver.prototxt"
    solver.write_text(f"""net: "{tmp_path}/net.prototxt" test_iter: 1 test_interval: 1000
        test_initialization: false base_lr: 0.01 lr_policy: "inv" gamma: 0.0001 power: 0.75
        momentum: 0.9 weight_decay: 0.0005 display: 1 max_iter: 12 random_seed: 5
        snapshot_after_train: true snapshot_prefix: "{tmp_path}/cli" """)
    run = subprocess.run([os.path.join(BUILD, "millrace"), "train", f"--solver={solver}",
                          "--cpu=1"], check=True, capture_output=True, text=True)
    lines = re.findall(r"Iteration (\d+).*?loss = ([-\d.e]+)", run.stderr + run.stdout)
    expected = dict((int(number), float(loss)) for number, loss in lines)
    assert set(range(1, 12)) <= set(expected)
    session = millrace.Session(solver)
    losses = [step.loss for step in iter(session.step, None)]
    for iteration in range(1, 12):
        assert losses[iteration] == pytest.approx(expected[iteration], rel=1e-3)
    assert losses[-1] < losses[0]
    # The same weights, but for the order of sums.
    trained = millrace.Net(tmp_path / "net.prototxt", weights=tmp_path / "cli_iter_12.caffemodel")
    for name, blobs in session.net.params.items():
        for one, other in zip(blobs, trained.params[name]):
            np.testing.assert_allclose(one.data, other.data, atol=1e-3)


CLUSTER = """
import sys
import millrace
session = millrace.Session(sys.argv[1], topology=sys.argv[2], node=sys.argv[3])
while session.step():
    pass
session.finish()
print(session.iteration, float(session.net.params["ip"][0].data.sum()))
"""


def test_two_processes_train_as_a_cluster(write, solver, two_nodes):
    program = write("node.py", CLUSTER)
    nodes = [subprocess.Popen([sys.executable, program, solver, two_nodes, name],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
             for name in "ab"]
    results = [node.communicate(timeout=300) for node in nodes]
    assert [node.returncode for node in nodes] == [0, 0], results
    (first, first_sum), (second, second_sum) = (out.split() for out, _ in results)
    assert int(first) == int(second) >= 10
    assert float(first_sum) == pytest.approx(float(second_sum), abs=1e-5)


def test_the_stubs_name_what_the_module_has():
    import ast
    import inspect
    from millrace import _millrace
    path = os.path.join(os.path.dirname(millrace.__file__), "_millrace.pyi")
    described = {}
    for node in ast.parse(open(path).read()).body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            described[node.name] = {part.name for part in getattr(node, "body", [])
                                    if isinstance(part, ast.FunctionDef)}
    public = {name: value for name, value in vars(_millrace).items() if not name.startswith("_")}
    assert set(described) == set(public)
    for name, value in public.items():
        if inspect.isclass(value) and name != "Error":
            members = {member for member in vars(value) if not member.startswith("_")}
            assert members == {part for part in described[name] if not part.startswith("_")}, name
