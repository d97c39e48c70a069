#!/usr/bin/python3
"""PyTorch's speed on the nets of onednn_loop.cc: whole training iterations on one thread.

Each iteration is forward, cross-entropy, backward and an SGD step with momentum and weight decay, on
synthetic data already in memory.  Every combination of memory format (contiguous, channels_last) and
optimizer variant (loop, foreach) is tried briefly; the best one is then measured and printed as JSON.

    /usr/bin/python3 torch_peer.py --net=lenet --seconds=5 --repeats=5

PyTorch must find an optimized BLAS (Debian: libopenblas0-pthread) as libblas.so.3; the JSON names the one it
found, and a line on stderr says so when it is the reference BLAS.
"""
import os

os.environ.pop("OPENBLAS_CORETYPE", None)  # slows OpenBLAS where it names an older core than the one here
os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["OMP_NUM_THREADS"] = "1"

import argparse
import json
import statistics
import sys
import time

import torch
from torch import nn

torch.set_num_threads(1)
torch.backends.mkldnn.enabled = True


def lenet():
    return 64, (1, 28, 28), 10, nn.Sequential(
        nn.Conv2d(1, 20, 5), nn.MaxPool2d(2, 2),
        nn.Conv2d(20, 50, 5), nn.MaxPool2d(2, 2),
        nn.Flatten(), nn.Linear(800, 500), nn.ReLU(inplace=True), nn.Linear(500, 10))


def quick():
    return 100, (3, 32, 32), 10, nn.Sequential(
        nn.Conv2d(3, 32, 5, padding=2), nn.MaxPool2d(3, 2, ceil_mode=True), nn.ReLU(inplace=True),
        nn.Conv2d(32, 32, 5, padding=2), nn.ReLU(inplace=True), nn.AvgPool2d(3, 2, ceil_mode=True),
        nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(inplace=True), nn.AvgPool2d(3, 2, ceil_mode=True),
        nn.Flatten(), nn.Linear(1024, 64), nn.Linear(64, 10))


def caffenet():
    return 16, (3, 227, 227), 1000, nn.Sequential(
        nn.Conv2d(3, 96, 11, stride=4), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, ceil_mode=True),
        nn.LocalResponseNorm(5, 1e-4, 0.75, 1.0),
        nn.Conv2d(96, 256, 5, padding=2, groups=2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, ceil_mode=True),
        nn.LocalResponseNorm(5, 1e-4, 0.75, 1.0),
        nn.Conv2d(256, 384, 3, padding=1), nn.ReLU(inplace=True),
        nn.Conv2d(384, 384, 3, padding=1, groups=2), nn.ReLU(inplace=True),
        nn.Conv2d(384, 256, 3, padding=1, groups=2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, ceil_mode=True),
        nn.Flatten(), nn.Linear(9216, 4096), nn.ReLU(inplace=True), nn.Dropout(0.5),
        nn.Linear(4096, 4096), nn.ReLU(inplace=True), nn.Dropout(0.5), nn.Linear(4096, 1000))


NETS = {"lenet": (lenet, 0.01, 5e-4), "quick": (quick, 0.001, 4e-3), "caffenet": (caffenet, 0.01, 5e-4)}


def blas():
    """The BLAS this process loaded.  Debian's PyTorch takes whichever libblas.so.3 is installed, and with the
    reference one its inner products and fallback convolutions run at a twentieth of their speed."""
    with open("/proc/self/maps") as maps:
        files = {os.path.realpath(line.split()[-1]) for line in maps if "blas" in line}
    return sorted(os.path.basename(f) for f in files)


class Trainer:
    """One net with its optimizer and four batches of data; step() is one training iteration."""

    def __init__(self, net, memory_format, foreach):
        torch.manual_seed(1)
        make, rate, decay = NETS[net]
        self.batch, shape, classes, model = make()
        self.model = model.to(memory_format=memory_format).train()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=rate, momentum=0.9, weight_decay=decay,
                                         foreach=foreach)
        self.data = [torch.rand(self.batch, *shape).sub_(0.5).contiguous(memory_format=memory_format)
                     for _ in range(4)]
        self.labels = [torch.randint(0, min(classes, 10), (self.batch,)) for _ in range(4)]
        self.loss = nn.CrossEntropyLoss()
        self.count = 0

    def step(self):
        i = self.count % 4
        self.count += 1
        self.optimizer.zero_grad(set_to_none=True)
        self.loss(self.model(self.data[i]), self.labels[i]).backward()
        self.optimizer.step()

    def images_per_s(self, seconds):
        done, start = 0, time.perf_counter()
        while True:
            self.step()
            done += 1
            spent = time.perf_counter() - start
            if spent >= seconds:
                return done * self.batch / spent


def main():
    flags = argparse.ArgumentParser(description=__doc__)
    flags.add_argument("--net", choices=NETS, default="lenet")
    flags.add_argument("--seconds", type=float, default=5, help="measured time in all, for each setting")
    flags.add_argument("--repeats", type=int, default=5)
    flags.add_argument("--all", action="store_true", help="print every setting")
    o = flags.parse_args()
    segment = o.seconds / o.repeats

    best = None
    for layout, memory_format in (("contiguous", torch.contiguous_format), ("channels_last", torch.channels_last)):
        for foreach in (False, True):
            trainer = Trainer(o.net, memory_format, foreach)
            trainer.images_per_s(min(1, segment))
            rates = [trainer.images_per_s(segment) for _ in range(o.repeats)]
            line = {"net": o.net, "layout": layout, "images_per_s": round(statistics.median(rates), 1),
                    "batch": trainer.batch, "foreach": foreach, "torch": torch.__version__,
                    "blas": blas()}
            if o.all:
                print(json.dumps(line))
            if best is None or line["images_per_s"] > best["images_per_s"]:
                best = line
    if not any("openblas" in b or "mkl" in b or "blis" in b for b in best["blas"]):
        print(f"torch_peer: no optimized BLAS loaded ({best['blas']}): not PyTorch's best", file=sys.stderr)
    print(json.dumps(best))


if __name__ == "__main__":
    main()
