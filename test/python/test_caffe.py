"""The package caffe: what scripts written for pycaffe call."""
import os
import subprocess
import sys

import numpy as np
import pytest

import caffe
import millrace
from caffe import layers as L
from caffe import params as P
from caffe.proto import caffe_pb2
from google.protobuf import text_format

DEPLOY = """
name: 'two' force_backward: true
layer { name: 'in' type: 'Input' top: 'data' input_param { shape { dim: 4 dim: 3 dim: 8 dim: 8 } } }
layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'conv' convolution_param {
  num_output: 5 kernel_size: 3 weight_filler { type: 'gaussian' std: 0.1 } } }
layer { name: 'relu' type: 'ReLU' bottom: 'conv' top: 'conv' }
layer { name: 'ip' type: 'InnerProduct' bottom: 'conv' top: 'ip' inner_product_param {
  num_output: 10 weight_filler { type: 'gaussian' std: 0.1 } } }
layer { name: 'prob' type: 'Softmax' bottom: 'ip' top: 'prob' }
"""


@pytest.fixture
def deploy(write):
    return write("deploy.prototxt", DEPLOY)


@pytest.fixture
def weights(deploy, tmp_path):
    path = str(tmp_path / "two.caffemodel")
    millrace.Net(deploy, seed=7).save(path)
    return path


def test_forward_equals_that_of_millrace(deploy, weights):
    images = np.random.rand(4, 3, 8, 8).astype(np.float32)
    net = caffe.Net(deploy, caffe.TEST, weights=weights)
    out = net.forward(data=images, blobs=["conv"])
    other = millrace.Net(deploy, weights=weights)
    other.blobs["data"].data[...] = images
    other.forward()
    assert set(out) == {"prob", "conv"}
    for name, values in out.items():
        np.testing.assert_array_equal(values, other.blobs[name].data)


@pytest.mark.parametrize("arguments, named", [
    ((caffe.TEST,), {"weights": True}), (("weights", caffe.TEST), {}),
    ((caffe.TEST, 0, ["a"], "weights"), {}), ((), {"phase": caffe.TEST, "weights": True})])
def test_all_signatures_of_net(deploy, weights, arguments, named):
    given = [weights if each == "weights" else each for each in arguments]
    if named.get("weights"):
        named = {**named, "weights": weights}
    net = caffe.Net(deploy, *given, **named)
    expected = caffe.Net(deploy, caffe.TEST)
    expected.copy_from(weights)
    np.testing.assert_array_equal(net.params["conv"][0].data, expected.params["conv"][0].data)


def test_wrong_arguments_of_net(deploy, tmp_path):
    for arguments in ((), (deploy,), (deploy, 0, 0, None, None, 1)):
        with pytest.raises(TypeError):
            caffe.Net(*arguments)
    with pytest.raises(RuntimeError, match="none.prototxt"):
        caffe.Net(str(tmp_path / "none.prototxt"), caffe.TEST)
    with pytest.raises(RuntimeError, match="none.caffemodel"):
        caffe.Net(deploy, str(tmp_path / "none.caffemodel"), caffe.TEST)


def test_names_and_shapes(deploy):
    net = caffe.Net(deploy, caffe.TEST)
    assert net.inputs == ["data"] and net.outputs == ["prob"]
    assert list(net._layer_names) == ["in", "conv", "relu", "ip", "prob"]
    assert list(net.blobs) == ["data", "conv", "ip", "prob"]
    assert list(net.params) == ["conv", "ip"]
    assert net.layer_dict["conv"].type == "Convolution"
    assert net.top_names["relu"] == net.bottom_names["relu"] == ["conv"]
    blob = net.blobs["data"]
    assert (blob.num, blob.channels, blob.height, blob.width, blob.count) == (4, 3, 8, 8, 768)
    assert tuple(blob.shape) == (4, 3, 8, 8)
    assert net.params["ip"][1].num == 10 and net.params["ip"][1].width == 1
    net.blobs["data"].reshape(1, 3, 8, 8)
    net.reshape()
    assert net.blobs["prob"].data.shape == (1, 10)


