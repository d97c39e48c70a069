"""Images, datums and blobs as arrays, and the preparation of images for a net, as in pycaffe."""
import numpy as np

from .proto import caffe_pb2


def __getattr__(name):
    """scikit-image, which scripts take from here; needed by nothing else."""
    if name != "skimage":
        raise AttributeError(f"module 'caffe.io' has no attribute '{name}'")
    import skimage.io
    import skimage.transform
    return skimage

# ---- Messages ----


def blobproto_to_array(blob, return_diff=False):
    """The values of a BlobProto, or its gradient, as an array of its shape."""
    values = np.array(blob.diff if return_diff else blob.data)
    legacy = ("num", "channels", "height", "width")
    if any(blob.HasField(field) for field in legacy):
        return values.reshape([getattr(blob, field) for field in legacy])
    return values.reshape(list(blob.shape.dim))


def array_to_blobproto(arr, diff=None):
    """A BlobProto of an array, and of a gradient of the same shape."""
    blob = caffe_pb2.BlobProto()
    blob.shape.dim.extend(arr.shape)
    blob.data.extend(np.asarray(arr, dtype=float).ravel())
    if diff is not None:
        blob.diff.extend(np.asarray(diff, dtype=float).ravel())
    return blob


def arraylist_to_blobprotovector_str(arraylist):
    """A serialized BlobProtoVector of a list of arrays."""
    vector = caffe_pb2.BlobProtoVector()
    vector.blobs.extend(array_to_blobproto(array) for array in arraylist)
    return vector.SerializeToString()


arraylist_to_blobprotovecor_str = arraylist_to_blobprotovector_str  # as old versions spell it


def blobprotovector_str_to_arraylist(str):  # the argument's name is the interface's
    """The arrays of a serialized BlobProtoVector."""
    vector = caffe_pb2.BlobProtoVector()
    vector.ParseFromString(str)
    return [blobproto_to_array(blob) for blob in vector.blobs]


def array_to_datum(arr, label=None):
    """A Datum of an array (channels, height, width): bytes if it is uint8, else floats."""
    if arr.ndim != 3:
        raise ValueError(f"array_to_datum: an array of {arr.ndim} axes given, expected 3")
    datum = caffe_pb2.Datum()
    datum.channels, datum.height, datum.width = arr.shape
    if arr.dtype == np.uint8:
        datum.data = arr.tobytes()
    else:
        datum.float_data.extend(np.asarray(arr, dtype=float).ravel())
    if label is not None:
        datum.label = int(label)
    return datum


def datum_to_array(datum):
    """The array (channels, height, width) of a Datum, uint8 or float. Its label is
    datum.label."""
    shape = (datum.channels, datum.height, datum.width)
    if datum.data:
        return np.frombuffer(datum.data, dtype=np.uint8).reshape(shape).copy()
    return np.array(datum.float_data, dtype=float).reshape(shape)


# ---- Images ----


def load_image(filename, color=True):
    """Reads an image file: float32 in [0, 1], (height, width, 3) in RGB, or with color=False
    (height, width, 1), the luminance. Needs the package PIL (python3-pil)."""
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError("caffe.io.load_image: expected the package PIL (python3-pil)") from error
    with Image.open(filename) as image:
        if image.mode in ("P", "1", "CMYK", "YCbCr", "LA", "PA"):
            image = image.convert("L" if image.mode in ("1", "LA") else "RGB")
        pixels = np.array(image)
    largest = np.iinfo(pixels.dtype).max if pixels.dtype.kind in "ui" else 1
    if pixels.dtype == np.int32:  # 16 bits, as PIL reads them
        largest = 65535
    values = pixels.astype(np.float64) / largest
    if values.ndim == 3:
        values = values[:, :, :3]
        if not color:
            values = values @ np.array([0.2125, 0.7154, 0.0721])
    if values.ndim == 2:
        values = values[:, :, np.newaxis]
        if color:
            values = np.repeat(values, 3, axis=2)
    return values.astype(np.float32)


