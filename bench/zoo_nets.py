"""The zoo's nets as bench/zoo measures them: their layers of training, on data in memory."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
                                "examples/zoo"))

import nets  # noqa: E402
from prototxt import constant  # noqa: E402

CLASSES = 10


def training_net(name, batch):
    """The net without what is for tests; in place of the images of a list, a batch of constants
    that never changes: no time goes into data. Returns the Net and the shape of an image."""
    net = nets.NETS[name][0]("", batch)
    shape = None
    kept = []
    for layer in net.layers:
        if str((layer.get("include") or {}).get("phase")) == "TEST":
            continue
        if layer["type"] == "ImageData":
            source, transform = layer["image_data_param"], layer["transform_param"]
            side = transform.get("crop_size") or source["new_height"]
            shape = (3 if source["is_color"] else 1, side, side)
            data, label = layer["top"]
            kept.append({"name": data, "type": "DummyData", "top": [data, label],
                         "dummy_data_param": {
                             "shape": [{"dim": [batch, *shape]}, {"dim": [batch]}],
                             "data_filler": [constant(0.5), constant(1)]}})
        else:
            kept.append(layer)
    net.layers = kept
    return net, shape
