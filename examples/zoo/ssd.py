"""SSD-300 on VGG-16 (Liu and others: SSD: Single shot multibox detector, ECCV 2016), for 20 classes
of objects and the background. The names of layers are those of the published models, so that these
load."""

from prototxt import MSRA, XAVIER, Net, Word, constant

CLASSES = 21
MEAN = 118.0
SIZE = 300

# By feature map: pixels of the image between cells, the size of boxes, that of the next map's boxes,
# aspect ratios.
MAPS = {
    "conv4_3_norm": (8, 30, 60, [2]),
    "fc7": (16, 60, 111, [2, 3]),
    "conv6_2": (32, 111, 162, [2, 3]),
    "conv7_2": (64, 162, 213, [2, 3]),
    "conv8_2": (100, 213, 264, [2]),
    "conv9_2": (300, 264, 315, [2]),
}


def features(net, data):
    """VGG-16 whose two fully connected layers are convolutions, and four smaller maps behind it.
    Adds the layers named in MAPS."""
    x = data
    for block, (count, outputs) in enumerate(zip((2, 2, 3, 3, 3), (64, 128, 256, 512, 512)), 1):
        for i in range(1, count + 1):
            x = net.relu(net.conv(f"conv{block}_{i}", x, outputs, 3, pad=1))
        if block == 4:
            net.add("Normalize", "conv4_3_norm", x, norm_param={
                "across_spatial": False, "channel_shared": False, "scale_filler": constant(20)})
        x = net.pool("pool5", x, 3, 1, 1) if block == 5 else net.pool(f"pool{block}", x, 2, 2)
    x = net.relu(net.conv("fc6", x, 1024, 3, pad=6, dilation=6))
    x = net.relu(net.conv("fc7", x, 1024, 1))
    for number, reduced, outputs, stride in ((6, 256, 512, 2), (7, 128, 256, 2), (8, 128, 256, 1),
                                             (9, 128, 256, 1)):
        x = net.relu(net.conv(f"conv{number}_1", x, reduced, 1, weights=XAVIER))
        x = net.relu(net.conv(f"conv{number}_2", x, outputs, 3, stride, int(stride == 2),
                              weights=XAVIER))


def heads(net, data):
    """Locations, confidences and prior boxes of all maps: the names of their blobs."""
    def values(name, kind, outputs):
        """What a convolution says about each box, with the boxes of a cell next to each other."""
        top = net.conv(f"{name}_mbox_{kind}", name, outputs, 3, pad=1, weights=XAVIER)
        top = net.add("Permute", f"{top}_perm", top, permute_param={"order": [0, 2, 3, 1]})
        return net.add("Flatten", f"{top[:-5]}_flat", top, flatten_param={"axis": 1})

    tops = {"loc": [], "conf": [], "priorbox": []}
    for name, (step, least, most, ratios) in MAPS.items():
        boxes = 2 + 2 * len(ratios)
        tops["loc"].append(values(name, "loc", 4 * boxes))
        tops["conf"].append(values(name, "conf", CLASSES * boxes))
        tops["priorbox"].append(net.add(
            "PriorBox", f"{name}_mbox_priorbox", [name, data], prior_box_param={
                "min_size": least, "max_size": most, "aspect_ratio": ratios, "flip": True,
                "clip": False, "variance": [0.1, 0.1, 0.2, 0.2], "step": step, "offset": 0.5}))
    return [net.add("Concat", f"mbox_{kind}", bottoms,
                    concat_param={"axis": 2 if kind == "priorbox" else 1})
            for kind, bottoms in tops.items()]


def found(net, loc, conf, prior, include=None):
    """The objects: scores above 0.01, at most 200 per image."""
    x = net.add("Reshape", "mbox_conf_reshape", conf, include=include,
                reshape_param={"shape": {"dim": [0, -1, CLASSES]}})
    x = net.add("Softmax", "mbox_conf_softmax", x, include=include, softmax_param={"axis": 2})
    x = net.add("Flatten", "mbox_conf_flatten", x, include=include, flatten_param={"axis": 1})
    return net.add("DetectionOutput", "detection_out", [loc, x, prior], include=include,
                   detection_output_param={
                       "num_classes": CLASSES, "share_location": True, "background_label_id": 0,
                       "nms_param": {"nms_threshold": 0.45, "top_k": 400},
                       "code_type": Word("CENTER_SIZE"), "keep_top_k": 200,
                       "confidence_threshold": 0.01})


def ground_truth(net, batch):
    """A blob {1, 1, batch, 8}: one box per image, which is all of it, of the class after the image's
    label (0 is the background)."""
    column = {"shape": {"dim": [1, 1, batch, 1]}}
    numbers = [net.filled(f"image{i}", (1, 1, 1, 1), i) for i in range(batch)]
    image = net.add("Concat", "image", numbers, concat_param={"axis": 2})
    label = net.add("Reshape", "label_column", "label", reshape_param=column)
    label = net.add("Power", "object", label, power_param={"shift": 1})
    zero = net.filled("zero", (1, 1, batch, 1))
    one = net.filled("one", (1, 1, batch, 1), 1.0)
    return net.add("Concat", "truth", [image, label, zero, zero, zero, one, one, zero],
                   concat_param={"axis": 3})


def ssd300(folder, batch):
    """The net that is trained and tested."""
    net = Net("VGG_VOC0712_SSD_300x300", MSRA)
    net.images("data", f"{folder}/classes.txt", batch, SIZE, mean=MEAN)
    truth = ground_truth(net, batch)
    features(net, "data")
    loc, conf, prior = heads(net, "data")
    net.add("MultiBoxLoss", "mbox_loss", [loc, conf, prior, truth],
            include={"phase": Word("TRAIN")}, propagate_down=[True, True, False, False],
            loss_param={"normalization": Word("VALID")}, multibox_loss_param={
                "loc_loss_type": Word("SMOOTH_L1"), "conf_loss_type": Word("SOFTMAX"),
                "loc_weight": 1.0, "num_classes": CLASSES, "share_location": True,
                "match_type": Word("PER_PREDICTION"), "overlap_threshold": 0.5,
                "use_prior_for_matching": True, "background_label_id": 0,
                "use_difficult_gt": True, "neg_pos_ratio": 3.0, "neg_overlap": 0.5,
                "code_type": Word("CENTER_SIZE"), "mining_type": Word("MAX_NEGATIVE")})
    test = {"phase": Word("TEST")}
    objects = found(net, loc, conf, prior, test)
    net.add("DetectionEvaluate", "detection_eval", [objects, truth], include=test,
            detection_evaluate_param={"num_classes": CLASSES, "background_label_id": 0,
                                      "overlap_threshold": 0.5, "evaluate_difficult_gt": False})
    return net


def ssd300_deploy(batch=1):
    """The net that finds objects in images {batch, 3, 300, 300}."""
    net = Net("VGG_VOC0712_SSD_300x300_deploy", MSRA)
    net.layers.append({"name": "data", "type": "Input", "top": ["data"],
                       "input_param": {"shape": {"dim": [batch, 3, SIZE, SIZE]}}})
    features(net, "data")
    found(net, *heads(net, "data"))
    return net
