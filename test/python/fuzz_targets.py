"""Entry points of the modules with arguments that hypothesis makes: a call returns or raises an
exception. test_fuzz.py runs each in a process of its own, which a fatal error would end."""
import contextlib
import io
import os
import resource
import shutil
import sys
import tempfile

import numpy as np
from hypothesis import HealthCheck, given, settings, strategies as st

import caffe
import millrace
from millrace import _millrace

FOLDER = tempfile.mkdtemp()
EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", 150))
resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))  # a MemoryError, not a busy machine

NET = """name: 'n' force_backward: true
layer { name: 'in' type: 'Input' top: 'x' input_param { shape { dim: 2 dim: 3 dim: 4 dim: 4 } } }
layer { name: 'conv' type: 'Convolution' bottom: 'x' top: 'conv' convolution_param {
  num_output: 2 kernel_size: 3 weight_filler { type: 'xavier' } } }
layer { name: 'ip' type: 'InnerProduct' bottom: 'conv' top: 'ip' inner_product_param {
  num_output: 2 weight_filler { type: 'xavier' } } }
layer { name: 'prob' type: 'Softmax' bottom: 'ip' top: 'prob' }
"""
MEMORY = """layer { name: 'd' type: 'MemoryData' top: 'x' top: 'l' memory_data_param {
  batch_size: 2 channels: 1 height: 2 width: 3 } }
"""
SOLVER = """train_net_param { name: 's'
  layer { name: 'in' type: 'DummyData' top: 'x' top: 'y' dummy_data_param {
    shape { dim: 4 dim: 3 } shape { dim: 4 dim: 2 } data_filler { type: 'uniform' } } }
  layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'ip' inner_product_param {
    num_output: 2 weight_filler { type: 'xavier' } } }
  layer { name: 'loss' type: 'EuclideanLoss' bottom: 'ip' bottom: 'y' top: 'loss' } }
base_lr: 0.01 lr_policy: 'step' gamma: 0.5 stepsize: 3 momentum: 0.9 max_iter: 1000 random_seed: 2
display: 0 snapshot_prefix: 'FOLDER/s' type: 'SGD'
"""

numbers = st.one_of(st.integers(-3, 6), st.integers(), st.floats(), st.booleans())
texts = st.one_of(st.sampled_from(["x", "conv", "ip", "prob", "in", ""]), st.text(max_size=9))
dtypes = st.sampled_from(["float32", "float64", "float16", "int8", "uint8", "int64", "bool", "U3",
                          "complex64", "object", ">f4"])
shapes = st.lists(st.integers(0, 5), max_size=6)


@st.composite
def arrays(draw):
    """Arrays of any kind, contiguous or not, aligned or not, some of them read-only."""
    shape, dtype = draw(shapes), draw(dtypes)
    array = np.zeros(shape, dtype)
    change = draw(st.integers(0, 6))
    if change == 1:
        array = array.T
    elif change == 2 and array.ndim:
        array = array[::-1]
    elif change == 3 and array.ndim:
        array = array[..., ::2]
    elif change == 4:
        array.flags.writeable = False
    elif change == 5 and not array.dtype.hasobject:
        array = np.zeros(array.nbytes + 1, np.uint8)[1:].view(dtype).reshape(shape)
    elif change == 6:
        array = np.broadcast_to(np.zeros((), dtype), shape)
    return array


things = st.one_of(numbers, texts, arrays(), st.none(), st.lists(numbers, max_size=3),
                   st.binary(max_size=20), st.dictionaries(texts, numbers, max_size=2))


@st.composite
def damage(draw, content):
    """`content`, text or bytes, with parts replaced, left out or doubled."""
    for _ in range(draw(st.integers(1, 3))):
        begin = draw(st.integers(0, len(content)))
        end = min(len(content), begin + draw(st.integers(0, 30)))
        kind = draw(st.integers(0, 3))
        if isinstance(content, str):
            new = draw(st.one_of(st.text(max_size=4), st.sampled_from(
                ["-1", "0", "99999999999", "1e40", "{", "}", "'", " dim: 0 ", "'x'", "nan"])))
        else:
            new = draw(st.binary(max_size=8))
        part = content[begin:end]
        content = content[:begin] + (new, part + part, new + part, part[:0])[kind] + content[end:]
    return content


