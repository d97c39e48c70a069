"""millrace.Net: live views, passes, shapes, errors."""
import gc
import threading

import numpy as np
import pytest

import millrace

SMALL = """
name: 'tiny' force_backward: true
layer { name: 'in' type: 'Input' top: 'x' input_param { shape { dim: 2 dim: 3 } } }
layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'ip' inner_product_param {
  num_output: 2 weight_filler { type: 'constant' value: 1 } bias_filler { type: 'constant' } } }
layer { name: 'relu' type: 'ReLU' bottom: 'ip' top: 'ip' }
layer { name: 'sum' type: 'Reduction' bottom: 'ip' top: 'sum' loss_weight: 1 }
"""

CONVOLUTIONS = """
layer { name: 'in' type: 'Input' top: 'data' input_param {
  shape { dim: 2 dim: 16 dim: 9 dim: 9 } } }
layer { name: 'c1' type: 'Convolution' bottom: 'data' top: 'c1' convolution_param {
  num_output: 16 kernel_size: 3 pad: 1 weight_filler { type: 'xavier' } } }
layer { name: 'r1' type: 'ReLU' bottom: 'c1' top: 'c1' }
layer { name: 'p1' type: 'Pooling' bottom: 'c1' top: 'p1' pooling_param {
  pool: MAX kernel_size: 2 stride: 2 } }
layer { name: 'c2' type: 'Convolution' bottom: 'p1' top: 'c2' convolution_param {
  num_output: 16 kernel_size: 3 weight_filler { type: 'xavier' } } }
layer { name: 'prob' type: 'Softmax' bottom: 'c2' top: 'prob' }
"""


def test_views_are_live():
    net = millrace.Net.from_text(SMALL, "tiny")
    x, weights = net.blobs["x"].data, net.params["ip"][0].data
    x[...] = [[1, 2, 3], [-1, -1, -1]]
    weights[1] = 2
    assert net.forward() == pytest.approx(18)
    assert np.array_equal(net.blobs["ip"].data, [[6, 12], [0, 0]])
    ip = net.blobs["ip"].data
    x[1] = 1
    net.forward()
    assert np.array_equal(ip, [[6, 12], [3, 6]])  # the same memory
    net.backward()
    assert np.array_equal(net.params["ip"][1].diff, [2, 2])
    assert np.array_equal(net.blobs["x"].diff, [[3, 3, 3], [3, 3, 3]])


def test_an_assignment_to_data_writes_the_blob():
    net = millrace.Net.from_text(SMALL)
    view = net.blobs["x"].data
    net.blobs["x"].data = 2
    net.blobs["x"].diff = np.ones((2, 3))
    assert np.all(view == 2) and np.all(net.blobs["x"].diff == 1)


def test_views_outlive_the_net():
    net = millrace.Net.from_text(SMALL)
    net.forward()
    net.backward()
    views = [view for blob in [*net.blobs.values(), *sum(net.params.values(), [])]
             for view in (blob.data, blob.diff)]
    for number, view in enumerate(views):
        view[...] = number
    del net
    gc.collect()
    others = [millrace.Net.from_text(SMALL) for _ in range(20)]
    for other in others:
        other.forward()
    for number, view in enumerate(views):
        assert np.all(view == number)


def test_a_view_keeps_its_memory_when_the_blob_grows():
    net = millrace.Net.from_text(SMALL)
    net.blobs["x"].data[...] = 5
    view = net.blobs["x"].data
    net.blobs["x"].reshape(400, 3)
    net.forward()
    assert net.blobs["ip"].shape == (400, 2)
    assert view.shape == (2, 3) and np.all(view == 5)
    weights = net.params["ip"][0].data
    net.blobs["x"].reshape([1, 3])
    net.blobs["x"].data[...] = 1
    weights[...] = 4
    net.forward()
    assert np.array_equal(net.blobs["ip"].data, [[12, 12]])