def _lines(size, new_size, corners):
    """For each new row, the two old ones between which it lies, and the share of the second. With
    `corners`, the first and last rows stay; else rows are intervals of equal length."""
    at = np.arange(new_size)
    if corners:
        at = at * ((size - 1) / max(new_size - 1, 1))
    else:
        at = (at + 0.5) * (size / new_size) - 0.5
    low = np.floor(at).astype(int)
    return low, at - low


def _bilinear(image, new_dims, corners):
    for axis in (0, 1):
        size = image.shape[axis]
        low, share = _lines(size, new_dims[axis], corners)
        # Outside of the image all is 0, with `corners` as at its border.
        padded = np.pad(image, [(1, 2) if a == axis else (0, 0) for a in range(image.ndim)],
                        mode="edge" if corners else "constant")
        weights = share.reshape([-1 if a == axis else 1 for a in range(image.ndim)])
        image = (np.take(padded, low + 1, axis) * (1 - weights)
                 + np.take(padded, low + 2, axis) * weights)
    return image


def _nearest(image, new_dims):
    for axis in (0, 1):
        size = image.shape[axis]
        at = (np.arange(new_dims[axis]) + 0.5) * (size / new_dims[axis]) - 0.5
        image = np.take(image, np.clip(np.rint(at).astype(int), 0, size - 1), axis)
    return image


def _interpolated(im, new_dims, order, corners):
    """`im` by splines of `order`, 1 to 5. Outside of the image all is 0, with `corners` as at its
    border."""
    if order == 1:
        return _bilinear(im, new_dims, corners)
    from scipy.ndimage import zoom
    scale = (new_dims[0] / im.shape[0], new_dims[1] / im.shape[1], 1)
    if corners:
        return zoom(im, scale, order=order)
    return zoom(im, scale, order=order, mode="grid-constant", grid_mode=True)


def resize_image(im, new_dims, interp_order=1):
    """Resizes an image (height, width, channels) to new_dims = (height, width) and float32:
    interp_order 1, bilinear; 0, the nearest pixel; 2 to 5, splines, for which SciPy is needed.

    As in pycaffe, images of 1 or 3 channels are taken as lying in a frame of their least value;
    those of other numbers of channels keep their corners in place."""
    if interp_order not in range(6):
        raise ValueError(f"resize_image: interp_order {interp_order} given, expected 0 to 5")
    im = np.asarray(im, dtype=np.float64)
    new_dims = (int(new_dims[0]), int(new_dims[1]))
    if interp_order == 0:
        return _nearest(im, new_dims).astype(np.float32)
    if im.shape[-1] not in (1, 3):
        return _interpolated(im, new_dims, interp_order, corners=True).astype(np.float32)
    low, high = im.min(), im.max()
    if high == low:
        return np.full((*new_dims, im.shape[-1]), low, dtype=np.float32)
    resized = _interpolated((im - low) / (high - low), new_dims, interp_order, corners=False)
    return (resized * (high - low) + low).astype(np.float32)


def oversample(images, crop_dims):
    """Ten crops of each image (height, width, channels): the four corners and the center, then the
    same mirrored. Returns (10 n, crop height, crop width, channels), float32."""
    height, width = int(crop_dims[0]), int(crop_dims[1])
    rows, columns = images[0].shape[:2]
    tops = (0, rows - height)
    lefts = (0, columns - width)
    corners = [(top, left) for top in tops for left in lefts]
    corners.append((int(rows / 2.0 - height / 2.0), int(columns / 2.0 - width / 2.0)))
    crops = np.empty((10 * len(images), height, width, images[0].shape[-1]), dtype=np.float32)
    for number, image in enumerate(images):
        five = np.stack([image[top:top + height, left:left + width] for top, left in corners])
        crops[10 * number:10 * number + 5] = five
        crops[10 * number + 5:10 * number + 10] = five[:, :, ::-1]
    return crops


