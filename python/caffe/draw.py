"""Diagrams of nets by Graphviz (package graphviz), as in pycaffe."""
import os
import subprocess

from .proto import caffe_pb2

_COLORS = {"Convolution": "#FF5050", "Deconvolution": "#FF5050", "Pooling": "#FF9900",
           "InnerProduct": "#CC33FF"}


def _quoted(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _included(layer, phase):
    if phase is None:
        return True
    if layer.include and not any(not rule.HasField("phase") or rule.phase == phase
                                 for rule in layer.include):
        return False
    return not any(rule.HasField("phase") and rule.phase == phase for rule in layer.exclude)


def _window(param, one, of_both):
    """A size of both axes, whichever way it is given."""
    if of_both and param.HasField(one[0]):
        return f"{getattr(param, one[0])}x{getattr(param, one[1])}"
    value = getattr(param, one[2])
    if isinstance(value, int):
        return str(value)
    return "x".join(str(v) for v in value) or one[3]


def get_layer_label(layer, rankdir="LR", display_lrm=False):
    """The text in the node of a layer."""
    parts = [f"{layer.name} ({layer.type})"]
    if layer.type in ("Convolution", "Deconvolution", "Pooling"):
        pooling = layer.type == "Pooling"
        param = layer.pooling_param if pooling else layer.convolution_param
        if pooling:
            parts.append(caffe_pb2.PoolingParameter.PoolMethod.Name(param.pool) + " pooling")
        for text, names in (("kernel size", ("kernel_h", "kernel_w", "kernel_size", "1")),
                            ("stride", ("stride_h", "stride_w", "stride", "1")),
                            ("pad", ("pad_h", "pad_w", "pad", "0"))):
            parts.append(f"{text}: {_window(param, names, True)}")
    if display_lrm and layer.type in ("Convolution", "Deconvolution", "InnerProduct"):
        rates = [spec.lr_mult for spec in layer.param] or [1.0, 1.0]
        parts.append("lr mult: " + ", ".join(f"{rate:g}" for rate in rates))
    return (" " if rankdir in ("TB", "BT") else "\n").join(parts)


def _outputs_of(layer):
    if layer.type == "Data":
        return f"Batch {layer.data_param.batch_size}"
    if layer.type in ("Convolution", "Deconvolution"):
        return str(layer.convolution_param.num_output)
    if layer.type == "InnerProduct":
        return str(layer.inner_product_param.num_output)
    return ""


def get_dot(caffe_net, rankdir="LR", label_edges=True, phase=None, display_lrm=False):
    """The diagram in Graphviz's language."""
    lines = [f"digraph {_quoted(caffe_net.name or 'Net')} {{", f"rankdir={rankdir};",
             "node [style=filled];"]
    blobs = {}

    def blob(name):
        if name not in blobs:
            blobs[name] = f"b{len(blobs)}"
            lines.append(f"{blobs[name]} [shape=octagon, fillcolor=\"#E0E0E0\", "
                         f"label={_quoted(name)}];")
        return blobs[name]

    for number, layer in enumerate(caffe_net.layer):
        if not _included(layer, phase):
            continue
        node = f"l{number}"
        label = _quoted(get_layer_label(layer, rankdir, display_lrm)).replace("\n", "\\n")
        color = "#90EE90" if list(layer.bottom) == list(layer.top) and layer.bottom else (
            _COLORS.get(layer.type, "#6495ED"))
        lines.append(f"{node} [shape=record, fillcolor=\"{color}\", label={_escaped(label)}];")
        for name in layer.bottom:
            lines.append(f"{blob(name)} -> {node};")
        for name in layer.top:
            text = f" [label={_quoted(_outputs_of(layer))}]" if label_edges else ""
            lines.append(f"{node} -> {blob(name)}{text};")
    return "\n".join(lines + ["}", ""])


def _escaped(label):
    """Characters that have a meaning in the label of a record."""
    for character in "{}|<>":
        label = label.replace(character, "\\" + character)
    return label


def get_pydot_graph(caffe_net, rankdir="LR", label_edges=True, phase=None, display_lrm=False):
    """The diagram as a pydot.Dot, for programs that change it; needs the package pydot."""
    import pydot  # pylint: disable=import-outside-toplevel
    return pydot.graph_from_dot_data(get_dot(caffe_net, rankdir, label_edges, phase,
                                             display_lrm))[0]


def draw_net(caffe_net, rankdir="LR", ext="png", phase=None, display_lrm=False):
    """The diagram of a caffe_pb2.NetParameter as an image of format `ext`: bytes."""
    text = get_dot(caffe_net, rankdir, phase=phase, display_lrm=display_lrm)
    if ext == "raw":
        return text.encode()
    try:
        result = subprocess.run(["dot", f"-T{ext}"], input=text.encode(), capture_output=True,
                                check=False)
    except FileNotFoundError as error:
        raise RuntimeError("draw_net: there is no program dot: install graphviz") from error
    if result.returncode != 0:
        raise RuntimeError("draw_net: " + result.stderr.decode(errors="replace").strip())
    return result.stdout


def draw_net_to_file(caffe_net, filename, rankdir="LR", phase=None, display_lrm=False):
    """Writes the diagram in the format that the file's name ends with; .raw: Graphviz's text."""
    ext = os.path.splitext(filename)[1][1:] or "png"
    with open(filename, "wb") as file:
        file.write(draw_net(caffe_net, rankdir, ext, phase, display_lrm))