def test_convolutions_compute_the_same_in_any_size():
    net = millrace.Net.from_text(CONVOLUTIONS, seed=3)
    image = np.random.rand(1, 16, 13, 11).astype(np.float32)
    net.blobs["data"].reshape(*image.shape)
    net.blobs["data"].data[...] = image
    net.reshape()
    assert net.blobs["p1"].shape == (1, 16, 7, 6)
    net.forward()
    weights, bias = (blob.data for blob in net.params["c1"])
    padded = np.pad(image[0], ((0, 0), (1, 1), (1, 1)))
    expected = np.array([[[np.sum(padded[:, y:y + 3, x:x + 3] * weights[k]) + bias[k]
                           for x in range(11)] for y in range(13)] for k in range(16)])
    np.testing.assert_allclose(net.blobs["c1"].data[0], np.maximum(expected, 0), atol=1e-5)
    np.testing.assert_allclose(net.blobs["prob"].data.sum(axis=1), 1, atol=1e-5)


def test_layers_run_one_by_one():
    net = millrace.Net.from_text(CONVOLUTIONS, seed=3)
    assert [layer.type for layer in net.layers] == [
        "Input", "Convolution", "ReLU", "Pooling", "Convolution", "Softmax"]
    net.blobs["data"].data[...] = np.random.rand(2, 16, 9, 9)
    net.forward()
    whole = net.blobs["prob"].data.copy()
    net.blobs["c2"].data[...] = 0
    net.forward(first=5)
    assert np.allclose(net.blobs["prob"].data, 1 / 16)
    net.forward(first=4, last=4)
    net.forward(first=5, last=5)
    np.testing.assert_array_equal(net.blobs["prob"].data, whole)
    with pytest.raises(millrace.Error, match="expected a range of 0 to 5"):
        net.forward(first=2, last=6)


def test_gradients_of_weights_add_up():
    net = millrace.Net.from_text(SMALL)
    net.blobs["x"].data[...] = 1
    net.forward()
    net.backward_layers()
    net.backward_layers()
    assert np.array_equal(net.params["ip"][1].diff, [4, 4])
    net.clear_gradients()
    assert not net.params["ip"][1].diff.any()
    net.backward()
    net.backward()
    assert np.array_equal(net.params["ip"][1].diff, [2, 2])


def test_weights_are_shared_and_saved(tmp_path):
    one, other = (millrace.Net.from_text(CONVOLUTIONS, seed=seed) for seed in (1, 2))
    other.share_weights(one)
    one.params["c1"][0].data[...] = 7
    assert np.all(other.params["c1"][0].data == 7)
    expected = one.params["c2"][0].data.copy()
    for ending in (".caffemodel", ".caffemodel.h5"):
        path = tmp_path / ("model" + ending)
        one.save(path)
        copy = millrace.Net.from_text(CONVOLUTIONS, weights=path)
        assert np.array_equal(copy.params["c2"][0].data, expected)
    del one
    gc.collect()
    assert np.array_equal(other.params["c2"][0].data, expected)


@pytest.mark.parametrize("text, says", [
    ("layer {", "net.prototxt:1"),
    ("layer { name: 'a' type: 'Nothing' top: 'x' }", "there is no layer type 'Nothing'"),
    ("layer { name: 'a' type: 'ReLU' bottom: 'x' top: 'y' }", "there is no blob 'x'"),
    ("layer { name: 'a' type: 'Input' top: 'x' input_param { shape { dim: -1 } } }", "dim"),
])
def test_errors_of_files_are_exceptions_of_one_line(write, text, says):
    with pytest.raises(millrace.Error) as error:
        millrace.Net(write("net.prototxt", text))
    assert says in str(error.value) and "\n" not in str(error.value)
    assert isinstance(error.value, RuntimeError)


def test_errors_of_models_are_exceptions(write, tmp_path):
    net = millrace.Net.from_text(SMALL)
    for path in (write("bad.caffemodel", "no model"), write("bad.h5", "no model"),
                 str(tmp_path / "none.caffemodel"), str(tmp_path)):
        with pytest.raises(millrace.Error, match=path):
            net.load(path)
    net.params["ip"][0].data[...] = 1  # the net goes on
    net.forward()


