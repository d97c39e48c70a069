#!/usr/bin/python3
"""PyTorch's speed on LeNet, cifar10_quick and CaffeNet: whole training iterations
on one thread.

An iteration is forward pass, cross-entropy, backward pass and a step of SGD with
momentum and weight decay, on data already in memory: no data loader. --search
tries each memory format with each way in which the optimizer can walk over the
parameters and prints the fastest; --settings measures one of them.

    bench/torch_peer.py --net=lenet --search
    bench/torch_peer.py --net=lenet --settings=channels_last,foreach --seconds=4

Debian's PyTorch takes whichever libblas.so.3 is installed; with the reference one
its inner products run at a fraction of their speed, so the JSON names what was
loaded.
"""
import os

# Before libraries read them. OPENBLAS_CORETYPE, where it names an older core than
# the one here, makes OpenBLAS slower than it is by itself.
os.environ.pop("OPENBLAS_CORETYPE", None)
os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["OMP_NUM_THREADS"] = "1"

import argparse
import itertools
import json
import time

import torch
from torch import nn

FORMATS = {"contiguous": torch.contiguous_format, "channels_last": torch.channels_last}
OPTIMIZERS = {"loop": False, "foreach": True}
SETTINGS = [",".join(pair) for pair in itertools.product(FORMATS, OPTIMIZERS)]
BATCHES = 4


def conv(inputs, outputs, kernel, **options):
    return [nn.Conv2d(inputs, outputs, kernel, **options), nn.ReLU(inplace=True)]


def lenet():
    return nn.Sequential(
        nn.Conv2d(1, 20, 5), nn.MaxPool2d(2, 2), nn.Conv2d(20, 50, 5), nn.MaxPool2d(2, 2),
        nn.Flatten(), nn.Linear(800, 500), nn.ReLU(inplace=True), nn.Linear(500, 10))


def quick():
    return nn.Sequential(
        nn.Conv2d(3, 32, 5, padding=2), nn.MaxPool2d(3, 2, ceil_mode=True),
        nn.ReLU(inplace=True),
        *conv(32, 32, 5, padding=2), nn.AvgPool2d(3, 2, ceil_mode=True),
        *conv(32, 64, 5, padding=2), nn.AvgPool2d(3, 2, ceil_mode=True),
        nn.Flatten(), nn.Linear(1024, 64), nn.Linear(64, 10))


def caffenet():
    return nn.Sequential(
        *conv(3, 96, 11, stride=4), nn.MaxPool2d(3, 2, ceil_mode=True),
        nn.LocalResponseNorm(5, 1e-4, 0.75, 1.0),
        *conv(96, 256, 5, padding=2, groups=2), nn.MaxPool2d(3, 2, ceil_mode=True),
        nn.LocalResponseNorm(5, 1e-4, 0.75, 1.0),
        *conv(256, 384, 3, padding=1), *conv(384, 384, 3, padding=1, groups=2),
        *conv(384, 256, 3, padding=1, groups=2), nn.MaxPool2d(3, 2, ceil_mode=True),
        nn.Flatten(), nn.Linear(9216, 4096), nn.ReLU(inplace=True), nn.Dropout(0.5),
        nn.Linear(4096, 4096), nn.ReLU(inplace=True), nn.Dropout(0.5), nn.Linear(4096, 1000))


# Model, batch, shape of an image, learning rate, weight decay.
NETS = {"lenet": (lenet, 64, (1, 28, 28), 0.01, 5e-4),
        "quick": (quick, 100, (3, 32, 32), 0.001, 4e-3),
        "caffenet": (caffenet, 16, (3, 227, 227), 0.01, 5e-4)}


class Trainer:
    def __init__(self, net, settings):
        make, self.batch, shape, rate, decay = NETS[net]
        memory_format, optimizer = settings.split(",")
        memory_format = FORMATS[memory_format]
        torch.manual_seed(1)
        self.model = make().to(memory_format=memory_format).train()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=rate, momentum=0.9,
                                         weight_decay=decay, foreach=OPTIMIZERS[optimizer])
        self.loss = nn.CrossEntropyLoss()
        self.data = [(torch.rand(self.batch, *shape).sub_(0.5)
                      .contiguous(memory_format=memory_format),
                      torch.randint(0, 10, (self.batch,))) for _ in range(BATCHES)]
        self.steps = 0

    def step(self):
        images, labels = self.data[self.steps % BATCHES]
        self.steps += 1
        self.optimizer.zero_grad(set_to_none=True)
        self.loss(self.model(images), labels).backward()
        self.optimizer.step()

    def images_per_second(self, seconds):
        for _ in range(3):
            self.step()
        done, start, spent = 0, time.perf_counter(), 0
        while spent < seconds:
            self.step()
            done += 1
            spent = time.perf_counter() - start
        return done * self.batch / spent


def loaded_blas():
    with open("/proc/self/maps") as maps:
        files = {os.path.realpath(line.split()[-1]) for line in maps if "blas" in line}
    return sorted(os.path.basename(name) for name in files)


def main():
    flags = argparse.ArgumentParser(description=__doc__,
                                    formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--net", choices=NETS, default="lenet")
    flags.add_argument("--settings", choices=SETTINGS, default=SETTINGS[0])
    flags.add_argument("--search", action="store_true", help="try all settings")
    flags.add_argument("--seconds", type=float, default=2, help="for each setting")
    options = flags.parse_args()

    torch.set_num_threads(1)
    rates = {settings: Trainer(options.net, settings).images_per_second(options.seconds)
             for settings in (SETTINGS if options.search else [options.settings])}
    best = max(rates, key=rates.get)
    print(json.dumps({"net": options.net, "settings": best, "images_per_second": rates[best],
                      "torch": torch.__version__, "blas": loaded_blas()}))


if __name__ == "__main__":
    main()
