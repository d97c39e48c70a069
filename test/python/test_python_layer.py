"""Layers of type "Python"."""
import gc
import traceback

import numpy as np
import pytest

import caffe
import layers_for_tests
import millrace

INPUT = """name: 'n' force_backward: true
layer { name: 'in' type: 'Input' top: 'x' input_param { shape { dim: 2 dim: 3 } } }
"""


def layer(name, kind, param="", bottoms=("x",), top="y", more=""):
    reads = " ".join(f"bottom: '{bottom}'" for bottom in bottoms)
    return (f"layer {{ name: '{name}' type: 'Python' {reads} top: '{top}' {more} python_param {{"
            f" module: 'layers_for_tests' layer: '{kind}' param_str: '{param}' }} }}\n")


@pytest.fixture
def net_of(write):
    return lambda text, phase=caffe.TEST: caffe.Net(write("net.prototxt", text), phase)


def test_passes_and_shapes(net_of):
    net = net_of(INPUT + layer("a", "Scale", "3") + layer("b", "Scale", "2", ["y"], "z"))
    net.blobs["x"].data[...] = 5
    assert np.all(net.forward()["z"] == 30)
    net.blobs["z"].diff[...] = 1
    assert np.all(net.backward()["x"] == 6)
    net.blobs["x"].reshape(4, 1, 2)
    net.blobs["x"].data[...] = 1
    assert net.forward()["z"].shape == (4, 1, 2) and np.all(net.blobs["z"].data == 6)


def test_learnable_arrays(net_of, tmp_path):
    net = net_of(INPUT + layer("a", "Bias"))
    assert np.all(net.params["a"][0].data == 2)
    net.blobs["x"].data[...] = 1
    assert np.all(net.forward()["y"] == 3)
    net.blobs["y"].diff[...] = 1
    net.backward()
    net.backward()
    assert net.params["a"][0].diff[0] == 12
    net.params["a"][0].data[...] = 7
    net.save(str(tmp_path / "m"))
    other = net_of(INPUT + layer("a", "Bias"))
    other.copy_from(str(tmp_path / "m"))
    assert np.all(other.params["a"][0].data == 7)


def test_the_phase(net_of):
    for phase in (caffe.TRAIN, caffe.TEST):
        assert net_of(layer("p", "Phase", bottoms=()), phase).forward()["y"] == phase


def test_a_data_layer_changes_the_shapes_of_all(net_of):
    net = net_of(layer("in", "Batches", bottoms=()) + """
      layer { name: 'ip' type: 'InnerProduct' bottom: 'y' top: 'ip' inner_product_param {
              num_output: 2 weight_filler { type: 'constant' value: 1 } } }""")
    for number in range(1, 12):
        out = net.forward()["ip"]
        assert out.shape == ((number - 1) % 5 + 1, 2) and np.all(out == 3 * number)


def test_layers_of_a_net_are_the_objects(net_of):
    net = net_of(layer("in", "Batches", bottoms=()) + layer("a", "Bias", "", ["y"], "z"))
    batches, bias = net.layers
    assert isinstance(batches, layers_for_tests.Batches) and batches.type == "Python"
    batches.count = 3
    assert np.all(net.forward()["z"] == 6)
    assert net.layer_dict["a"] is bias
    bias.blobs[0].data[...] = 10
    assert np.all(net.forward()["z"] == 15)


SOLVER = """
base_lr: 0.05 lr_policy: 'fixed' momentum: 0.5 max_iter: 8 random_seed: 4
train_net_param { name: 'n'
  layer { name: 'in' type: 'DummyData' top: 'x' top: 't' dummy_data_param {
    shape { dim: 4 dim: 3 } shape { dim: 4 dim: 2 }
    data_filler { type: 'uniform' min: -1 max: 1 } data_filler { type: 'constant' value: 1 } } }
  layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'ip' inner_product_param {
    num_output: 2 weight_filler { type: 'xavier' } } }
  LOSS }
"""


def test_a_loss_in_python_trains_as_that_of_millrace(write):
    own = layer("loss", "EuclideanLoss", bottoms=("ip", "t"), top="loss", more="loss_weight: 1")
    built = "layer { name: 'loss' type: 'EuclideanLoss' bottom: 'ip' bottom: 't' top: 'loss' }"
    losses = []
    for number, loss in enumerate((own, built)):
        session = millrace.Session(write(f"s{number}.prototxt", SOLVER.replace("LOSS", loss)))
        losses.append([step.loss for step in iter(session.step, None)])
    assert len(losses[0]) == 8 and losses[0][-1] < losses[0][0]
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-5)


@pytest.mark.parametrize("method", ["setup", "reshape", "forward", "backward"])
def test_an_exception_of_a_layer_ends_the_call(net_of, method):
    text = INPUT + layer("a", "Fails", method)
    with pytest.raises(LookupError, match=f"in {method}") as error:
        net = net_of(text)
        net.forward()
        net.backward()
    lines = "".join(traceback.format_exception(error.type, error.value, error.tb))
    assert "layers_for_tests.py" in lines and "_fail" in lines


def test_a_net_goes_on_after_an_exception(net_of):
    net = net_of(INPUT + layer("a", "Fails", "forward"))
    for _ in range(3):
        with pytest.raises(LookupError):
            net.forward()
    net.forward(end="in")


def test_an_exception_ends_a_step(write):
    own = layer("loss", "Fails", "backward", ["ip"], "loss", "loss_weight: 1")
    session = millrace.Session(write("s.prototxt", SOLVER.replace("LOSS", own)))
    before = session.net.params["ip"][0].data.copy()
    with pytest.raises(LookupError, match="in backward"):
        session.step()
    np.testing.assert_array_equal(session.net.params["ip"][0].data, before)


@pytest.mark.parametrize("param, error, says", [
    ("module: 'no_such_module' layer: 'Scale'", ImportError, "no_such_module"),
    ("module: 'layers_for_tests' layer: 'Nothing'", AttributeError, "Nothing"),
    ("layer: 'Scale'", millrace.Error, "python_param.module"),
    ("module: 'layers_for_tests'", millrace.Error, "python_param.layer"),
    ("module: 'layers_for_tests' layer: 'Scale' param_str: 'x'", ValueError, "could not convert"),
])
def test_wrong_parameters(net_of, param, error, says):
    with pytest.raises(error, match=says):
        net_of(INPUT + f"layer {{ name: 'a' type: 'Python' bottom: 'x' top: 'y' "
                       f"python_param {{ {param} }} }}")


def test_what_a_layer_keeps_stays_valid(net_of):
    net = net_of(INPUT + layer("a", "Keeps", "2"))
    net.blobs["x"].data[...] = 4
    net.forward()
    del net
    gc.collect()
    bottom, top, view = layers_for_tests.kept
    assert np.all(view == 8)
    for blob in (bottom, top):
        with pytest.raises(millrace.Error, match="no longer exists"):
            blob.data
    layers_for_tests.kept.clear()


def test_a_layer_runs_another_net_but_not_its_own(net_of):
    net = net_of(INPUT + layer("a", "Reenters", "2"))
    try:
        layers_for_tests.Reenters.net = net_of(INPUT + layer("a", "Scale", "2"))
        net.forward()
        layers_for_tests.Reenters.net = net
        with pytest.raises(millrace.Error, match="in use"):
            net.forward()
    finally:
        layers_for_tests.Reenters.net = None
