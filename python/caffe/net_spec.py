"""Nets written in Python, as in pycaffe:

    n = caffe.NetSpec()
    n.data, n.label = L.Data(source="db", batch_size=64, ntop=2)
    n.ip = L.InnerProduct(n.data, num_output=10)
    n.loss = L.SoftmaxWithLoss(n.ip, n.label)
    print(n.to_proto())
"""
from collections import Counter, OrderedDict

from .proto import caffe_pb2


def _fields_of_types():
    """The field of LayerParameter that has a layer type's parameters, by type: Convolution ->
    convolution_param."""
    fields = {}
    for field in caffe_pb2.LayerParameter.DESCRIPTOR.fields:
        if field.name.endswith("_param") and field.message_type is not None:
            fields[field.message_type.name[:-len("Parameter")]] = field.name
    return fields


_FIELDS = _fields_of_types()


def param_name_dict():
    """The same fields without their ending "_param": Convolution -> convolution."""
    return {name: field[:-len("_param")] for name, field in _FIELDS.items()}


def assign_proto(proto, name, val):
    """Sets field `name` of a message: a dict is a message, a list a repeated field, and so is a
    single value of one."""
    if name not in proto.DESCRIPTOR.fields_by_name:
        raise AttributeError(f"{proto.DESCRIPTOR.name} has no field '{name}'")
    field = proto.DESCRIPTOR.fields_by_name[name]
    target = getattr(proto, name)
    if field.label == field.LABEL_REPEATED:
        for item in val if isinstance(val, (list, tuple)) else [val]:
            if isinstance(item, dict):
                message = target.add()
                for key, value in item.items():
                    assign_proto(message, key, value)
            else:
                target.append(item)
    elif isinstance(val, dict):
        target.SetInParent()
        for key, value in val.items():
            assign_proto(target, key, value)
    elif field.message_type is not None:
        target.CopyFrom(val)
    else:
        setattr(proto, name, val)


class Top:
    """One output of a layer."""

    def __init__(self, fn, n):
        self.fn = fn
        self.n = n

    def to_proto(self):
        """A NetParameter of the layers that compute this output."""
        return to_proto(self)


class Function:
    """A layer: its type, inputs (Top) and parameters. ntop: number of outputs. in_place: the
    output is the input's blob."""

    def __init__(self, type_name, inputs, params):
        for number, given in enumerate(inputs):
            if not isinstance(given, Top):
                raise TypeError(f"{type_name} input {number} is not a Top (type is {type(given)})")
        self.type_name = type_name
        self.inputs = inputs
        self.params = dict(params)
        self.ntop = self.params.pop("ntop", 1)
        self.in_place = self.params.pop("in_place", False)
        self.tops = tuple(Top(self, n) for n in range(self.ntop))


class _Writer:
    """Makes messages of layers, each behind those that it reads."""

    def __init__(self, names):
        self.names = names  # of tops, and of layers without one
        self.numbers = Counter()
        self.layers = OrderedDict()

    def name_of(self, key, type_name):
        if key not in self.names:
            self.numbers[type_name] += 1
            self.names[key] = f"{type_name}{self.numbers[type_name]}"
        return self.names[key]

    def add(self, last):
        # Without recursion: nets may have thousands of layers.
        waiting = [last]
        while waiting:
            fn = waiting[-1]
            missing = [given.fn for given in fn.inputs if given.fn not in self.layers]
            if missing and fn not in self.layers:
                waiting.append(missing[0])
                continue
            waiting.pop()
            if fn not in self.layers:
                self.layers[fn] = self.message(fn)

    def message(self, fn):
        layer = caffe_pb2.LayerParameter()
        layer.type = fn.type_name
        layer.bottom.extend(self.layers[given.fn].top[given.n] for given in fn.inputs)
        if fn.in_place:
            layer.top.extend(layer.bottom)
        else:
            layer.top.extend(self.name_of(top, fn.type_name) for top in fn.tops)
        layer.name = self.name_of(fn.tops[0] if fn.tops else fn, fn.type_name)
        if "name" in fn.params:
            layer.name = fn.params["name"]
        own = _FIELDS.get(fn.type_name)
        for key, value in fn.params.items():
            if key == "name":
                continue
            of_type = own is not None and not key.endswith("param")
            if of_type and key in getattr(layer, own).DESCRIPTOR.fields_by_name:
                assign_proto(getattr(layer, own), key, value)
            else:
                assign_proto(layer, key, value)
        return layer

    def net(self):
        net = caffe_pb2.NetParameter()
        net.layer.extend(self.layers.values())
        return net


def to_proto(*tops):
    """A NetParameter of the layers that compute `tops`, with generated names."""
    writer = _Writer({})
    for top in tops:
        writer.add(top.fn if isinstance(top, Top) else top)
    return writer.net()


class NetSpec:
    """Outputs of layers by name: an attribute is the name of a blob, and of its layer."""

    def __init__(self):
        super().__setattr__("tops", OrderedDict())

    def __setattr__(self, name, value):
        self.tops[name] = value

    def __getattr__(self, name):
        if name == "tops":  # of an object that is being copied
            raise AttributeError(name)
        try:
            return self.tops[name]
        except KeyError:
            raise AttributeError(f"the net has no '{name}'") from None

    __setitem__ = __setattr__

    def __getitem__(self, name):
        return self.tops[name]

    def __delitem__(self, name):
        del self.tops[name]

    __delattr__ = __delitem__

    def to_proto(self):
        """A NetParameter of the layers that compute all named outputs."""
        writer = _Writer({top: name for name, top in self.tops.items()})
        for top in self.tops.values():
            writer.add(top.fn if isinstance(top, Top) else top)
        return writer.net()


class Layers:
    """layers.Convolution(bottom, kernel_size=3) is the output of such a layer; with ntop a tuple
    of outputs, with ntop=0 the layer."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)

        def layer(*inputs, **params):
            fn = Function(name, inputs, params)
            return fn if fn.ntop == 0 else fn.tops[0] if fn.ntop == 1 else fn.tops

        return layer


class Parameters:
    """params.Pooling.MAX is the value of an enumeration of PoolingParameter."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(caffe_pb2, name + "Parameter")


layers = Layers()
params = Parameters()
