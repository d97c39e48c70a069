"""Classification of windows of images, as in pycaffe."""
import numpy as np

from . import io
from .classifier import _configured
from .proto.caffe_pb2 import TEST
from .net import Net


class Detector(Net):
    """A net of one input that scores windows of images.

    mean, input_scale, raw_scale, channel_swap: of io.Transformer. context_pad: pixels around a
    window in the net's input that show what is around it in the image.
    """

    def __init__(self, model_file, pretrained_file, mean=None, input_scale=None, raw_scale=None,
                 channel_swap=None, context_pad=None):
        super().__init__(model_file, TEST, weights=pretrained_file)
        self.transformer = _configured(self, mean, input_scale, raw_scale, channel_swap)
        self.context_pad = int(context_pad or 0)

    def detect_windows(self, images_windows):
        """`images_windows`: pairs of an image's path and its windows, each (ymin, xmin, ymax,
        xmax). Returns for each window a dict: window, prediction, filename."""
        crops, found = [], []
        for path, windows in images_windows:
            image = io.load_image(path)
            for window in windows:
                crops.append(self.crop(image, window))
                found.append({"window": window, "filename": path})
        name = self.inputs[0]
        ready = np.stack([self.transformer.preprocess(name, crop) for crop in crops])
        scores = self.forward_all(**{name: ready})[self.outputs[0]]
        for entry, score in zip(found, scores):
            entry["prediction"] = np.asarray(score).squeeze()
        return found

    def crop(self, im, window):
        """The window of an image, with its context: what lies outside of the image is the mean
        of the transformer, so 0 after the preparation."""
        top, left, bottom, right = (int(v) for v in np.round(window))
        if not self.context_pad:
            return im[top:bottom, left:right]
        name = self.inputs[0]
        size = self.blobs[name].shape[2]
        scale = size / (size - 2.0 * self.context_pad)
        half = np.array([bottom - top + 1, right - left + 1]) * scale / 2.0
        center = np.array([top, left]) + np.array([bottom - top + 1, right - left + 1]) / 2.0
        low = np.round(center - half).astype(int)
        high = np.round(center + half).astype(int)
        inside_low = np.maximum(low, 0)
        inside_high = np.minimum(high, im.shape[:2])
        ratio = size / (high - low)
        place = np.round((inside_low - low) * ratio).astype(int)
        dims = np.round((inside_high - inside_low) * ratio).astype(int)
        dims = np.maximum(np.minimum(dims, size - place), 1)
        part = im[inside_low[0]:inside_high[0], inside_low[1]:inside_high[1]]
        result = np.empty((size, size, im.shape[2]), dtype=np.float32)
        result[...] = self._empty_pixel(im.shape[2])
        result[place[0]:place[0] + dims[0], place[1]:place[1] + dims[1]] = (
            io.resize_image(part, dims))
        return result

    def _empty_pixel(self, channels):
        """The pixel of an image that the preparation turns into about 0."""
        name = self.inputs[0]
        mean = self.transformer.mean.get(name)
        if mean is None:
            return np.zeros(channels, dtype=np.float32)
        pixel = np.asarray(mean).reshape(len(mean), -1).mean(axis=1)
        pixel = pixel / self.transformer.raw_scale.get(name, 1)
        if name in self.transformer.channel_swap:
            pixel = pixel[np.argsort(self.transformer.channel_swap[name])]
        return pixel.astype(np.float32)