def attempt(call, *arguments, **named):
    """Calls it; exceptions are what is expected. Returns its result or None."""
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            return call(*arguments, **named)
    except Exception as error:
        assert not isinstance(error, SystemError), error  # a result with an error set
        return None


def target(*made, **named):
    """A test of `EXAMPLES` examples, the same in each run."""
    def decorate(function):
        return settings(max_examples=EXAMPLES, deadline=None, derandomize=True, database=None,
                        suppress_health_check=list(HealthCheck))(given(*made, **named)(function))
    return decorate


@target(damage(NET), st.booleans(), things, things, things)
def test_net_texts(text, train, level, stages, seed):
    net = attempt(millrace.Net.from_text, text, train=train)
    if net is not None:
        attempt(net.forward)
    attempt(millrace.Net.from_text, NET, level=level, stages=stages, seed=seed)
    attempt(millrace.Net, level)
    attempt(caffe.Net, stages, seed, level)


@target(st.lists(st.tuples(st.integers(0, 11), things, things, arrays()), max_size=6))
def test_nets(calls):
    net = millrace.Net.from_text(NET)
    for kind, one, other, array in calls:
        if isinstance(one, int) and one > 1000:
            one <<= 32  # no gigabytes
        blob = net.blobs[one] if isinstance(one, str) and one in net.blobs else net.blob("x")
        attempt((
            lambda: blob.reshape(one), lambda: blob.reshape(*array.shape),
            lambda: blob.reshape(one, other), lambda: setattr(blob, "data", one),
            lambda: setattr(blob, "diff", array), lambda: net.forward(one, other),
            lambda: net.backward_layers(one, other), lambda: net.blob(one),
            lambda: net.params["ip"][0].reshape(one), lambda: net.share_weights(one),
            lambda: net.load(one), lambda: net.reshape())[kind])
        attempt(net.forward)
        attempt(net.backward)
        attempt(lambda: (blob.data, blob.diff))  # NumPy 2 has no array of 0 times too many values
        blob.shape


@target(st.lists(st.tuples(texts, things), max_size=3), things, things, arrays())
def test_pycaffe_nets(pairs, start, end, array):
    with open(os.path.join(FOLDER, "n.prototxt"), "w", encoding="utf-8") as file:
        file.write(NET)
    net = caffe.Net(file.name, caffe.TEST)
    attempt(net.forward, start=start, end=end)
    attempt(net.forward, blobs=start, **dict(pairs))
    attempt(net.forward, x=array)
    attempt(net.forward_all, x=array)
    attempt(net.backward, prob=array)
    attempt(net.forward_backward_all, x=array, prob=array)
    attempt(net.copy_from, start)
    attempt(net.share_with, start)
    attempt(net.set_input_arrays, array, array)
    attempt(net.save, start if not isinstance(start, (str, int)) else None)
    transformer = attempt(caffe.io.Transformer, {"x": net.blobs["x"].data.shape})
    attempt(transformer.preprocess, "x", array)
    attempt(transformer.set_mean, "x", array)
    attempt(caffe.io.array_to_blobproto, array)
    attempt(caffe.io.array_to_datum, array)


@target(arrays(), arrays(), texts)
def test_memory_data(data, labels, layer):
    net = millrace.Net.from_text(MEMORY)
    attempt(net.set_memory_data, "d", data, labels)
    attempt(net.set_memory_data, layer, data, labels)
    attempt(net.forward)


@target(damage(SOLVER), things, things)
def test_sessions(text, one, other):
    session = attempt(millrace.Session.from_text, text.replace("FOLDER", FOLDER))
    if session is not None:
        attempt(session.step)
    session = millrace.Session.from_text(SOLVER.replace("FOLDER", FOLDER))
    attempt(millrace.Session.from_text, SOLVER, weights=one, shard=other)
    attempt(millrace.Session.from_text, SOLVER, topology=one, node=other)
    attempt(session.on_gradients, one)
    attempt(session.step, one if not isinstance(one, int) or one < 5 else 5)
    attempt(session.test, one)
    attempt(session.restore, one)
    attempt(session.set_schedule, one)
    attempt(session.set_schedule, text)
    attempt(session.set_memory_data, one, other, other)
    attempt(session.on_gradients, None)
    attempt(session.step)


