"""caffe.io."""
import numpy as np
import pytest

import caffe
from caffe import io
from caffe.proto import caffe_pb2


def test_blobs_are_arrays():
    values = np.arange(24).reshape(2, 3, 4)
    blob = io.array_to_blobproto(values, diff=-values)
    np.testing.assert_array_equal(io.blobproto_to_array(blob), values)
    np.testing.assert_array_equal(io.blobproto_to_array(blob, return_diff=True), -values)
    legacy = caffe_pb2.BlobProto(num=1, channels=2, height=3, width=4, data=range(24))
    assert io.blobproto_to_array(legacy).shape == (1, 2, 3, 4)
    assert io.blobproto_to_array(caffe_pb2.BlobProto(data=[5])) == 5
    with pytest.raises(ValueError):
        io.blobproto_to_array(caffe_pb2.BlobProto(data=[1, 2]))
    text = io.arraylist_to_blobprotovecor_str([values, values[0]])
    arrays = io.blobprotovector_str_to_arraylist(text)
    assert [array.shape for array in arrays] == [(2, 3, 4), (3, 4)]


def test_the_mean_of_caffe_is_read(caffe_fixture):
    blob = caffe_pb2.BlobProto()
    blob.ParseFromString((caffe_fixture / "mean.binaryproto").read_bytes())
    assert io.blobproto_to_array(blob).shape == (1, 1, 8, 8)


def test_datums_are_arrays():
    for values in (np.arange(12, dtype=np.uint8).reshape(3, 2, 2),
                   np.linspace(0, 1, 12, dtype=np.float32).reshape(3, 2, 2)):
        datum = io.array_to_datum(values, label=4)
        assert datum.label == 4 and bool(datum.data) == (values.dtype == np.uint8)
        np.testing.assert_allclose(io.datum_to_array(datum), values)
    assert not io.array_to_datum(values).HasField("label")
    with pytest.raises(ValueError, match="expected 3"):
        io.array_to_datum(values[0])


def test_images_are_read(tmp_path):
    Image = pytest.importorskip("PIL.Image", reason="no module PIL: install python3-pil")
    pixels = np.random.randint(0, 256, (4, 5, 3), dtype=np.uint8)
    path = str(tmp_path / "image.png")
    Image.fromarray(pixels).save(path)
    image = io.load_image(path)
    assert image.dtype == np.float32 and image.shape == (4, 5, 3)
    np.testing.assert_allclose(image, pixels / 255, atol=1e-6)
    grey = io.load_image(path, color=False)
    np.testing.assert_allclose(grey[..., 0], pixels / 255 @ [0.2125, 0.7154, 0.0721], atol=1e-6)
    Image.fromarray(pixels[..., 0]).save(path)
    assert io.load_image(path).shape == (4, 5, 3)
    assert io.load_image(path, color=False).shape == (4, 5, 1)
    Image.fromarray(np.dstack([pixels, pixels[..., :1]])).save(path)  # with alpha
    np.testing.assert_allclose(io.load_image(path), pixels / 255, atol=1e-6)


def test_resizing_interpolates():
    ramp = np.tile(np.arange(8, dtype=np.float32)[:, np.newaxis, np.newaxis], (1, 8, 1))
    half = io.resize_image(ramp, (4, 4))
    np.testing.assert_allclose(half[:, 0, 0], [0.5, 2.5, 4.5, 6.5], atol=1e-6)
    double = io.resize_image(ramp, (16, 16))
    np.testing.assert_allclose(double[1:-1, 5, 0], np.arange(14) / 2 + 0.25, atol=1e-6)
    assert np.all(io.resize_image(np.full((3, 3, 3), 4.0), (5, 7)) == 4)
    corners = io.resize_image(np.tile(ramp, (1, 1, 2)), (15, 8))
    np.testing.assert_allclose(corners[:, 0, 0], np.arange(15) / 2, atol=1e-6)
    nearest = io.resize_image(ramp, (16, 8), interp_order=0)
    np.testing.assert_array_equal(nearest[:, 0, 0], np.repeat(np.arange(8), 2))
    with pytest.raises(ValueError, match="interp_order"):
        io.resize_image(ramp, (4, 4), interp_order=6)


def test_resizing_by_splines():
    pytest.importorskip("scipy")
    ramp = np.tile(np.arange(16, dtype=np.float32)[:, np.newaxis, np.newaxis], (1, 16, 1))
    double = io.resize_image(ramp, (32, 32), interp_order=3)
    np.testing.assert_allclose(double[8:-8, 15, 0], np.arange(16) / 2 + 3.75, atol=0.05)
    corners = io.resize_image(np.tile(ramp, (1, 1, 2)), (31, 16), interp_order=2)
    np.testing.assert_allclose(corners[8:-8, 0, 0], np.arange(15) / 2 + 4, atol=0.05)


def test_oversample_has_corners_center_and_mirrors():
    image = np.arange(6 * 5 * 2).reshape(6, 5, 2).astype(np.float32)
    crops = io.oversample([image, image + 1], (4, 3))
    assert crops.shape == (20, 4, 3, 2)
    expected = [image[:4, :3], image[:4, 2:], image[2:, :3], image[2:, 2:], image[1:5, 1:4]]
    for number, crop in enumerate(expected):
        np.testing.assert_array_equal(crops[number], crop)
        np.testing.assert_array_equal(crops[number + 5], crop[:, ::-1])
        np.testing.assert_array_equal(crops[number + 10], crop + 1)


def test_transformer():
    transformer = io.Transformer({"data": (1, 3, 4, 5)})
    transformer.set_transpose("data", (2, 0, 1))
    transformer.set_channel_swap("data", (2, 1, 0))
    transformer.set_raw_scale("data", 255)
    transformer.set_mean("data", np.array([1.0, 2.0, 3.0]))
    transformer.set_input_scale("data", 0.5)
    image = np.random.rand(4, 5, 3).astype(np.float32)
    before = image.copy()
    ready = transformer.preprocess("data", image)
    np.testing.assert_array_equal(image, before)
    expected = (image.transpose(2, 0, 1)[::-1] * 255 - np.array([1, 2, 3]).reshape(3, 1, 1)) * 0.5
    assert ready.dtype == np.float32
    np.testing.assert_allclose(ready, expected, rtol=1e-5)
    np.testing.assert_allclose(transformer.deprocess("data", ready), image, atol=1e-5)
    assert transformer.preprocess("data", np.random.rand(8, 10, 3)).shape == (3, 4, 5)
    transformer.set_mean("data", np.random.rand(3, 8, 10))
    assert transformer.mean["data"].shape == (3, 4, 5)


def test_wrong_settings_of_a_transformer_raise():
    transformer = caffe.io.Transformer({"data": (1, 3, 4, 5)})
    for call, value in ((transformer.set_transpose, (0, 1)), (transformer.set_channel_swap, (0, 1)),
                        (transformer.set_mean, np.zeros(2)),
                        (transformer.set_mean, np.zeros((1, 1, 1, 1)))):
        with pytest.raises(ValueError):
            call("data", value)
    with pytest.raises(ValueError, match="'image' is not an input"):
        transformer.set_raw_scale("image", 1)
