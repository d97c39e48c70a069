"""Builds the text of Caffe nets.

A net is a list of layers in the order of their computation. Every function that adds a layer
returns the name of its top, so that calls compose:

  net = Net("tiny")
  x = net.conv("conv1", "data", 16, kernel=3, pad=1)
  x = net.relu(x)
"""


class Word(str):
    """A text that stands without quotation marks: an enum, a boolean."""


def text_of(fields, indent=0):
    """Fields of a message, as (name, value) pairs or a dict; a dict value is a message, a list one
    field per element."""
    lines = []
    items = fields.items() if isinstance(fields, dict) else fields
    for name, value in items:
        if value is None:
            continue
        for each in value if isinstance(value, list) else [value]:
            lines.append("  " * indent + field_text(name, each, indent))
    return "\n".join(lines)


def field_text(name, value, indent):
    if isinstance(value, dict):
        if not value:
            return f"{name} {{}}"
        return f"{name} {{\n{text_of(value, indent + 1)}\n{'  ' * indent}}}"
    if isinstance(value, bool):
        return f"{name}: {'true' if value else 'false'}"
    if isinstance(value, str) and not isinstance(value, Word):
        return f'{name}: "{value}"'
    return f"{name}: {value:g}" if isinstance(value, float) else f"{name}: {value}"


XAVIER = {"type": "xavier"}
MSRA = {"type": "msra"}


def gaussian(std):
    return {"type": "gaussian", "std": std}


def constant(value=0):
    return {"type": "constant", "value": value} if value else {"type": "constant"}


class Net:
    def __init__(self, name, weights=XAVIER):
        self.name = name
        self.weights = weights  # the default filler of weights
        self.layers = []

    def text(self):
        return "\n".join([f'name: "{self.name}"'] +
                         [field_text("layer", layer, 0) for layer in self.layers]) + "\n"

    def add(self, kind, name, bottoms, tops=None, **fields):
        """Adds a layer; the top has the layer's name unless `tops` says otherwise."""
        as_list = lambda names: [names] if isinstance(names, str) else list(names)
        tops = as_list(tops if tops is not None else name)
        self.layers.append(
            {"name": name, "type": kind, "bottom": as_list(bottoms), "top": tops, **fields})
        return tops[0] if len(tops) == 1 else tops

    # ---- Data ----

    def images(self, top, listing, batch, size, phase=None, crop=None, grey=False, scale=None,
               mean=None, label="label", mirror=False):
        """Images of a list file, resized to size x size pixels."""
        transform = {"crop_size": crop, "scale": scale, "mirror": mirror or None,
                     "mean_value": [mean] if mean is not None else None}
        self.layers.append({
            "name": top, "type": "ImageData", "top": [top, label],
            "include": {"phase": Word(phase)} if phase else None,
            "transform_param": transform,
            "image_data_param": {"source": listing, "batch_size": batch, "new_height": size,
                                 "new_width": size, "is_color": not grey}})
        return top

    def filled(self, top, shape, value=0.0, filler=None):
        self.layers.append({
            "name": top, "type": "DummyData", "top": [top],
            "dummy_data_param": {"shape": {"dim": list(shape)},
                                 "data_filler": filler or constant(value)}})
        return top

    # ---- Layers with parameters ----

    def conv(self, name, bottom, outputs, kernel, stride=1, pad=0, group=None, bias=True,
             weights=None, bias_value=0, dilation=None, params=None, kind="Convolution"):
        if params is None:
            params = [{"lr_mult": 1, "decay_mult": 1}] + [{"lr_mult": 2, "decay_mult": 0}] * bias
        size = {"kernel_size": kernel} if isinstance(kernel, int) else {
            "kernel_h": kernel[0], "kernel_w": kernel[1]}
        return self.add(kind, name, bottom, param=params, convolution_param={
            "num_output": outputs, **size, "stride": stride if stride != 1 else None,
            "pad": pad or None, "group": group, "dilation": dilation,
            "bias_term": None if bias else False, "weight_filler": weights or self.weights,
            "bias_filler": constant(bias_value) if bias else None})

    def inner(self, name, bottom, outputs, weights=None, bias_value=0, params=None, axis=None):
        if params is None:
            params = [{"lr_mult": 1, "decay_mult": 1}, {"lr_mult": 2, "decay_mult": 0}]
        return self.add("InnerProduct", name, bottom, param=params, inner_product_param={
            "num_output": outputs, "axis": axis, "weight_filler": weights or self.weights,
            "bias_filler": constant(bias_value)})

    def norm(self, suffix, blob):
        """Batch normalisation with a learned scale and bias, in place."""
        self.add("BatchNorm", f"bn{suffix}", blob, blob)
        return self.add("Scale", f"scale{suffix}", blob, blob, scale_param={"bias_term": True})

    # ---- Layers without ----

    def relu(self, blob, name=None):
        return self.add("ReLU", name or f"{blob}_relu", blob, blob)

    def pool(self, name, bottom, kernel=None, stride=None, pad=None, kind="MAX"):
        return self.add("Pooling", name, bottom, pooling_param={
            "pool": Word(kind), "kernel_size": kernel, "stride": stride, "pad": pad,
            "global_pooling": True if kernel is None else None})

    def lrn(self, name, bottom, size=5, alpha=1e-4):
        return self.add("LRN", name, bottom, lrn_param={
            "local_size": size, "alpha": alpha, "beta": 0.75})

    def dropout(self, blob, ratio=0.5):
        return self.add("Dropout", f"{blob}_drop", blob, blob,
                        dropout_param={"dropout_ratio": ratio})

    def classify(self, scores, label="label", loss="loss", weight=None, accuracy="accuracy"):
        """A softmax loss, and in tests the accuracy."""
        self.add("SoftmaxWithLoss", loss, [scores, label], loss_weight=weight)
        if accuracy:
            self.add("Accuracy", accuracy, [scores, label], include={"phase": Word("TEST")})
        return loss
