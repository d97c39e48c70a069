"""Generates small images of ten classes, so that every net of the zoo has something to learn. Each
class has a colour, and stripes of its own direction and width; noise is added. The same numbers
give the same images everywhere."""

import math
import os
import random
import struct
import zlib

CLASSES = 10


def write_png(path, width, height, channels, pixels):
    """Pixels are bytes, row by row; 1 channel is grey, 3 are red, green, blue."""
    def chunk(kind, body):
        return (struct.pack(">I", len(body)) + kind + body +
                struct.pack(">I", zlib.crc32(kind + body)))

    rows = b"".join(b"\0" + pixels[y * width * channels:(y + 1) * width * channels]
                    for y in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 0 if channels == 1 else 2, 0, 0, 0)
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) +
                   chunk(b"IDAT", zlib.compress(rows, 1)) + chunk(b"IEND", b""))


def stripes(label, width, height, rng):
    """A value from 0 to 255 per pixel."""
    angle = math.pi * label / CLASSES
    period = 6 + 2 * (label % 5)
    phase = rng.random() * period
    cosine, sine = math.cos(angle), math.sin(angle)
    return [127 + 100 * math.sin(2 * math.pi * (x * cosine + y * sine + phase) / period) +
            rng.uniform(-20, 20) for y in range(height) for x in range(width)]


def byte(value):
    return max(0, min(255, int(value)))


def colour(label, size, rng):
    hue = [0.4 + 0.6 * ((label * 7 + 3 * c) % CLASSES) / CLASSES for c in range(3)]
    return bytes(byte(v * h) for v in stripes(label, size, size, rng) for h in hue)


def grey(label, rng):
    return bytes(byte(v) for v in stripes(label, 28, 28, rng))


def generate(folder, count=40, size=64):
    """Writes `count` images for each list. Does nothing if they are there."""
    done = os.path.join(folder, f"generated-{count}-{size}")
    if os.path.exists(done):
        return
    os.makedirs(folder, exist_ok=True)
    rng = random.Random(1)
    lists = {name: [] for name in ("classes", "digits", "pairs", "scenes", "masks")}
    for i in range(count):
        label = i % CLASSES

        def save(kind, width, height, channels, pixels, value):
            path = os.path.join(folder, f"{kind}-{i:03}.png")
            write_png(path, width, height, channels, pixels)
            lists[kind].append(f"{path} {value}\n")

        picture = colour(label, size, rng)
        save("classes", size, size, 3, picture, label)
        save("digits", 28, 28, 1, grey(label, rng), label)
        other = label if rng.random() < 0.5 else (label + rng.randrange(1, CLASSES)) % CLASSES
        save("pairs", 28, 56, 1, grey(label, rng) + grey(other, rng), int(other == label))
        # A scene is half one class and half another.
        right = (label + 3) % CLASSES
        second = colour(right, size, rng)
        half = size // 2
        save("scenes", size, size, 3, b"".join(
            picture[3 * y * size:3 * (y * size + half)] +
            second[3 * (y * size + half):3 * (y + 1) * size] for y in range(size)), 0)
        save("masks", size, size, 1, (bytes([label]) * half + bytes([right]) * half) * size, 0)
    for name, lines in lists.items():
        with open(os.path.join(folder, name + ".txt"), "w") as file:
            file.writelines(lines)
    open(done, "w").close()
