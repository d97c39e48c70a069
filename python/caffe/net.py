"""Nets with the interface of pycaffe."""
import os
import tempfile
import time
from collections import OrderedDict

import numpy as np
import millrace

from .parallel import NCCL
from .proto import caffe_pb2

seed = None  # of set_random_seed


def set_random_seed(value):
    """The seed of nets and solvers that are created from now on. Without it, the seed is 1, or
    what a solver file says in random_seed."""
    global seed
    seed = int(value)


class Net:
    """A net: Net(model, phase, level=0, stages=None, weights=None), or the older
    Net(model, weights, phase).

    `blobs` and `params` give Blob objects, whose data and diff are live numpy arrays.
    """

    def __init__(self, network_file, *args, **named):
        if len(args) >= 2 and not isinstance(args[0], int):
            named["weights"], args = args[0], args[1:]
        names = ("phase", "level", "stages", "weights")
        if len(args) > len(names):
            raise TypeError(f"Net: {len(args) + 1} arguments given, expected at most 5")
        for name, value in zip(names, args):
            if name in named:
                raise TypeError(f"Net: {name} is given twice")
            named[name] = value
        unknown = set(named) - set(names)
        if unknown or "phase" not in named:
            raise TypeError(f"Net: unknown argument {sorted(unknown)[0]}" if unknown
                            else "Net: the phase is missing: caffe.TRAIN or caffe.TEST")
        options = {"train": named["phase"] == caffe_pb2.TRAIN, "level": named.get("level") or 0,
                   "stages": list(named.get("stages") or []),
                   "seed": 1 if seed is None else seed}
        if named.get("weights") is not None:
            options["weights"] = named["weights"]
        self._take(millrace.Net(network_file, **options))

    @classmethod
    def _of(cls, core):
        net = cls.__new__(cls)
        net._take(core)
        return net

    def _take(self, core):
        self._core = core
        self.name = core.name
        self._described = core.layers
        # A layer in Python is the object of its class, as in pycaffe.
        self.layers = [layer if layer.object is None else layer.object
                       for layer in self._described]
        self._layer_names = [layer.name for layer in self._described]
        self.layer_dict = OrderedDict(zip(self._layer_names, self.layers))
        self.blobs = OrderedDict(core.blobs)
        self.params = OrderedDict((layer.name, layer.blobs) for layer in self._described
                                  if len(layer.blobs) > 0)
        self.inputs = core.inputs
        self.outputs = core.outputs
        self.top_names = OrderedDict((layer.name, [top for top in layer.tops if top in self.blobs])
                                     for layer in self._described)
        self.bottom_names = OrderedDict((layer.name, layer.bottoms)
                                        for layer in self._described)
        self._calls = {"before_forward": [], "after_forward": [],
                       "before_backward": [], "after_backward": []}

    @property
    def _blob_names(self):
        return list(self.blobs)

    @property
    def _blobs(self):
        return list(self.blobs.values())

    @property
    def _inputs(self):
        return [self._blob_names.index(name) for name in self.inputs]

    @property
    def _outputs(self):
        return [self._blob_names.index(name) for name in self.outputs]

    def _top_ids(self, layer):
        return [self._blob_names.index(name)
                for name in self.top_names[self._layer_names[layer]]]

    def _bottom_ids(self, layer):
        return [self._blob_names.index(name)
                for name in self.bottom_names[self._layer_names[layer]]]

    @property
    def blob_loss_weights(self):
        """The weight of each blob in the loss, by name."""
        weights = OrderedDict((name, 0.0) for name in self.blobs)
        for layer in self._described:
            for top, weight in zip(layer.tops, layer.loss_weights):
                if top in weights:
                    weights[top] = weight
        return weights

    @property
    def _blob_loss_weights(self):
        return list(self.blob_loss_weights.values())

    def _index(self, layer, default):
        if layer is None:
            return default
        if layer not in self._layer_names:
            raise ValueError(f"net '{self.name}': there is no layer '{layer}'")
        return self._layer_names.index(layer)

    def _forward(self, first, last):
        if not self._calls["before_forward"] and not self._calls["after_forward"]:
            return self._core.forward(first, last)
        loss = 0.0
        for layer in range(first, last + 1):
            for call in self._calls["before_forward"]:
                call(layer)
            loss += self._core.forward(layer, layer)
            for call in self._calls["after_forward"]:
                call(layer)
        return loss

    def _backward(self, last, first):
        if not self._calls["before_backward"] and not self._calls["after_backward"]:
            return self._core.backward_layers(last, first)
        for layer in range(last, first - 1, -1):
            for call in self._calls["before_backward"]:
                call(layer)
            self._core.backward_layers(layer, layer)
            for call in self._calls["after_backward"]:
                call(layer)
        return None

    def before_forward(self, call):
        """Calls call(layer) with the index of each layer before its forward pass."""
        self._calls["before_forward"].append(call)

    def after_forward(self, call):
        """The same after it."""
        self._calls["after_forward"].append(call)

    def before_backward(self, call):
        """The same before its backward pass."""
        self._calls["before_backward"].append(call)

    def after_backward(self, call):
        """The same after it. A caffe.NCCL is accepted: it averages all gradients at once, before
        their update."""
        if not isinstance(call, NCCL):
            self._calls["after_backward"].append(call)

    def _fill(self, arrays, expected, field, what):
        if set(arrays) != set(expected):
            raise ValueError(f"{what} {sorted(arrays)} given, expected {sorted(expected)}")
        for name, values in arrays.items():
            blob = self.blobs[name]
            if len(values) != blob.shape[0]:
                raise ValueError(f"'{name}': {len(values)} examples given, expected a batch of "
                                 f"{blob.shape[0]}")
            getattr(blob, field)[...] = values

    def forward(self, blobs=None, start=None, end=None, **inputs):
        """Computes the layers from `start` to `end`, both included, by name; all by default.

        `inputs`: values of all inputs of the net by name, arrays of the blobs' shapes.
        Returns a dict of arrays by name: the outputs of the net (of layer `end`), and `blobs`.
        The arrays are live.
        """
        first, last = self._index(start, 0), self._index(end, len(self.layers) - 1)
        if inputs:
            self._fill(inputs, self.inputs, "data", "inputs")
        self._forward(first, last)
        names = self.outputs if end is None else self.top_names[end]
        return {name: self.blobs[name].data for name in [*names, *(blobs or [])]}

    def backward(self, diffs=None, start=None, end=None, **gradients):
        """Computes gradients from layer `start` down to `end`, both included, by name.

        `gradients`: of all outputs by name, arrays of the blobs' shapes; those of a loss are there.
        Returns a dict of arrays by name: gradients of the inputs of the net (of the bottoms of
        layer `end`), and of `diffs`. Gradients of weights are added to params[..][i].diff.
        """
        last, first = self._index(start, len(self.layers) - 1), self._index(end, 0)
        if gradients:
            self._fill(gradients, self.outputs, "diff", "gradients of")
        self._backward(last, first)
        names = self.inputs if end is None else self.bottom_names[end]
        return {name: self.blobs[name].diff for name in [*names, *(diffs or [])]}

    def _batch(self, arrays):
        """Batches of the net's size, the last one filled up with zeros."""
        count = len(next(iter(arrays.values())))
        size = next(iter(self.blobs.values())).shape[0]
        for begin in range(0, count, size):
            batch = {}
            for name, values in arrays.items():
                part = np.asarray(values[begin:begin + size])
                lack = size - len(part)
                if lack:
                    part = np.concatenate([part, np.zeros((lack,) + part.shape[1:], part.dtype)])
                batch[name] = part
            yield batch

    def forward_all(self, blobs=None, **inputs):
        """forward over as many batches as `inputs` have examples: dict of arrays by name, with
        one row for each example."""
        results = {name: [] for name in [*self.outputs, *(blobs or [])]}
        for batch in self._batch(inputs):
            for name, values in self.forward(blobs=blobs, **batch).items():
                results[name].extend(values.copy())
        count = len(next(iter(inputs.values())))
        return {name: np.asarray(values)[:count] for name, values in results.items()}

    def forward_backward_all(self, blobs=None, diffs=None, **arrays):
        """forward and backward over batches; `arrays` are values of inputs, and gradients of
        outputs. Returns two dicts of arrays by name: values, gradients."""
        values = {name: [] for name in [*self.outputs, *(blobs or [])]}
        gradients = {name: [] for name in [*self.inputs, *(diffs or [])]}
        count = len(next(iter(arrays.values())))
        for batch in self._batch(arrays):
            forward = {name: part for name, part in batch.items() if name in self.inputs}
            backward = {name: part for name, part in batch.items() if name in self.outputs}
            for name, part in self.forward(blobs=blobs, **forward).items():
                values[name].extend(part.copy())
            for name, part in self.backward(diffs=diffs, **backward).items():
                gradients[name].extend(part.copy())
        return ({name: np.asarray(part)[:count] for name, part in values.items()},
                {name: np.asarray(part)[:count] for name, part in gradients.items()})

    def reshape(self):
        """Gives all blobs the shapes that follow from those of the inputs."""
        self._core.reshape()

    def clear_param_diffs(self):
        """Sets the gradients of all weights to 0."""
        self._core.clear_gradients()

    def copy_from(self, model_file):
        """Copies weights from a .caffemodel, binary or HDF5, by layer name."""
        self._core.load(model_file)

    load_hdf5 = copy_from

    def share_with(self, other):
        """Uses the weights of net `other` in all layers of the same names."""
        self._core.share_weights(other._core)

    def save(self, model_file):
        """Writes the weights in Caffe's binary format."""
        if str(model_file).endswith(".h5"):  # an HDF5 file by its name otherwise
            self._save_as(model_file, ".caffemodel")
        else:
            self._core.save(model_file)

    def save_hdf5(self, model_file):
        """Writes the weights in HDF5."""
        if str(model_file).endswith(".h5"):
            self._core.save(model_file)
        else:
            self._save_as(model_file, ".h5")

    def _save_as(self, model_file, ending):
        folder = os.path.dirname(os.path.abspath(model_file))
        with tempfile.TemporaryDirectory(dir=folder) as place:
            made = os.path.join(place, "model" + ending)
            self._core.save(made)
            os.replace(made, model_file)

    def set_input_arrays(self, data, labels):
        """Gives the first layer, of type MemoryData, its examples: float32 arrays in C order,
        (n, channels, height, width) and n labels. They are copied."""
        if not self.layers or self._described[0].type != "MemoryData":
            raise RuntimeError(f"net '{self.name}': set_input_arrays: expected a first layer of "
                               "type MemoryData")
        for what, array in (("data", data), ("labels", labels)):
            if array.dtype != np.float32 or not array.flags["C_CONTIGUOUS"]:
                raise RuntimeError(f"set_input_arrays: {what}: expected float32 in C order")
        shape = self.blobs[self._described[0].tops[0]].shape
        if data.ndim != 4 or data.shape[1:] != shape[1:]:
            raise RuntimeError(f"set_input_arrays: data of shape {data.shape} given, expected "
                               f"(n, {shape[1]}, {shape[2]}, {shape[3]})")
        self._core.set_memory_data(self._layer_names[0], data, labels)


class Timer:
    """Measures the time between start() and stop(), in milliseconds: `ms`."""

    def __init__(self):
        self._begin = self._end = time.monotonic()

    def start(self):
        """Begins to measure."""
        self._begin = time.monotonic()

    def stop(self):
        """Ends."""
        self._end = time.monotonic()

    @property
    def ms(self):
        """Milliseconds between the two."""
        return 1000 * (self._end - self._begin)
