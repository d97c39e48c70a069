"""Update rules, samplers, sync and stop conditions in Python, and all parts together."""
import gc
import os
import re
import subprocess
import sys
import threading
import traceback

import numpy as np
import pytest

import millrace
from conftest import ROOT, wait_until

# Parts that the tests use; test_plugin.py gives them to the program as a file.
PARTS = """
import numpy as np
import millrace

calls = []


@millrace.register_source("squares")
class Squares:
    '''Records (i, i * i) with the label i % 3, as many as the path says.'''
    def __init__(self, path):
        self.count = int(path)
        self.calls = calls  # of this test: a session of another one may still read ahead

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        self.calls.append(("read", index))
        return np.array([index, index ** 2]) / 100, index % 3


@millrace.register_rule("Momentum")
class Momentum(millrace.UpdateRule):
    slots = 1
    counts = True
    parameters = {"friction": millrace.Parameter(0.1, min=0, max=1), "mode": "plain"}

    def __init__(self, settings, friction, mode):
        if "momentum" in settings:
            raise millrace.Error("momentum is set, expected friction")
        if mode not in ("plain", "fails"):
            raise ValueError(f"mode {mode}")
        self.keeps, self.mode = 1 - friction, mode

    def apply(self, update):
        calls.append(("apply", update.name, update.updates))
        if self.mode == "fails":
            raise KeyError("in apply")
        speed, = update.history
        gradient = update.gradients + update.decay * update.weights
        speed[...] = self.keeps * speed + update.rate * gradient
        update.weights -= speed


@millrace.register_sampler("backwards")
class Backwards(millrace.Sampler):
    parameters = {"fails_at": millrace.Parameter(-1, min=-1, whole=True)}

    def __init__(self, data, fails_at):
        self.records, self.fails_at = data.records, fails_at

    def record(self, epoch, number):
        if number == self.fails_at:
            raise LookupError("in record")
        return self.records - 1 - number


@millrace.register_sync_condition("moved")
class Moved(millrace.SyncCondition):
    parameters = {"above": millrace.Parameter(min=0)}

    def __init__(self, above):
        self.above, self.merges = above, 0

    def fires(self, state):
        if self.above == 77:
            raise LookupError("in fires")
        assert state.weights.shape == state.base.shape and state.iterations >= 1
        return np.abs(state.weights - state.base).max() > self.above

    def merging(self, state):
        self.merges += 1
        calls.append(("merging", state.iterations))

    def state(self):
        return [self.merges]

    def restore(self, numbers):
        self.merges = int(numbers[0])
        calls.append(("restore", numbers))


@millrace.register_stop_condition("enough")
class Enough(millrace.StopCondition):
    parameters = {"iterations": 7, "loss": -1.0}

    def __init__(self, iterations, loss):
        self.iterations, self.loss = iterations, loss

    def after_iteration(self, run):
        if self.iterations == 66:
            raise LookupError("in after_iteration")
        return "there are enough" if run.iterations >= self.iterations else None

    def after_test(self, test):
        return f"loss {test.outputs[0]:.2f}" if test.outputs[0] < self.loss else None
"""
SOLVER = """
train_net_param { name: 'n'
  layer { name: 'data' type: 'Data' top: 'x' top: 'label'
    data_param { source: 'squares:30' batch_size: 5 } }
  layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'ip' inner_product_param {
    num_output: 3 weight_filler { type: 'xavier' } bias_filler { type: 'constant' } } }
  layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' } }
base_lr: 0.1 lr_policy: 'fixed' max_iter: 20 random_seed: 3 snapshot_after_train: false
"""


@pytest.fixture(scope="module")
def parts():
    """The parts, registered, as a namespace with `calls`."""
    scope = {}
    exec(compile(PARTS, "own_parts.py", "exec"), scope)
    return scope


@pytest.fixture
def calls(parts):
    parts["calls"] = []
    return parts["calls"]


@pytest.fixture
def session(write, calls):
    return lambda more="", text=SOLVER, **options: millrace.Session(
        write("solver.prototxt", text + more), **options)


def lines_of(error):
    return "".join(traceback.format_exception(error.type, error.value, error.tb))


def losses_of(session):
    return [step.loss for step in iter(session.step, None)]


# ---- Update rules ----

def test_a_rule_in_python_trains_as_that_of_millrace(session, calls):
    own = session("type: 'Momentum' weight_decay: 0.01")
    built = session("type: 'SGD' momentum: 0.9 weight_decay: 0.01")
    np.testing.assert_allclose(losses_of(own), losses_of(built), rtol=1e-5)
    np.testing.assert_allclose(own.net.params["ip"][0].data, built.net.params["ip"][0].data,
                               rtol=1e-4, atol=1e-6)
    applied = [call for call in calls if call[0] == "apply"]
    assert applied == [("apply", name, i + 1) for i in range(20)
                       for name in ("ip/0", "ip/1")], applied[:4]