def test_splits_have_the_names_of_caffe(write):
    net = caffe.Net(write("n.prototxt", """
      layer { name: 'in' type: 'Input' top: 'x' input_param { shape { dim: 2 } } }
      layer { name: 'a' type: 'AbsVal' bottom: 'x' top: 'a' }
      layer { name: 'b' type: 'Exp' bottom: 'x' top: 'b' }"""), caffe.TEST)
    assert list(net._layer_names) == ["in", "x_in_0_split", "a", "b"]
    assert list(net.blobs) == ["x", "x_in_0_split_0", "x_in_0_split_1", "a", "b"]
    net.blobs["x"].data[...] = [-1, 2]
    out = net.forward()
    np.testing.assert_allclose(out["a"], [1, 2])
    np.testing.assert_allclose(out["b"], np.exp([-1, 2]), rtol=1e-6)


def test_forward_and_backward_of_a_range(deploy):
    net = caffe.Net(deploy, caffe.TEST)
    conv = np.random.rand(4, 5, 6, 6).astype(np.float32)
    net.blobs["conv"].data[...] = conv
    out = net.forward(start="ip", end="ip")
    assert list(out) == ["ip"]
    weights, bias = (blob.data for blob in net.params["ip"])
    np.testing.assert_allclose(out["ip"], conv.reshape(4, -1) @ weights.T + bias, rtol=1e-4,
                               atol=1e-5)
    gradient = np.random.rand(4, 10).astype(np.float32)
    net.blobs["ip"].diff[...] = gradient
    diffs = net.backward(start="ip", end="ip")
    np.testing.assert_allclose(diffs["conv"], (gradient @ weights).reshape(conv.shape), rtol=1e-4,
                               atol=1e-5)
    with pytest.raises(ValueError, match="no layer 'nothing'"):
        net.forward(end="nothing")


def test_backward_from_a_given_gradient_reaches_the_input(deploy):
    net = caffe.Net(deploy, caffe.TEST)
    images = np.random.rand(4, 3, 8, 8).astype(np.float32)
    base = net.forward(data=images)["prob"].copy()
    chosen = np.zeros((4, 10), np.float32)
    chosen[:, 3] = 1
    gradient = net.backward(prob=chosen)["data"].copy()
    step = 1e-2 * np.sign(gradient)
    moved = net.forward(data=images + step)["prob"]
    expected = np.sum(gradient * step, axis=(1, 2, 3))
    np.testing.assert_allclose(moved[:, 3] - base[:, 3], expected, rtol=0.2)


def test_forward_all_takes_any_number_of_images(deploy, weights):
    net = caffe.Net(deploy, weights, caffe.TEST)
    images = np.random.rand(10, 3, 8, 8).astype(np.float32)
    scores = net.forward_all(data=images)["prob"]
    assert scores.shape == (10, 10)
    np.testing.assert_allclose(scores[8], net.forward_all(data=images[8:])["prob"][0], rtol=1e-6)
    with pytest.raises(ValueError, match="expected \\['data'\\]"):
        net.forward(image=images)
    with pytest.raises(ValueError, match="batch"):
        net.forward(data=images)
    values, diffs = net.forward_backward_all(data=images, prob=np.ones((10, 10), np.float32))
    assert values["prob"].shape == (10, 10) and diffs["data"].shape == images.shape


def test_weights_are_saved_in_both_formats(deploy, weights, tmp_path):
    net = caffe.Net(deploy, weights, caffe.TEST)
    for path in ("a.caffemodel", "b.h5", "c"):
        net.save(str(tmp_path / path))
        model = caffe_pb2.NetParameter()
        model.ParseFromString((tmp_path / path).read_bytes())
        layer = [layer for layer in model.layer if layer.name == "ip"][0]
        np.testing.assert_array_equal(caffe.io.blobproto_to_array(layer.blobs[0]),
                                      net.params["ip"][0].data)
    for path in ("d.h5", "e"):
        net.save_hdf5(str(tmp_path / path))
        assert (tmp_path / path).read_bytes().startswith(b"\x89HDF")
        other = caffe.Net(deploy, caffe.TEST)
        other.load_hdf5(str(tmp_path / path))
        np.testing.assert_array_equal(other.params["ip"][0].data, net.params["ip"][0].data)


