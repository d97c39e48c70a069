#!/usr/bin/python3
"""What a PyTorch loop learns with several nodes of millrace.torch on this machine: the accuracy of
Caffe's cifar10_quick after a number of steps of all nodes together. Needs PYTHONPATH=build/python.

    bench/torch_cifar10.py --data=FOLDER --nodes=4 --iterations=2000

FOLDER has CIFAR-10's binary batches (examples/cifar10/pack_images makes them of JPEG files). Batches
of 100, the learning rate falls to a tenth after 4/5 of the steps. Node r of n takes the records i
with i mod n = r in their order. One node is PyTorch alone.
"""
import argparse
import os
import subprocess
import sys
import tempfile
import time

import torch_peer  # sets the libraries' numbers of threads, before torch is loaded
import torch

BATCH = 100
STANDARD_DEVIATIONS = (1e-4, 1e-2, 1e-2, 1e-1, 1e-1)  # of the layers' weights


def records(folder, names):
    """All images and labels of these files."""
    files = [torch.frombuffer(bytearray(open(os.path.join(folder, f"{name}.bin"), "rb").read()),
                              dtype=torch.uint8).reshape(-1, 3073) for name in names]
    rows = torch.cat(files)
    return rows[:, 1:].reshape(-1, 3, 32, 32), rows[:, 0].long()


def train(options, rank):
    """Trains; the first node prints the accuracy, its steps and the seconds."""
    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    images, labels = records(options.data, [f"data_batch_{i}" for i in range(1, 6)])
    mean = images.float().mean(0)
    images, labels = images[rank::options.nodes], labels[rank::options.nodes]
    model = torch_peer.quick()
    layers = [module for module in model if hasattr(module, "weight")]
    for layer, deviation in zip(layers, STANDARD_DEVIATIONS):
        torch.nn.init.normal_(layer.weight, std=deviation)
        torch.nn.init.zeros_(layer.bias)
    biases = [layer.bias for layer in layers]
    weights = [layer.weight for layer in layers]
    optimizer = torch.optim.SGD([{"params": weights, "lr": options.rate},
                                 {"params": biases, "lr": 2 * options.rate}],
                                lr=options.rate, momentum=0.9, weight_decay=4e-3,
                                nesterov=options.nesterov)
    given = [group["lr"] for group in optimizer.param_groups]
    run = None
    if options.topology:
        import millrace
        run = millrace.torch.join(options.topology, node=f"n{rank}", model=model,
                                  optimizer=optimizer)
        while run.nodes < options.nodes:
            time.sleep(0.001)
    steps, start = 0, time.monotonic()
    while (run.iterations if run else steps) < options.iterations:
        done = run.iterations if run else steps
        for group, rate in zip(optimizer.param_groups, given):
            group["lr"] = rate * (0.1 if done >= options.iterations * 4 // 5 else 1)
        rows = torch.arange(steps * BATCH, (steps + 1) * BATCH) % len(images)
        optimizer.zero_grad(set_to_none=True)
        torch.nn.functional.cross_entropy(model(images[rows].float() - mean),
                                          labels[rows]).backward()
        optimizer.step()
        steps += 1
    seconds = time.monotonic() - start
    if run:
        run.finish()
    if rank > 0:
        return
    images, labels = records(options.data, ["test_batch"])
    with torch.no_grad():
        right = sum(int((model(images[i:i + BATCH].float() - mean).argmax(1) ==
                         labels[i:i + BATCH]).sum()) for i in range(0, len(images), BATCH))
    print(f"{options.nodes} nodes, scaling {options.scaling}: {100 * right / len(images):.2f} % "
          f"after {run.iterations if run else steps} steps, {steps} of the first node, in "
          f"{seconds:.1f} s", flush=True)


def main():
    flags = argparse.ArgumentParser(description=__doc__,
                                    formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--data", required=True)
    flags.add_argument("--nodes", type=int, default=4)
    flags.add_argument("--iterations", type=int, default=2000, help="of all nodes together")
    flags.add_argument("--scaling", choices=("linear", "none"), default="linear")
    flags.add_argument("--nesterov", action="store_true")
    flags.add_argument("--rate", type=float, default=0.001)
    flags.add_argument("--seed", type=int, default=1)
    flags.add_argument("--topology", help=argparse.SUPPRESS)
    flags.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    options = flags.parse_args()
    if options.rank is not None or options.nodes == 1:
        train(options, options.rank or 0)
        return
    with tempfile.NamedTemporaryFile("w", suffix=".prototxt") as file:
        nodes = "".join(f'node {{ name: "n{i}" address: "127.0.0.{i + 1}" }}\n'
                        for i in range(options.nodes))
        file.write(f'name: "loop" scaling: "{options.scaling}"\n{nodes}'
                   'segment { name: "lo" transport: "udp" port: 29477 }\n')
        file.flush()
        programs = [subprocess.Popen([sys.executable, *sys.argv, f"--topology={file.name}",
                                      f"--rank={i}"]) for i in range(options.nodes)]
        if any([program.wait() != 0 for program in programs]):
            sys.exit(1)


if __name__ == "__main__":
    main()
