"""As much of protobuf's binary form as it takes to read weights: no package is needed."""
import struct


def fields(data):
    """(number, kind, value) of each field of a message: ints for varints, bytes otherwise."""
    at = 0

    def varint():
        nonlocal at
        result = shift = 0
        while True:
            byte = data[at]
            at += 1
            result |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return result
    while at < len(data):
        key = varint()
        kind = key & 7
        if kind == 0:
            yield key >> 3, kind, varint()
            continue
        size = {1: 8, 5: 4}[kind] if kind != 2 else varint()
        yield key >> 3, kind, data[at:at + size]
        at += size


def blob_values(data):
    """`data` (field 5) of a BlobProto, packed or not."""
    values = []
    for number, _, value in fields(data):
        if number == 5:
            values += struct.unpack(f"<{len(value) // 4}f", value)
    return values


def model_weights(data):
    """(layer, blob) -> values, of a NetParameter (layers: field 100; name: 1; blobs: 7)."""
    weights = {}
    for number, _, layer in fields(data):
        if number != 100:
            continue
        content = list(fields(layer))
        name = next(value for number, _, value in content if number == 1).decode()
        blobs = [value for number, _, value in content if number == 7]
        for i, blob in enumerate(blobs):
            weights[name, i] = blob_values(blob)
    return weights


def state_history(data):
    """The momentum in a SolverState (field 3), a list of values for each parameter."""
    return [blob_values(value) for number, _, value in fields(data) if number == 3]