def test_surgery_and_sharing(deploy, weights):
    net, other = caffe.Net(deploy, weights, caffe.TEST), caffe.Net(deploy, caffe.TEST)
    other.params["conv"][0].data.flat = net.params["conv"][0].data.flat
    np.testing.assert_array_equal(other.params["conv"][0].data, net.params["conv"][0].data)
    other.share_with(net)
    net.params["ip"][1].data[...] = 5
    assert np.all(other.params["ip"][1].data == 5)
    net.forward(data=np.random.rand(4, 3, 8, 8))
    net.blobs["prob"].diff[...] = np.random.rand(4, 10)
    net.backward()
    assert net.params["ip"][0].diff.any()
    net.clear_param_diffs()
    assert not net.params["ip"][0].diff.any()


def test_the_arrays_of_a_layer_are_a_vector(deploy, weights):
    net, other = caffe.Net(deploy, caffe.TEST), caffe.Net(deploy, weights, caffe.TEST)
    blobs = net.params["ip"]
    assert type(blobs) is caffe._caffe.BlobVec and len(blobs) == 2
    assert blobs[-1].shape == blobs[1].shape == list(blobs)[1].shape
    with pytest.raises(IndexError):
        blobs[2]
    # An assignment makes a layer use another's array, as in pycaffe.
    for layer, theirs in zip(net.layers, other.layers):
        for index, blob in enumerate(theirs.blobs):
            layer.blobs[index] = blob
    image = np.random.rand(*net.blobs[net.inputs[0]].shape)
    name = net.inputs[0]
    expected = other.forward(**{name: image})
    del other
    for output, values in net.forward(**{name: image}).items():
        np.testing.assert_array_equal(values, expected[output])
    with pytest.raises(RuntimeError, match="blobs: an array of shape .* given"):
        net.params["ip"][0] = net.params["ip"][1]
    with pytest.raises(RuntimeError, match="learnable array of a net"):
        net.params["ip"][0] = net.blobs[name]


def test_modules_of_pycaffe_have_its_names():
    assert caffe._caffe.Net is caffe.pycaffe.Net is caffe.Net
    assert caffe.pycaffe.SGDSolver is caffe._caffe.SGDSolver is caffe.SGDSolver
    assert issubclass(caffe.Classifier, caffe._caffe.Net)
    assert "Convolution" in caffe._caffe.layer_type_list()
    assert caffe.net_spec.param_name_dict()["InnerProduct"] == "inner_product"
    with pytest.raises(AttributeError, match="'caffe.io' has no attribute 'images'"):
        caffe.io.images


def test_weights_of_losses_by_blob(write):
    net = caffe.Net(write("n.prototxt", """
      layer { name: 'in' type: 'Input' top: 'x' top: 'y' input_param { shape { dim: 2 dim: 3 } shape { dim: 2 dim: 3 } } }
      layer { name: 'loss' type: 'EuclideanLoss' bottom: 'x' bottom: 'y' top: 'loss' loss_weight: 2.5 }"""),
                    caffe.TEST)
    assert dict(net.blob_loss_weights) == {"x": 0, "y": 0, "loss": 2.5}
    assert net._blob_loss_weights[list(net._blob_names).index("loss")] == 2.5


def test_layers_call_back(deploy):
    net = caffe.Net(deploy, caffe.TEST)
    seen = []
    net.before_forward(lambda layer: seen.append(("f", layer)))
    net.after_backward(lambda layer: seen.append(("b", layer)))
    net.forward(start="relu", end="ip")
    net.backward(start="ip", end="ip")
    assert seen == [("f", 2), ("f", 3), ("b", 3)]