def test_snapshots_have_the_history_of_a_rule(session, tmp_path):
    text = f"type: 'Momentum' snapshot_prefix: '{tmp_path / 's'}'"
    whole = losses_of(session(text))
    first = session(text)
    first.step(8)
    state = first.snapshot()
    np.testing.assert_array_equal(losses_of(session(text, snapshot=state)), whole[8:])


@pytest.mark.parametrize("fields, error, says", [
    ("momentum: 0.5", millrace.Error, "momentum is set, expected friction"),
    ("custom_param { key: 'mode' value: 'odd' }", ValueError, "mode odd"),
    ("custom_param { key: 'friction' value: '2' }", millrace.Error,
     "solver.prototxt.*friction is 2, expected a number from 0 to 1"),
    ("custom_param { key: 'other' value: '2' }", millrace.Error, "other"),
])
def test_wrong_settings_of_a_rule(session, fields, error, says):
    with pytest.raises(error, match=says):
        session("type: 'Momentum' " + fields)


def test_an_exception_of_a_rule_ends_the_step(session):
    own = session("type: 'Momentum' custom_param { key: 'mode' value: 'fails' }")
    before = own.net.params["ip"][0].data.copy()
    with pytest.raises(KeyError, match="in apply") as error:
        own.step()
    assert "apply" in lines_of(error)
    np.testing.assert_array_equal(own.net.params["ip"][0].data, before)


def test_a_rule_cannot_change_sizes(session):
    @millrace.register_rule("Resizes")
    class Resizes(millrace.UpdateRule):
        slots = 1

        def apply(self, update):
            update.history[0].resize(1, refcheck=False)

    with pytest.raises(millrace.Error, match="has 1 values, expected 6"):
        session("type: 'Resizes'").step()


# ---- Samplers ----

def test_a_sampler_orders_the_records(session, calls):
    own = session("sampler { type: 'backwards' }")
    own.step(6)
    read = [index for kind, index in calls if kind == "read"]
    assert read[1:31] == list(range(29, -1, -1)), read  # after one for the shape
    assert own.net.blobs["label"].data.tolist() == [1, 0, 2, 1, 0]


def test_exceptions_of_a_sampler(session):
    own = session("sampler { type: 'backwards' param { key: 'fails_at' value: 12 } }")
    with pytest.raises(LookupError, match="in record") as error:
        losses_of(own)
    assert "own_parts.py" in lines_of(error)

    @millrace.register_sampler("beyond")
    class Beyond(millrace.Sampler):
        def record(self, epoch, number):
            return -1

    with pytest.raises(millrace.Error, match="sampler beyond.*is -1, expected 0 to 29"):
        losses_of(session("sampler { type: 'beyond' }"))


def test_a_sampler_gets_labels(session):
    seen = []

    @millrace.register_sampler("by_label")
    class ByLabel(millrace.Sampler):
        needs_labels = True

        def __init__(self, data):
            seen.append(data)
            self.of_label = np.flatnonzero(data.labels == 2)

        def record(self, epoch, number):
            return self.of_label[number % len(self.of_label)]

    own = session("sampler { type: 'by_label' }")
    own.step()
    assert set(own.net.blobs["label"].data) == {2}
    assert seen[0].labels.tolist() == [i % 3 for i in range(30)]


# ---- Sync and stop conditions ----

def local(above):
    return (f"strategy {{ type: 'local' sync_condition {{ type: 'moved' "
            f"param {{ key: 'above' value: {above} }} }} }} ")


def test_a_sync_condition_merges(session, calls):
    losses_of(session(local(0.05)))
    merges = [number for kind, number in (call[:2] for call in calls) if kind == "merging"]
    assert 1 < len(merges) < 20 and max(merges) > 1
    calls.clear()
    losses_of(session(local(0)))
    assert [call for call in calls if call[0] == "merging"] == [("merging", 1)] * 20


def test_snapshots_have_the_state_of_a_sync_condition(session, calls, tmp_path):
    text = local(0) + f"snapshot_prefix: '{tmp_path / 's'}'"
    first = session(text)
    first.step(4)
    state = first.snapshot()
    merges = sum(call[0] == "merging" for call in calls)
    session(text, snapshot=state).step()
    assert ("restore", [merges]) in calls


def test_exceptions_of_conditions(session):
    with pytest.raises(LookupError, match="in fires") as error:
        losses_of(session(local(77)))
    assert "own_parts.py" in lines_of(error)
    with pytest.raises(millrace.Error, match="above"):
        session("strategy { type: 'local' sync_condition { type: 'moved' } }")
    with pytest.raises(LookupError, match="in after_iteration"):
        session("stop_condition { type: 'enough' param { key: 'iterations' value: 66 } }").step()


def test_the_state_of_a_call_ends_with_it(session):
    kept = []

    @millrace.register_sync_condition("keeps")
    class Keeps(millrace.SyncCondition):
        def fires(self, state):
            kept.append((state, state.weights))
            return False

    session("strategy { type: 'local' sync_condition { type: 'keeps' } }").step()
    gc.collect()
    state, weights = kept[0]
    assert np.isfinite(weights).all() and state.iterations == 1
    with pytest.raises(millrace.Error, match="its call has ended"):
        state.base


