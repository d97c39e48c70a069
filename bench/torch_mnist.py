#!/usr/bin/python3
"""PyTorch learns MNIST with LeNet until its test accuracy reaches a target: one process, or one on
each machine with DistributedDataParallel over gloo or with millrace.torch.

    bench/torch_mnist.py --data=FOLDER --world=2 --rank=0 --address=10.97.0.1 --interface=eth0
    bench/torch_mnist.py --data=FOLDER --world=2 --rank=0 --topology=pair.prototxt --node=a

FOLDER has MNIST's four IDX files, gzipped or not. The net, its initial weights' distribution, and the
schedule are those of examples/mnist/lenet_solver.prototxt. Rank r of n takes the records i with
i mod n = r in their order, as Millrace's data layer does, in batches of 64. Each rank computes its
share of a test; with millrace.torch rank 0 tests its own model while the others train, and the
learning rate follows the iterations of all. Rank 0 prints a line of JSON for each test: seconds since
all ranks were ready, iterations of all ranks together, and the accuracy on all 10,000 test images.
"""
import argparse
import gzip
import json
import os
import struct
import time

import torch_peer  # sets the libraries' numbers of threads, before torch is loaded
import torch
import torch.distributed as distributed

BATCH = 64
TEST_BATCH = 100
DECAY = 5e-4


def idx_file(folder, name):
    """The bytes of an IDX file and its dimensions."""
    path = os.path.join(folder, name)
    with (open(path, "rb") if os.path.exists(path) else gzip.open(path + ".gz")) as file:
        data = file.read()
    axes = data[3]
    shape = struct.unpack(f">{axes}I", data[4:4 + 4 * axes])
    return torch.frombuffer(bytearray(data[4 + 4 * axes:]), dtype=torch.uint8).reshape(shape)


def records(folder, part, rank, world):
    """Images of values 0 to 255/256 in shape (n, 1, 28, 28), and labels, of this rank."""
    images = idx_file(folder, f"{part}-images-idx3-ubyte")[rank::world]
    labels = idx_file(folder, f"{part}-labels-idx1-ubyte")[rank::world]
    return images.unsqueeze(1).float() / 256, labels.long()


def initialize(model):
    """Caffe's "xavier": uniform with the variance 1 / inputs; biases are 0."""
    for module in model.modules():
        if hasattr(module, "weight"):
            bound = (3 / module.weight[0].numel()) ** 0.5
            torch.nn.init.uniform_(module.weight, -bound, bound)
            torch.nn.init.zeros_(module.bias)


def main():
    flags = argparse.ArgumentParser(description=__doc__,
                                    formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--data", required=True)
    flags.add_argument("--settings", choices=torch_peer.SETTINGS, default=torch_peer.SETTINGS[0])
    flags.add_argument("--rate", type=float, default=0.01, help="learning rate at the start")
    flags.add_argument("--accuracy", type=float, default=0.985)
    flags.add_argument("--iterations", type=int, default=4000, help="of all ranks, at most")
    flags.add_argument("--interval", type=int, default=100, help="iterations between tests")
    flags.add_argument("--seed", type=int, default=1)
    flags.add_argument("--rank", type=int, default=0)
    flags.add_argument("--world", type=int, default=1)
    flags.add_argument("--address", default="127.0.0.1", help="of rank 0")
    flags.add_argument("--interface", default="lo")
    flags.add_argument("--topology", help="of millrace.torch, which needs PYTHONPATH=build/python")
    flags.add_argument("--node", help="of this rank in the topology")
    options = flags.parse_args()
    world = options.world
    joins = options.topology is not None

    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    if not joins:
        os.environ["GLOO_SOCKET_IFNAME"] = options.interface
        distributed.init_process_group("gloo", init_method=f"tcp://{options.address}:29500",
                                       rank=options.rank, world_size=world)
    memory_format, optimizer = options.settings.split(",")
    memory_format = torch_peer.FORMATS[memory_format]
    images, labels = records(options.data, "train", options.rank, world)
    share = (0, 1) if joins else (options.rank, world)
    test_images, test_labels = records(options.data, "t10k", *share)
    model = torch_peer.lenet()
    initialize(model)
    model = model.to(memory_format=memory_format)
    biases = [p for p in model.parameters() if p.dim() == 1]
    weights = [p for p in model.parameters() if p.dim() > 1]
    rule = torch.optim.SGD([{"params": weights}, {"params": biases, "twice": True}], lr=0.01,
                           momentum=0.9, weight_decay=DECAY,
                           foreach=torch_peer.OPTIMIZERS[optimizer])
    trained, run = model, None
    if joins:
        import millrace
        run = millrace.torch.join(options.topology, node=options.node, model=model, optimizer=rule)
        while run.nodes < world:
            time.sleep(0.001)
    elif world > 1:
        trained = torch.nn.parallel.DistributedDataParallel(model)
    loss = torch.nn.CrossEntropyLoss()

    def batch_of(step):
        begin = step * BATCH % len(images)
        rows = torch.arange(begin, begin + BATCH) % len(images)
        return images[rows].contiguous(memory_format=memory_format), labels[rows]

    def accuracy():
        right = torch.zeros(1)
        with torch.no_grad():
            for begin in range(0, len(test_images), TEST_BATCH):
                batch = test_images[begin:begin + TEST_BATCH].contiguous(
                    memory_format=memory_format)
                right += (model(batch).argmax(1) == test_labels[begin:begin + TEST_BATCH]).sum()
        counts = torch.cat([right, torch.tensor([float(len(test_images))])])
        if not joins:
            distributed.all_reduce(counts)
        return (counts[0] / counts[1]).item()

    if not joins:
        distributed.barrier()
    start, step, iteration = time.perf_counter(), 0, 0
    while iteration < options.iterations:
        rate = options.rate * (1 + 1e-4 * (iteration if joins else step)) ** -0.75
        for group in rule.param_groups:
            group["lr"] = rate * (2 if "twice" in group else 1)
        rule.zero_grad(set_to_none=True)
        batch, wanted = batch_of(step)
        loss(trained(batch), wanted).backward()
        rule.step()
        step += 1
        before, iteration = iteration, run.iterations if joins else step * world
        if iteration // options.interval > before // options.interval and (
                not joins or options.rank == 0):
            found = accuracy()
            if options.rank == 0:
                print(json.dumps({"time": time.perf_counter() - start, "iter": iteration,
                                  "accuracy": found}), flush=True)
            if found >= options.accuracy:
                break
    if run and options.rank > 0:
        run.finish()


if __name__ == "__main__":
    main()