def test_scores_are_those_that_caffe_printed(caffe_fixture):
    net = caffe.Net(str(caffe_fixture / "net.prototxt"),
                    str(caffe_fixture / "caffe_iter_60.caffemodel"), caffe.TEST)
    rows = [line.split() for line in (caffe_fixture / "scores.txt").read_text().splitlines()]
    for batch in range(4):
        out = net.forward()
        for name in ("accuracy", "loss", "probability"):
            expected = [float(row[2]) for row in rows if row[:2] == [str(batch), name]]
            np.testing.assert_allclose(out[name].ravel(), expected, rtol=1e-5, atol=1e-5)


def test_solver_steps_as_caffe_did(caffe_fixture, capfd):
    solver = caffe.SGDSolver(str(caffe_fixture / "solver.prototxt"))
    solver.net.copy_from(str(caffe_fixture / "caffe_iter_0.caffemodel"))
    lines = [line.split() for line in (caffe_fixture / "train.txt").read_text().splitlines()]
    for iteration, loss, rate in lines:
        assert solver.iter == int(iteration) and solver.lr == pytest.approx(float(rate))
        solver.step(1)
        assert float(solver.net.blobs["loss"].data) == pytest.approx(float(loss), rel=1e-4,
                                                                     abs=1e-5)
        if solver.iter == 38:
            trained = caffe.Net(str(caffe_fixture / "net.prototxt"),
                                str(caffe_fixture / "caffe_iter_38.caffemodel"), caffe.TRAIN)
            for name, blobs in trained.params.items():
                for own, other in zip(solver.net.params[name], blobs):
                    np.testing.assert_allclose(own.data, other.data, atol=1e-5)
    assert "Test net output" in capfd.readouterr().err
    assert os.path.exists(caffe_fixture / "ours_iter_38.caffemodel")


SOLVER = """
train_net_param {
  layer { name: 'in' type: 'DummyData' top: 'x' top: 'y' dummy_data_param {
    shape { dim: 4 dim: 3 } shape { dim: 4 dim: 2 }
    data_filler { type: 'constant' value: 1 } data_filler { type: 'constant' value: 1 } } }
  layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'ip' inner_product_param {
    num_output: 2 weight_filler { type: 'gaussian' } } }
  layer { name: 'loss' type: 'EuclideanLoss' bottom: 'ip' bottom: 'y' top: 'loss' } }
test_net_param { layer { name: 'in' type: 'DummyData' top: 'x' dummy_data_param {
  shape { dim: 4 dim: 3 } } }
  layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'ip' inner_product_param {
    num_output: 2 } } }
base_lr: 0.01 lr_policy: 'fixed' max_iter: 6 snapshot: 4 test_iter: 1 test_interval: 3
"""


@pytest.fixture
def solver_file(write, tmp_path):
    return write("solver.prototxt", SOLVER + f"snapshot_prefix: '{tmp_path / 's'}'")


@pytest.mark.parametrize("name", ["SGDSolver", "NesterovSolver", "AdaGradSolver", "RMSPropSolver",
                                  "AdaDeltaSolver", "AdamSolver", "get_solver"])
def test_solvers(solver_file, tmp_path, name):
    solver = getattr(caffe, name)(solver_file)
    assert solver.param.max_iter == 6 and len(solver.test_nets) == 1
    before = float(solver.net.forward()["loss"])
    solver.solve()
    assert solver.iter == 6
    assert float(solver.net.forward()["loss"]) < before
    for number in (4, 6):
        assert (tmp_path / f"s_iter_{number}.solverstate").exists()
    solver.step(2)  # as in Caffe, beyond max_iter
    assert solver.iter == 8
    solver.restore(str(tmp_path / "s_iter_4.solverstate"))
    assert solver.iter == 4
    np.testing.assert_array_equal(solver.test_nets[0].params["ip"][0].data,
                                  solver.net.params["ip"][0].data)


def test_the_rule_of_a_solver_class_is_its_own(solver_file):
    steps = []
    for solver in (caffe.AdamSolver(solver_file), caffe.SGDSolver(solver_file)):
        bias = solver.net.params["ip"][1]
        bias.diff[...] = 3
        solver.net.params["ip"][0].diff[...] = 0
        solver.apply_update()
        steps.append(float(-bias.data[0]))
    assert steps == [pytest.approx(0.01, rel=1e-3), pytest.approx(0.03, rel=1e-3)]