def test_a_stop_condition_ends_the_run(session):
    assert len(losses_of(session("stop_condition { type: 'enough' }"))) == 7
    test_net = SOLVER[SOLVER.index("train_net_param"):SOLVER.index("base_lr")].replace(
        "train_net_param", "test_net_param")
    own = session("stop_condition { type: 'enough' param { key: 'loss' value: 100 } }"
                  "test_iter: 1 test_interval: 1000", SOLVER + test_net)
    assert own.step() is not None
    own.test()
    assert own.step() is None


# ---- Together ----

ALL = local(0.01) + """type: 'Momentum' sampler { type: 'backwards' }
  stop_condition { type: 'enough' param { key: 'iterations' value: 2000 } } """


def test_a_run_with_several_solvers(write, calls):
    run = millrace.Run(write("run.prototxt", SOLVER.replace("20", "400") + ALL), cpus=2)
    result = run.wait()
    assert result["iteration"] == 400 and np.isfinite(result["loss"])
    assert {call[0] for call in calls} >= {"read", "apply", "merging"}
    failing = SOLVER.replace("20", "400") + "sampler { type: 'backwards' param {" \
        " key: 'fails_at' value: 12 } }"
    with pytest.raises((LookupError, millrace.Error), match="in record"):
        millrace.Run(write("failing.prototxt", failing), cpus=2).wait()


def test_calls_of_a_run_do_not_wait_for_its_conditions(write, calls):
    entered, leaves = threading.Event(), threading.Event()

    @millrace.register_stop_condition("waits")
    class Waits(millrace.StopCondition):
        def after_iteration(self, run):
            entered.set()
            leaves.wait(120)

    run = millrace.Run(write("run.prototxt", SOLVER + "stop_condition { type: 'waits' }"))
    assert entered.wait(120)
    run.status()
    run.stop()
    leaves.set()
    wait_until(lambda: run.wait_for(0.01))


def test_a_class_that_is_registered_again_replaces_the_former(session):
    for limit in (3, 5):
        class Limit(millrace.StopCondition):
            most = limit

            def after_iteration(self, run):
                return "enough" if run.iterations >= self.most else None

        millrace.register_stop_condition("limit")(Limit)
        assert len(losses_of(session("stop_condition { type: 'limit' }"))) == limit

    Limit.parameters = {"other": 1}
    with pytest.raises(millrace.Error, match="stop condition limit: has been registered with"):
        millrace.register_stop_condition("limit")(Limit)


def run_script(text):
    return subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=300,
                          check=False)


@pytest.mark.parametrize("text, says", [
    ("millrace.register_sampler('shuffle')(type('S', (millrace.Sampler,), {}))",
     "millrace.Error: sampler shuffle: two of them have this name"),
    ("millrace.register_source('Upper Case')(list)", "millrace.Error: data source type"),
    ("millrace.register_rule('R')(list)", "derived from millrace.UpdateRule"),
    ("millrace.register_rule('R')(type('R', (millrace.UpdateRule,), {'slots': 99}))",
     "slots is 99, expected 0 to 16"),
])
def test_wrong_registrations_are_refused(text, says):
    run = run_script("import millrace\n" + text)
    assert run.returncode == 1 and says in run.stderr.splitlines()[-1], run.stderr


def test_examples_of_the_documents_train(write, tmp_path):
    with open(os.path.join(ROOT, "docs/python.md"), encoding="utf-8") as file:
        blocks = re.findall(r"```python\n(.*?)```", file.read(), re.DOTALL)
    blocks = [block for block in blocks if "@millrace.register_" in block]
    assert len(blocks) == 5
    for block in blocks:
        exec(compile(block, "docs/python.md", "exec"), {})
    write("points.csv", "".join(f"{i % 2},{i % 2 + 0.1 * (i % 5)},{-(i % 2)}\n" for i in range(40)))
    text = SOLVER.replace("squares:30", f"csv:{tmp_path / 'points.csv'}")
    net = text[text.index("train_net_param"):text.index("base_lr")]
    text += net.replace("train_net_param", "test_net_param") + """test_iter: 8 test_interval: 1000
      type: 'Lion' custom_param { key: 'beta2' value: '0.98' }
      sampler { type: 'curriculum' param { key: 'epochs' value: 2 } }
      strategy { type: 'local' sync_condition { type: 'furthest'
        param { key: 'above' value: 0.01 } } }
      stop_condition { type: 'falling' }"""
    session = millrace.Session(write("solver.prototxt", text.replace("base_lr: 0.1",
                                                                     "base_lr: 0.02")))
    losses = losses_of(session)
    assert len(losses) == 20 and losses[-1] < losses[0]
    assert session.test()[0][1] < losses[0]
