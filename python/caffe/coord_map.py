"""How the coordinates of one blob of a NetSpec lie in another, to crop one to the other, as in
pycaffe. A map is (axis, a, b): element i of the blob lies at a * i + b of the other, on the axes
behind `axis`; None: on any. a and b are numbers or arrays with one for each spatial axis."""
import numpy as np

from .net_spec import layers as L

_IDENTITY = (None, 1, 0)
_POINTWISE = {"AbsVal", "BatchNorm", "Bias", "BNLL", "Dropout", "Eltwise", "ELU", "Log", "LRN",
              "Exp", "MVN", "Power", "ReLU", "PReLU", "Scale", "Sigmoid", "Split", "TanH",
              "Threshold"}


class UndefinedMapException(Exception):
    """A layer has no map of coordinates."""


class AxisMismatchException(Exception):
    """Two maps are of other axes."""


def _sizes(params, name, default):
    return np.array(params.get(name, default), ndmin=1)


def conv_params(fn):
    """(axis, stride, extent with dilation, padding) of a convolution or pooling."""
    params = fn.params.get("convolution_param", fn.params)
    for side in ("h", "w"):
        for name in ("pad", "kernel", "stride"):
            assert f"{name}_{side}" not in fn.params, f"{name}_{side}: expected {name} for all axes"
    extent = (np.array(params["kernel_size"], ndmin=1) - 1) * _sizes(params, "dilation", 1) + 1
    return params.get("axis", 1), _sizes(params, "stride", 1), extent, _sizes(params, "pad", 0)


def crop_params(fn):
    """(axis, offset) of a Crop: the first axis that it crops."""
    params = fn.params.get("crop_param", fn.params)
    return params.get("axis", 2), _sizes(params, "offset", 0)


def coord_map(fn):
    """The map of a layer, from its output to its input."""
    if fn.type_name in _POINTWISE:
        return _IDENTITY
    if fn.type_name in ("Convolution", "Pooling", "Im2col"):
        axis, stride, extent, pad = conv_params(fn)
        return axis, 1 / stride, (pad - (extent - 1) / 2) / stride
    if fn.type_name == "Deconvolution":
        axis, stride, extent, pad = conv_params(fn)
        return axis, stride, (extent - 1) / 2 - pad
    if fn.type_name == "Crop":
        axis, offset = crop_params(fn)
        return axis - 1, 1, -offset
    raise UndefinedMapException(fn.type_name)


def compose(base_map, next_map):
    """The map that does `next_map`, and then `base_map`."""
    axis, a, b = base_map
    next_axis, next_a, next_b = next_map
    if axis is not None and next_axis is not None and axis != next_axis:
        raise AxisMismatchException(f"axis {next_axis} given, expected {axis}")
    return next_axis if axis is None else axis, a * next_a, a * next_b + b


def inverse(coord_map):  # the argument's name is the interface's
    """The map in the other direction."""
    axis, a, b = coord_map
    return axis, 1 / a, -b / a


def _ancestors(top):
    """Yields the blobs that `top` depends on, itself first, with their maps."""
    maps = {top: _IDENTITY}
    waiting = [top]
    while waiting:
        blob = waiting.pop()
        yield blob, maps[blob]
        try:
            step = coord_map(blob.fn)
        except UndefinedMapException:
            continue
        # A Crop reads only the shape of its second input.
        inputs = blob.fn.inputs[:1] if blob.fn.type_name == "Crop" else blob.fn.inputs
        for given in inputs:
            maps[given] = compose(maps[blob], step)
            waiting.append(given)


def coord_map_from_to(top_from, top_to):
    """The map between two blobs, by way of a blob that both depend on."""
    from_maps = dict(_ancestors(top_from))
    for blob, to_map in _ancestors(top_to):
        if blob in from_maps:
            return compose(to_map, inverse(from_maps[blob]))
    raise RuntimeError("coord_map_from_to: no spatial layers connect the two blobs")


def crop(top_from, top_to):
    """A Crop layer that crops `top_from` to where it covers `top_to`."""
    axis, a, b = coord_map_from_to(top_from, top_to)
    assert np.all(a == 1), f"crop: the scales differ by {a}, expected equal ones"
    assert np.all(b <= 0), f"crop: offset {b} given, expected none below 0"
    assert np.all(np.round(b) == b), f"crop: offset {b} given, expected whole numbers"
    offset = [int(v) for v in np.atleast_1d(-np.round(b))]
    return L.Crop(top_from, top_to, crop_param={"axis": axis + 1, "offset": offset})
