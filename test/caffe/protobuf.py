"""As much of protobuf's binary form as it takes to read and change weights: no package is needed."""
import random
import struct


def fields(data):
    """(number, value, place) of each field of a message: ints for varints, or bytes, which
    begin at `place`."""
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
            yield key >> 3, varint(), at
            continue
        size = {1: 8, 5: 4}[kind] if kind != 2 else varint()
        yield key >> 3, data[at:at + size], at
        at += size


def blob_values(data):
    """`data` (field 5) of a BlobProto, packed or not."""
    values = []
    for number, value, _ in fields(data):
        if number == 5:
            values += struct.unpack(f"<{len(value) // 4}f", value)
    return values


def places(data, path, at=0):
    """(begin, end) of each field that `path` leads to, numbers from the outermost on."""
    for number, value, begin in fields(data):
        if number != path[0]:
            continue
        if len(path) > 1:
            yield from places(value, path[1:], at + begin)
        else:
            yield at + begin, at + begin + len(value)


def with_other_last_bits(model, seed):
    """A NetParameter (layers: field 100; blobs: 7; data: 5), the last two bits of whose weights
    are drawn at random."""
    draw, result = random.Random(seed), bytearray(model)
    for begin, end in places(model, (100, 7, 5)):
        for low in range(begin, end, 4):
            result[low] = result[low] & 0xfc | draw.randrange(4)
    return bytes(result)


def state_history(data):
    """The momentum in a SolverState (field 3), a list of values for each parameter."""
    return [blob_values(value) for number, value, _ in fields(data) if number == 3]