def test_changes_of_param_take_effect(solver_file, capfd):
    solver = caffe.SGDSolver(solver_file)
    solver.param.base_lr = 0.5
    solver.param.display = 2
    assert solver.lr == pytest.approx(0.5)
    solver.step(3)
    printed = capfd.readouterr().err
    assert "Iteration 2, loss" in printed and "lr = 0.5" in printed
    solver.param.lr_policy = "step"
    solver.param.gamma, solver.param.stepsize = 0.1, 2
    assert solver.lr == pytest.approx(0.05)
    solver.param.max_iter = 5
    solver.solve()
    assert solver.iter == 5
    solver.param.lr_policy = "nonsense"
    with pytest.raises(RuntimeError, match='lr_policy: there is no policy "nonsense"'):
        solver.step(1)
    solver.param.lr_policy = "fixed"
    solver.param.momentum = 0.3
    with pytest.raises(RuntimeError, match="solver.param.momentum: has changed"):
        solver.step(1)


def test_the_rate_of_param_is_that_of_the_update(solver_file):
    with open(solver_file, "a", encoding="utf-8") as file:
        file.write(" random_seed: 4")
    steps = []
    for rate in (0.01, 0.3):
        solver = caffe.SGDSolver(solver_file)
        before = solver.net.params["ip"][1].data.copy()
        solver.param.base_lr = rate
        solver.step(1)
        steps.append(before - solver.net.params["ip"][1].data)
    np.testing.assert_allclose(steps[1], 30 * steps[0], rtol=1e-4)


def test_solver_callbacks(solver_file):
    solver = caffe.SGDSolver(solver_file)
    calls = []
    solver.add_callback(lambda: calls.append("start"), lambda: calls.append("ready"))
    solver.step(2)
    assert calls == ["start", "ready"] * 2


def test_random_seed(deploy, solver_file):
    def values(seed):
        caffe.set_random_seed(seed)
        return (caffe.Net(deploy, caffe.TEST).params["ip"][0].data,
                caffe.SGDSolver(solver_file).net.params["ip"][0].data)
    try:
        for one, same, other in zip(values(3), values(3), values(4)):
            np.testing.assert_array_equal(one, same)
            assert not np.array_equal(one, other)
    finally:
        caffe.net.seed = None


def test_bad_solver_files(write):
    for maker in (caffe.SGDSolver, caffe.get_solver):
        with pytest.raises(RuntimeError, match="s.prototxt:1"):
            maker(write("s.prototxt", "nothing: 1"))
    with pytest.raises(OSError):
        caffe.SGDSolver("none.prototxt")


def test_mode_and_the_rest():
    caffe.set_mode_cpu()
    with pytest.warns(UserWarning, match="CPU"):
        caffe.set_mode_gpu()
    caffe.set_device(0)
    assert {"Data", "Convolution", "InnerProduct", "Python"} <= set(caffe.layer_type_list())
    assert (caffe.TRAIN, caffe.TEST) == (0, 1)
    caffe.log("a line")


@pytest.mark.parametrize("level, begins", [(None, True), ("0", True), ("1", False), ("2", False)])
def test_glog_minloglevel_silences_solvers(write, level, begins):
    net = write("n.prototxt", """
      layer { name: 'd' type: 'DummyData' top: 'd' dummy_data_param { shape { dim: 2 dim: 3 } } }
      layer { name: 'f' type: 'InnerProduct' bottom: 'd' top: 'f'
              inner_product_param { num_output: 1 } }
      layer { name: 'l' type: 'EuclideanLoss' bottom: 'f' bottom: 'f' top: 'l' }""")
    solver = write("s.prototxt", f"net: '{net}' base_lr: 0.1 lr_policy: 'fixed' max_iter: 2 "
                                 "display: 1 test_iter: 1 test_interval: 1 snapshot_prefix: 's'")
    script = "import caffe, sys; s = caffe.SGDSolver(sys.argv[1]); s.step(1)"
    environment = {**os.environ, **({} if level is None else {"GLOG_minloglevel": level})}
    result = subprocess.run([sys.executable, "-c", script, solver], env=environment,
                            capture_output=True, text=True, check=True)
    assert ("Iteration 0, loss = " in result.stderr) == begins
    assert ("Iteration 0, Testing net (#0)" in result.stderr) == begins


