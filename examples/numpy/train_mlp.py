#!/usr/bin/python3
"""A small net in numpy that two processes train together on Fashion-MNIST:

    make python && export PYTHONPATH=$PWD/build/python
    sudo apt install dataset-fashion-mnist
    python3 examples/numpy/train_mlp.py a &
    python3 examples/numpy/train_mlp.py b

Each process draws its own images. All weights lie in one array, into which the other process's
progress is written while this one computes (docs/python.md).
"""
import argparse
import gzip
import os

import numpy as np

import millrace

HERE = os.path.dirname(os.path.abspath(__file__))
HIDDEN, CLASSES, BATCH, RATE = 100, 10, 100, 0.1


def read(folder, name, header):
    with gzip.open(os.path.join(folder, name + "-ubyte.gz")) as file:
        return np.frombuffer(file.read(), np.uint8, offset=header)


def images_of(folder, part):
    pixels = read(folder, f"{part}-images-idx3", 16).reshape(-1, 784)
    return pixels.astype(np.float32) / 255, read(folder, f"{part}-labels-idx1", 8)


def layers(array):
    """Views of the array: weights and bias of both layers."""
    parts, begin = [], 0
    for shape in ((784, HIDDEN), (HIDDEN,), (HIDDEN, CLASSES), (CLASSES,)):
        end = begin + int(np.prod(shape))
        parts.append(array[begin:end].reshape(shape))
        begin = end
    return parts


def forward(array, images):
    w1, b1, w2, b2 = layers(array)
    hidden = np.maximum(images @ w1 + b1, 0)
    scores = np.exp(hidden @ w2 + b2)
    return hidden, scores / scores.sum(axis=1, keepdims=True)


def write_gradient(array, images, labels, gradient):
    hidden, error = forward(array, images)
    error[np.arange(len(labels)), labels] -= 1
    error /= len(labels)
    w1, b1, w2, b2 = layers(gradient)
    w2[...], b2[...] = hidden.T @ error, error.sum(axis=0)
    error = (error @ layers(array)[2].T) * (hidden > 0)
    w1[...], b1[...] = images.T @ error, error.sum(axis=0)


def main():
    flags = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    flags.add_argument("node", help="a or b, its name in the topology file")
    flags.add_argument("--topology", default=os.path.join(HERE, "pair.prototxt"))
    flags.add_argument("--data", default="/usr/share/datasets/fashion-mnist")
    flags.add_argument("--iterations", type=int, default=6000, help="of both together")
    options = flags.parse_args()

    images, labels = images_of(options.data, "train")
    random = np.random.default_rng(ord(options.node[0]))
    weights = millrace.empty((784 + 1) * HIDDEN + (HIDDEN + 1) * CLASSES)
    weights[...] = random.normal(0, 0.05, weights.size)
    gradient = np.empty_like(weights)
    with millrace.stream(weights, topology=options.topology, node=options.node) as member:
        member.join()
        while member.iterations < options.iterations:
            some = random.integers(0, len(images), BATCH)
            write_gradient(weights, images[some], labels[some], gradient)
            member.add(-RATE * gradient)
    test_images, test_labels = images_of(options.data, "t10k")
    accuracy = np.mean(forward(weights, test_images)[1].argmax(axis=1) == test_labels)
    print(f"node {options.node}: {member.iterations} iterations, accuracy {accuracy:.4f}")


if __name__ == "__main__":
    main()