def test_wrong_arrays_raise():
    net = millrace.Net.from_text("""
      layer { name: 'm' type: 'MemoryData' top: 'x' top: 'label'
              memory_data_param { batch_size: 2 channels: 1 height: 2 width: 2 } }""")
    data, labels = np.zeros((4, 1, 2, 2), np.float32), np.arange(4, dtype=np.float32)
    net.set_memory_data("m", data, labels)
    net.forward()
    view = net.blobs["label"].data
    assert np.array_equal(view.ravel(), [0, 1])
    net.forward()
    assert np.array_equal(view.ravel(), [2, 3])
    with pytest.raises(TypeError):
        net.set_memory_data("m", data.astype(np.float64), labels)
    with pytest.raises(TypeError):
        net.set_memory_data("m", data.transpose(3, 2, 1, 0)[::2], labels)
    with pytest.raises(millrace.Error):
        net.set_memory_data("m", data[:3].copy(), labels[:3].copy())
    with pytest.raises(ValueError):
        net.blobs["x"].data[...] = np.zeros((3, 1, 2, 2))
    with pytest.raises(millrace.Error, match="no layer 'n'"):
        net.set_memory_data("n", data, labels)


def test_wrong_shapes_raise():
    net = millrace.Net.from_text(SMALL)
    for shape in ((-1,), (1 << 31,), (1 << 20, 1 << 20)):
        with pytest.raises(millrace.Error, match="reshape"):
            net.blobs["x"].reshape(*shape)
    for sizes, error in (((1.5,), TypeError), (("a",), TypeError), ((1 << 70,), OverflowError)):
        with pytest.raises(error):
            net.blobs["x"].reshape(*sizes)
    net.blobs["x"].reshape(np.int32(2), np.uint8(3))
    with pytest.raises(millrace.Error, match="constant"):
        net.params["ip"][0].reshape(3, 3)
    net.blobs["x"].reshape(2, 5)
    with pytest.raises(millrace.Error, match="ip"):
        net.forward()
    with pytest.raises(millrace.Error, match="there is no blob 'y'"):
        net.blob("y")


@pytest.mark.parametrize("call", ["forward", "backward", "reshape", "save", "load"])
def test_other_threads_run_meanwhile(call, tmp_path, others_run_during):
    net = millrace.Net.from_text(CONVOLUTIONS)
    net.forward()
    net.save(tmp_path / "model.caffemodel")
    arguments = {"save": [tmp_path / "other.caffemodel"], "load": [tmp_path / "model.caffemodel"]}
    assert others_run_during(lambda: getattr(net, call)(*arguments.get(call, [])))


def test_a_net_in_use_refuses_a_second_call():
    net = millrace.Net.from_text(CONVOLUTIONS)
    net.blobs["data"].reshape(16, 16, 64, 64)
    stop, refused = threading.Event(), []

    def run():
        while not stop.is_set():
            try:
                net.forward()
            except millrace.Error as error:
                refused.append(str(error))

    thread = threading.Thread(target=run)
    thread.start()
    try:
        for _ in range(10000):
            try:
                net.forward()
            except millrace.Error as error:
                refused.append(str(error))
            if refused:
                break
    finally:
        stop.set()
        thread.join()
    assert refused and all("in use by another call" in text for text in refused)


def test_dlpack_shares_the_memory_of_a_blob():
    net = millrace.Net.from_text(
        "layer { name: 'in' type: 'Input' top: 'x' input_param { shape { dim: 2 dim: 3 } } }")
    blob = net.blobs["x"]
    data, diff = np.from_dlpack(blob.data), np.from_dlpack(blob.diff)
    blob.data[1, 2] = 5
    blob.diff[0, 1] = 7
    assert data[1, 2] == 5 and diff[0, 1] == 7
    del net, blob
    assert data[1, 2] == 5  # the array keeps the memory