class Transformer:
    """Prepares images (height, width, channels) for the inputs of a net.

    `inputs`: shapes of the inputs by name, (n, channels, height, width).
    """

    def __init__(self, inputs):
        self.inputs = inputs
        self.transpose = {}
        self.channel_swap = {}
        self.raw_scale = {}
        self.mean = {}
        self.input_scale = {}

    def _check(self, name):
        if name not in self.inputs:
            raise ValueError(f"'{name}' is not an input, expected one of {list(self.inputs)}")

    def preprocess(self, in_, data):
        """Resizes to the input's size, transposes, reorders the channels, scales the raw values,
        subtracts the mean and scales, in this order, what has been set. Returns float32."""
        self._check(in_)
        values = np.array(data, dtype=np.float32)
        size = tuple(self.inputs[in_][2:])
        if values.shape[:2] != size:
            values = resize_image(values, size)
        if in_ in self.transpose:
            values = values.transpose(self.transpose[in_])
        if in_ in self.channel_swap:
            values = values[list(self.channel_swap[in_]), :, :]
        if in_ in self.raw_scale:
            values = values * np.float32(self.raw_scale[in_])
        if in_ in self.mean:
            values = (values - self.mean[in_]).astype(np.float32)
        if in_ in self.input_scale:
            values = values * np.float32(self.input_scale[in_])
        return values

    def deprocess(self, in_, data):
        """Undoes preprocess, but for the size."""
        self._check(in_)
        values = np.array(data, dtype=np.float32).squeeze()
        if in_ in self.input_scale:
            values = values / np.float32(self.input_scale[in_])
        if in_ in self.mean:
            values = (values + self.mean[in_]).astype(np.float32)
        if in_ in self.raw_scale:
            values = values / np.float32(self.raw_scale[in_])
        if in_ in self.channel_swap:
            values = values[np.argsort(self.channel_swap[in_]), :, :]
        if in_ in self.transpose:
            values = values.transpose(np.argsort(self.transpose[in_]))
        return values

    def set_transpose(self, in_, order):
        """The order of axes, (2, 0, 1) to make (height, width, channels) channels first."""
        self._check(in_)
        if len(order) != len(self.inputs[in_]) - 1:
            raise ValueError(f"set_transpose: {len(order)} axes given, expected "
                             f"{len(self.inputs[in_]) - 1}")
        self.transpose[in_] = order

    def set_channel_swap(self, in_, order):
        """The order of channels, (2, 1, 0) to make RGB BGR."""
        self._check(in_)
        if len(order) != self.inputs[in_][1]:
            raise ValueError(f"set_channel_swap: {len(order)} channels given, expected "
                             f"{self.inputs[in_][1]}")
        self.channel_swap[in_] = order

    def set_raw_scale(self, in_, scale):
        """The factor before the mean is subtracted, 255 for images in [0, 1]."""
        self._check(in_)
        self.raw_scale[in_] = scale

    def set_mean(self, in_, mean):
        """The mean to subtract: one value per channel, or an image (channels, height, width),
        which is resized to the input's size."""
        self._check(in_)
        channels, size = self.inputs[in_][1], tuple(self.inputs[in_][2:])
        mean = np.asarray(mean)
        if mean.ndim == 1:
            if mean.shape[0] != channels:
                raise ValueError(f"set_mean: {mean.shape[0]} channels given, expected {channels}")
            mean = mean[:, np.newaxis, np.newaxis]
        elif mean.ndim not in (2, 3):
            raise ValueError(f"set_mean: a mean of {mean.ndim} axes given, expected 1 to 3")
        elif mean.shape[-2:] != size or (mean.ndim == 3 and mean.shape[0] != channels):
            if mean.ndim == 2:
                mean = mean[np.newaxis]
            mean = resize_image(mean.transpose(1, 2, 0), size).transpose(2, 0, 1)
        self.mean[in_] = mean

    def set_input_scale(self, in_, scale):
        """The factor after the mean has been subtracted."""
        self._check(in_)
        self.input_scale[in_] = scale