@target(arrays(), things, things)
def test_streams(array, one, other):
    attempt(millrace.stream, array, topology=os.path.join(FOLDER, "none.prototxt"))
    attempt(millrace.stream, one, topology=other, node=one)
    attempt(millrace.empty, one)
    attempt(_millrace.ProcessGroup, "a", one, other, 5, seconds=0.01)
    attempt(_millrace.ProcessGroup, one, 0, 1, other)
    group = _millrace.ProcessGroup("fuzz" + str(os.getpid()), 0, 1, 60)
    attempt(group.average, [array])
    attempt(group.broadcast, [array, one])
    attempt(group.average, one)


@target(things, things, arrays(), st.integers(0, 4))
def test_parts(one, other, array, kind):
    returned = (one, (array, 1), (array, one), (one, other), other)[kind]
    millrace.register_source("fuzz")(lambda path: [returned, (np.zeros(2), 0)])
    net = attempt(millrace.Net.from_text, """layer { name: 'd' type: 'Data' top: 'x' top: 'l'
        data_param { source: 'fuzz:x' batch_size: 2 } }""")
    if net is not None:
        attempt(net.forward)
    millrace.register_source("fuzz")(lambda path: one)
    attempt(millrace.Net.from_text, """layer { name: 'd' type: 'Data' top: 'x' top: 'l'
        data_param { source: 'fuzz:x' batch_size: 2 } }""")

    @millrace.register_rule("Fuzz")
    class Rule(millrace.UpdateRule):
        slots = 1

        def apply(self, update):
            attempt(setattr, update, "weights", one)
            attempt(update.history[0].resize, array.shape, refcheck=False)
            attempt(update.weights.resize, array.shape, refcheck=False)
            attempt(setattr, update.gradients, "shape", array.shape)
            return other

    session = millrace.Session.from_text(SOLVER.replace("'SGD'", "'Fuzz'").replace(
        "momentum: 0.9", "").replace("FOLDER", FOLDER))
    attempt(session.step)
    attempt(millrace.register_rule, one)
    attempt(millrace.register_rule(one), other)


def damaged_file(name, load, source):
    """A test of load(path) for damaged copies of the file `source`."""
    with open(source, "rb") as file:
        content = file.read()

    @target(damage(content))
    def test(changed):
        path = os.path.join(FOLDER, name)
        with open(path, "wb") as file:
            file.write(changed)
        attempt(load, path)
    return test


def fixture(name):
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "../caffe/fixture", name)


def make_files():
    net = millrace.Net.from_text(NET)
    net.save(os.path.join(FOLDER, "good.caffemodel"))
    net.save(os.path.join(FOLDER, "good.h5"))
    made = []
    for form in ("BINARYPROTO", "HDF5"):
        session = millrace.Session.from_text(
            SOLVER.replace("FOLDER/s", f"{FOLDER}/{form}") + f"snapshot_format: {form}")
        session.step(2)
        made.append(session.snapshot())
    return made


STATE, STATE_HDF5 = make_files()
test_model_files = damaged_file("bad.caffemodel", lambda path: millrace.Net.from_text(
    NET, weights=path), os.path.join(FOLDER, "good.caffemodel"))
test_hdf5_files = damaged_file("bad.h5", lambda path: millrace.Net.from_text(NET, weights=path),
                               os.path.join(FOLDER, "good.h5"))
test_state_files = damaged_file("BINARYPROTO_iter_2.solverstate", lambda path: (
    millrace.Session.from_text(SOLVER.replace("FOLDER", FOLDER), snapshot=path)), STATE)
test_state_hdf5_files = damaged_file("HDF5_iter_2.solverstate.h5", lambda path: (
    millrace.Session.from_text(SOLVER.replace("FOLDER", FOLDER), snapshot=path)), STATE_HDF5)
test_mean_files = damaged_file("mean.binaryproto", lambda path: millrace.Net.from_text(
    f"""layer {{ name: 'd' type: 'ImageData' top: 'x' top: 'l' transform_param {{
    mean_file: '{path}' }} image_data_param {{ source: '{path}' batch_size: 1 }} }}"""),
    fixture("mean.binaryproto"))

TARGETS = sorted(name for name, value in globals().items() if name.startswith("test_"))

if __name__ == "__main__":
    os.chdir(FOLDER)  # some calls write files
    try:
        globals()[sys.argv[1]]()
    finally:
        shutil.rmtree(FOLDER)
