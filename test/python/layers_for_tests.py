"""Layers of type "Python" that the tests use."""
import caffe
import millrace
import numpy as np


class Scale(caffe.Layer):
    """Multiplies by the number in param_str."""

    def setup(self, bottom, top):
        self.factor = float(self.param_str)

    def reshape(self, bottom, top):
        top[0].reshape(*bottom[0].data.shape)

    def forward(self, bottom, top):
        top[0].data[...] = self.factor * bottom[0].data

    def backward(self, top, propagate_down, bottom):
        if propagate_down[0]:
            bottom[0].diff[...] = self.factor * top[0].diff


class Bias(millrace.Layer):
    """Adds a learnable value, which is 2 at first."""

    def setup(self, bottom, top):
        self.blobs.add_blob(1)
        self.blobs[0].data[...] = 2

    def reshape(self, bottom, top):
        top[0].reshape(*bottom[0].shape)

    def forward(self, bottom, top):
        top[0].data[...] = bottom[0].data + self.blobs[0].data

    def backward(self, top, propagate_down, bottom):
        self.blobs[0].diff[...] += top[0].diff.sum()
        bottom[0].diff[...] = top[0].diff


class EuclideanLoss(caffe.Layer):
    """Half of the mean square of the difference, as the layer of C++."""

    def setup(self, bottom, top):
        if len(bottom) != 2:
            raise ValueError("two inputs are expected")

    def reshape(self, bottom, top):
        self.difference = np.zeros_like(bottom[0].data)
        top[0].reshape(1)

    def forward(self, bottom, top):
        self.difference[...] = bottom[0].data - bottom[1].data
        top[0].data[...] = np.sum(self.difference ** 2) / bottom[0].num / 2

    def backward(self, top, propagate_down, bottom):
        for i, sign in ((0, 1), (1, -1)):
            if propagate_down[i]:
                bottom[i].diff[...] = sign * self.difference * top[0].diff / bottom[i].num


class Batches(caffe.Layer):
    """A data layer, whose batches grow."""

    def setup(self, bottom, top):
        self.count = 0

    def reshape(self, bottom, top):
        top[0].reshape(self.count % 5 + 1, 3)

    def forward(self, bottom, top):
        self.count += 1
        top[0].data[...] = self.count


class Phase(caffe.Layer):
    """The phase of the net."""

    def reshape(self, bottom, top):
        top[0].reshape()

    def forward(self, bottom, top):
        top[0].data[()] = self.phase


class Fails(caffe.Layer):
    """Raises an exception in the method that param_str names."""

    def _fail(self, method):
        if self.param_str == method:
            raise LookupError(f"in {method}")

    def setup(self, bottom, top):
        self._fail("setup")

    def reshape(self, bottom, top):
        self._fail("reshape")
        top[0].reshape(1)

    def forward(self, bottom, top):
        self._fail("forward")

    def backward(self, top, propagate_down, bottom):
        self._fail("backward")


kept = []


class Keeps(Scale):
    """Leaves its blobs and views of them behind."""

    def forward(self, bottom, top):
        super().forward(bottom, top)
        kept[:] = [bottom[0], top[0], top[0].data]


class Reenters(Scale):
    """Runs a net in its forward pass."""

    net = None

    def forward(self, bottom, top):
        Reenters.net.forward()