def test_init_log_silences_solvers(capfd, write):
    net = write("n.prototxt", "layer { name: 'd' type: 'DummyData' top: 'd' "
                              "dummy_data_param { shape { dim: 1 } } }")
    solver = caffe.SGDSolver(write("s.prototxt", f"net: '{net}' base_lr: 0.1 lr_policy: 'fixed' "
                                                 "max_iter: 9 display: 1"))
    for level in (0, 1, 0):
        caffe.init_log(level)
        solver.step(1)
    millrace.set_log_level(1)
    lines = capfd.readouterr().err
    assert "Iteration 0, loss" in lines and "Iteration 2, loss" in lines
    assert "Iteration 1, loss" not in lines


def test_memory_data(write):
    net = caffe.Net(write("m.prototxt", """
      layer { name: 'm' type: 'MemoryData' top: 'data' top: 'label'
              memory_data_param { batch_size: 2 channels: 1 height: 2 width: 2 } }"""), caffe.TEST)
    data = np.random.rand(4, 1, 2, 2).astype(np.float32)
    net.set_input_arrays(data, np.arange(4, dtype=np.float32))
    np.testing.assert_array_equal(net.forward()["data"], data[:2])
    np.testing.assert_array_equal(net.forward()["label"].ravel(), [2, 3])
    for bad in (data.astype(float), data[:, :, :, ::-1], data[:, :, :1].copy(), data[:3].copy()):
        with pytest.raises(RuntimeError):
            net.set_input_arrays(bad, np.zeros(len(bad), np.float32))


def lenet(batch):
    n = caffe.NetSpec()
    n.data, n.label = L.DummyData(shape=[dict(dim=[batch, 1, 28, 28]), dict(dim=[batch, 1])],
                                  ntop=2)
    n.conv1 = L.Convolution(n.data, kernel_size=5, num_output=20,
                            weight_filler=dict(type="xavier"),
                            param=[dict(lr_mult=1), dict(lr_mult=2)])
    n.pool1 = L.Pooling(n.conv1, kernel_size=2, stride=2, pool=P.Pooling.MAX)
    n.ip1 = L.InnerProduct(n.pool1, num_output=50, weight_filler=dict(type="xavier"))
    n.relu1 = L.ReLU(n.ip1, in_place=True)
    n.ip2 = L.InnerProduct(n.relu1, num_output=10, weight_filler=dict(type="xavier"))
    n.loss = L.SoftmaxWithLoss(n.ip2, n.label, include=dict(phase=caffe.TRAIN))
    return n.to_proto()


def test_net_spec_is_read_back(write):
    proto = lenet(3)
    parsed = text_format.Parse(str(proto), caffe_pb2.NetParameter())
    assert parsed == proto
    assert [layer.name for layer in proto.layer] == [
        "data", "conv1", "pool1", "ip1", "relu1", "ip2", "loss"]
    assert list(proto.layer[0].top) == ["data", "label"]
    assert proto.layer[1].convolution_param.kernel_size == [5]
    assert [spec.lr_mult for spec in proto.layer[1].param] == [1, 2]
    assert proto.layer[2].pooling_param.pool == caffe_pb2.PoolingParameter.MAX
    assert proto.layer[4].bottom == proto.layer[4].top == ["ip1"]
    net = caffe.Net(write("lenet.prototxt", str(proto)), caffe.TRAIN)
    assert net.forward()["loss"] == pytest.approx(np.log(10), abs=0.5)
    net = caffe.Net(write("lenet.prototxt", str(proto)), caffe.TEST)
    assert net.blobs["ip2"].shape == (3, 10) and "loss" not in net.blobs


