#!/usr/bin/python3
"""LeNet in PyTorch that two processes train together on Fashion-MNIST:

    make python && export PYTHONPATH=$PWD/build/python
    sudo apt install dataset-fashion-mnist python3-torch
    python3 examples/pytorch/train_lenet.py a &
    python3 examples/pytorch/train_lenet.py b

Only the three lines with `run` are not those of a program for one process. A process may join
later, or leave by Ctrl-C: the other one goes on (docs/python.md).
"""
import argparse
import gzip
import os

import numpy as np
import torch
from torch import nn

import millrace

HERE = os.path.dirname(os.path.abspath(__file__))
BATCH = 64


def read(folder, name, header):
    with gzip.open(os.path.join(folder, name + "-ubyte.gz")) as file:
        return np.frombuffer(file.read(), np.uint8, offset=header)


def images_of(folder, part):
    pixels = read(folder, f"{part}-images-idx3", 16).reshape(-1, 1, 28, 28)
    labels = read(folder, f"{part}-labels-idx1", 8)
    return torch.from_numpy(pixels / np.float32(255)), torch.from_numpy(labels.astype(np.int64))


def lenet():
    return nn.Sequential(nn.Conv2d(1, 20, 5), nn.MaxPool2d(2), nn.Conv2d(20, 50, 5),
                         nn.MaxPool2d(2), nn.Flatten(), nn.Linear(800, 500), nn.ReLU(),
                         nn.Linear(500, 10))


def main():
    flags = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    flags.add_argument("node", help="a or b, its name in the topology file")
    flags.add_argument("--topology", default=os.path.join(HERE, "pair.prototxt"))
    flags.add_argument("--data", default="/usr/share/datasets/fashion-mnist")
    flags.add_argument("--iterations", type=int, default=2000, help="of both together")
    options = flags.parse_args()

    torch.set_num_threads(max(1, (os.cpu_count() or 2) // 2))
    torch.manual_seed(ord(options.node[0]))  # each draws its own images
    images, labels = images_of(options.data, "train")
    model = lenet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, nesterov=True)
    with millrace.torch.join(options.topology, node=options.node, model=model,
                             optimizer=optimizer) as run:
        while run.iterations < options.iterations:
            some = torch.randint(len(images), (BATCH,))
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images[some]), labels[some]).backward()
            optimizer.step()
    test_images, test_labels = images_of(options.data, "t10k")
    with torch.no_grad():
        accuracy = (model(test_images).argmax(1) == test_labels).float().mean()
    print(f"node {options.node}: {run.iterations} iterations, accuracy {accuracy:.4f}")


if __name__ == "__main__":
    main()
