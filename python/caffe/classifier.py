"""Classification of images, as in pycaffe."""
import numpy as np

from . import io
from .proto.caffe_pb2 import TEST
from .net import Net


def _configured(net, mean, input_scale, raw_scale, channel_swap):
    """The transformer of the net's only input."""
    name = net.inputs[0]
    transformer = io.Transformer({name: net.blobs[name].shape})
    transformer.set_transpose(name, (2, 0, 1))
    if mean is not None:
        transformer.set_mean(name, mean)
    if input_scale is not None:
        transformer.set_input_scale(name, input_scale)
    if raw_scale is not None:
        transformer.set_raw_scale(name, raw_scale)
    if channel_swap is not None:
        transformer.set_channel_swap(name, channel_swap)
    return transformer


class Classifier(Net):
    """A net of one input, with its preparation of images.

    image_dims: (height, width) to resize images to before they are cropped; the input's size by
    default. mean, input_scale, raw_scale, channel_swap: of io.Transformer.
    """

    def __init__(self, model_file, pretrained_file, image_dims=None, mean=None, input_scale=None,
                 raw_scale=None, channel_swap=None):
        super().__init__(model_file, TEST, weights=pretrained_file)
        self.transformer = _configured(self, mean, input_scale, raw_scale, channel_swap)
        self.crop_dims = np.array(self.blobs[self.inputs[0]].shape[2:])
        self.image_dims = self.crop_dims if image_dims is None else image_dims

    def predict(self, inputs, oversample=True):
        """Probabilities (n, classes) of n images (height, width, channels): with `oversample` the
        mean over ten crops of each (io.oversample), else of the center."""
        images = np.stack([io.resize_image(image, self.image_dims) for image in inputs])
        if oversample:
            images = io.oversample(images, self.crop_dims)
        else:
            top, left = ((np.array(self.image_dims) - self.crop_dims) / 2.0).astype(int)
            height, width = self.crop_dims
            images = images[:, top:top + height, left:left + width, :]
        name = self.inputs[0]
        ready = np.stack([self.transformer.preprocess(name, image) for image in images])
        scores = self.forward_all(**{name: ready})[self.outputs[0]]
        if oversample:
            scores = scores.reshape((len(scores) // 10, 10, -1)).mean(1)
        return scores