def test_net_spec_names_what_has_no_name():
    data, label = L.DummyData(shape=dict(dim=[2, 1]), ntop=2)
    silent = L.Silence(data, label, ntop=0)
    assert [layer.name for layer in caffe.to_proto(silent).layer] == ["DummyData1", "Silence1"]
    deep = data
    for _ in range(3000):
        deep = L.ReLU(deep)
    assert len(deep.to_proto().layer) == 3001
    with pytest.raises(TypeError, match="input 0 is not a Top"):
        L.ReLU("data")
    with pytest.raises(AttributeError, match="no field 'nothing'"):
        L.ReLU(data, nothing=1).to_proto()


def test_classifier(deploy, weights):
    classifier = caffe.Classifier(deploy, weights, image_dims=(10, 10), raw_scale=255,
                                  mean=np.array([104.0, 117.0, 123.0]), channel_swap=(2, 1, 0))
    images = [np.random.rand(12, 9, 3).astype(np.float32) for _ in range(2)]
    center, mean = classifier.predict(images, oversample=False), classifier.predict(images)
    assert center.shape == mean.shape == (2, 10)
    resized = caffe.io.resize_image(images[0], (10, 10))[1:9, 1:9]
    ready = (resized.transpose(2, 0, 1)[::-1] * 255
             - np.array([104, 117, 123]).reshape(3, 1, 1)).astype(np.float32)
    expected = classifier.forward_all(data=ready[np.newaxis])["prob"][0]
    np.testing.assert_allclose(center[0], expected, rtol=1e-4, atol=1e-6)


def test_detector(deploy, weights, tmp_path):
    Image = pytest.importorskip("PIL.Image", reason="no module PIL: install python3-pil")
    path = str(tmp_path / "image.png")
    Image.fromarray((np.random.rand(40, 30, 3) * 255).astype(np.uint8)).save(path)
    for pad in (None, 2):
        detector = caffe.Detector(deploy, weights, mean=np.full(3, 0.5), context_pad=pad)
        found = detector.detect_windows([(path, np.array([[0, 0, 20, 20], [5, 3, 39, 29]]))])
        assert [entry["prediction"].shape for entry in found] == [(10,), (10,)]
        assert found[0]["filename"] == path


def test_coord_map_crops_a_deconvolution_to_its_input():
    n = caffe.NetSpec()
    n.data = L.Input(shape=dict(dim=[1, 1, 100, 100]))
    n.conv = L.Convolution(n.data, num_output=4, kernel_size=3, pad=10)
    n.pool = L.Pooling(n.conv, pool=P.Pooling.MAX, kernel_size=2, stride=2)
    n.up = L.Deconvolution(n.pool, convolution_param=dict(num_output=4, kernel_size=4, stride=2))
    axis, a, b = caffe.coord_map.coord_map_from_to(n.up, n.data)
    assert (axis, float(a), float(b)) == (1, 1, -10)
    n.score = caffe.coord_map.crop(n.up, n.data)
    assert list(n.to_proto().layer[-1].crop_param.offset) == [10]
    axis, stride, extent, pad = caffe.coord_map.conv_params(n.conv.fn)
    assert (axis, int(stride), int(extent), int(pad)) == (1, 1, 3, 10)
    assert caffe.coord_map.crop_params(n.score.fn) == (2, [10])
    n.ip = L.InnerProduct(n.up, num_output=2)
    with pytest.raises(RuntimeError):
        caffe.coord_map.coord_map_from_to(n.ip, n.data)


def test_draw(tmp_path):
    proto = lenet(2)
    text = caffe.draw.get_dot(proto, phase=caffe.TEST)
    assert "conv1 (Convolution)" in text and "kernel size: 5" in text
    assert "loss (SoftmaxWithLoss)" not in text
    caffe.draw.draw_net_to_file(proto, str(tmp_path / "net.svg"))
    assert b"<svg" in (tmp_path / "net.svg").read_bytes()


def test_draw_for_pydot():
    pytest.importorskip("pydot")
    graph = caffe.draw.get_pydot_graph(lenet(2), "TB", phase=caffe.TRAIN)
    labels = [node.get_label() for node in graph.get_nodes()]
    assert graph.get_rankdir() == "TB"
    assert any("conv1 (Convolution)" in (label or "") for label in labels)
    assert len(graph.get_edges()) > 10
