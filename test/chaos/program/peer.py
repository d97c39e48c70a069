#!/usr/bin/python3
"""What the nodes of the comparison in chaos runs execute, with PyTorch.

    peer.py store ADDRESS PORT        the store by which the nodes find each other
    peer.py train STATE CHECKPOINT    one worker, started by torchrun

A worker trains the net of fashion_net.prototxt on Fashion-MNIST, in batches of 64, with
DistributedDataParallel over gloo. Every step it writes "iterations nodes rank" to STATE; an iteration
is a batch of one node. Rank 0 saves a checkpoint every three seconds; all start from the last one.
"""
import ctypes
import datetime
import gzip
import os
import random
import signal
import sys
import time

import torch
import torch.distributed as distributed

BATCH = 64
CHECKPOINT_SECONDS = 3
IMAGES = "/usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz"
LABELS = "/usr/share/datasets/fashion-mnist/train-labels-idx1-ubyte.gz"


def read_idx(path, header):
    with gzip.open(path) as file:
        return torch.frombuffer(bytearray(file.read()[header:]), dtype=torch.uint8)


def replace(path, write):
    """Writes a file, then puts it in place of the old one."""
    write(path + ".new")
    os.replace(path + ".new", path)


def write_text(path, text):
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def train(state, checkpoint):
    # The machine that this stands for dies as a whole.
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", timeout=datetime.timedelta(seconds=5))
    rank, nodes = distributed.get_rank(), distributed.get_world_size()
    nn = torch.nn
    torch.manual_seed(1)
    model = nn.Sequential(nn.Conv2d(1, 8, 5), nn.MaxPool2d(2), nn.Conv2d(8, 16, 5), nn.MaxPool2d(2),
                          nn.Flatten(), nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.002, momentum=0.9, weight_decay=0.0005)
    iterations = 0
    if os.path.exists(checkpoint):
        saved = torch.load(checkpoint)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        iterations = saved["iterations"]
    images = read_idx(IMAGES, 16).reshape(-1, 1, 28, 28)
    labels = read_idx(LABELS, 8).long()
    parallel = nn.parallel.DistributedDataParallel(model)
    loss_of = nn.CrossEntropyLoss()
    order = random.Random(rank + 1000 * iterations)
    saved_at = time.monotonic()
    while True:
        batch = torch.tensor([order.randrange(len(labels)) for _ in range(BATCH)])
        optimizer.zero_grad()
        loss_of(parallel(images[batch].float() / 256), labels[batch]).backward()
        optimizer.step()
        iterations += nodes
        replace(state, lambda path: write_text(path, f"{iterations} {nodes} {rank}\n"))
        if rank == 0 and time.monotonic() - saved_at > CHECKPOINT_SECONDS:
            saved_at = time.monotonic()
            content = {"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                       "iterations": iterations}
            replace(checkpoint, lambda path: torch.save(content, path))


if __name__ == "__main__":
    if sys.argv[1] == "store":
        store = distributed.TCPStore(sys.argv[2], int(sys.argv[3]), is_master=True,
                                     wait_for_workers=False)
        while True:
            time.sleep(60)
    train(*sys.argv[2:])
