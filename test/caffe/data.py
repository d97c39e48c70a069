"""The small data sets that both programs train on, as files for the converters.

Grey: the first images of Fashion-MNIST (Debian's dataset-fashion-mnist), as idx files.
Colour: CIFAR-10's binary version with 1,000 records of each part, ten times over, because
converters want 10,000 a file: the first ones of the folder given, or made-up ones, in which
class k shows a pattern of its own under noise.
"""
import gzip
import math
import os
import random
import struct

FASHION = "/usr/share/datasets/fashion-mnist"
TRAIN_IMAGES, TEST_IMAGES = 3200, 1000
CIFAR_FILES = [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]
CIFAR_RECORD = 1 + 3 * 32 * 32
CIFAR_KEPT, CIFAR_REPEATS = 1000, 10


def write_fashion(folder):
    """{train,test}-{images,labels}.idx in `folder`."""
    os.makedirs(folder, exist_ok=True)
    for part, prefix, count in (("train", "train", TRAIN_IMAGES), ("test", "t10k", TEST_IMAGES)):
        for kind, head, size in (("images-idx3", 16, 28 * 28), ("labels-idx1", 8, 1)):
            with gzip.open(f"{FASHION}/{prefix}-{kind}-ubyte.gz") as file:
                header = bytearray(file.read(head))
                values = file.read(count * size)
            struct.pack_into(">I", header, 4, count)
            with open(f"{folder}/{part}-{kind[:6]}.idx", "wb") as file:
                file.write(header + values)


def made_up_records(seed):
    """Records of CIFAR's form. The patterns are the same for every seed, the noise is not."""
    noise = random.Random(seed)
    patterns = []
    for label in range(10):
        draw = random.Random(100 + label)
        waves = [(draw.uniform(0.1, 0.7), draw.uniform(0.1, 0.7), draw.uniform(0, 6.3))
                 for _ in range(3)]
        patterns.append([128 + 60 * math.sin(fx * x + fy * y + phase) for fx, fy, phase in waves
                         for y in range(32) for x in range(32)])
    records = []
    for i in range(CIFAR_KEPT):
        shown = noise.randrange(10)
        # One label in four says nothing: with a loss near 0, relative differences would, too.
        label = noise.randrange(10) if i % 4 == 0 else shown
        grey = noise.randbytes(CIFAR_RECORD - 1)
        records.append(bytes([label]) + bytes(
            max(0, min(255, int(p + (g - 128) * 0.9))) for p, g in zip(patterns[shown], grey)))
    return b"".join(records)


def write_cifar(folder, published=None):
    """CIFAR-10's six binary files in `folder`."""
    os.makedirs(folder, exist_ok=True)
    for part, names in (("train", CIFAR_FILES[:5]), ("test", CIFAR_FILES[5:])):
        if published:
            with open(os.path.join(published, names[0]), "rb") as file:
                records = file.read(CIFAR_KEPT * CIFAR_RECORD)
        else:
            records = made_up_records(seed=1 if part == "train" else 2)
        for name in names:
            with open(os.path.join(folder, name), "wb") as file:
                file.write(records * CIFAR_REPEATS)
