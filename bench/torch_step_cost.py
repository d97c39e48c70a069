#!/usr/bin/python3
"""What millrace.torch adds to a training step of a node that is alone: steps of a model in a run
and of the same model without, in turns, on one thread. Needs PYTHONPATH=build/python.

    bench/torch_step_cost.py --net=lenet --steps=130
"""
import argparse
import statistics
import tempfile
import time

import torch_peer  # sets the libraries' numbers of threads, before torch is loaded
import torch

import millrace

TOPOLOGY = """name: "cost"
node { name: "a" address: "127.0.0.1" } node { name: "b" address: "127.0.0.2" }
segment { name: "loop" transport: "udp" port: 29475 }
"""


def seconds_of(trainer):
    start = time.perf_counter()
    trainer.step()
    return time.perf_counter() - start


def main():
    flags = argparse.ArgumentParser(description=__doc__,
                                    formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--net", choices=torch_peer.NETS, default="lenet")
    flags.add_argument("--steps", type=int, default=130)
    options = flags.parse_args()
    torch.set_num_threads(1)
    plain, inside = (torch_peer.Trainer(options.net, torch_peer.SETTINGS[0]) for _ in range(2))
    with tempfile.NamedTemporaryFile("w", suffix=".prototxt") as file:
        file.write(TOPOLOGY)
        file.flush()
        with millrace.torch.join(file.name, node="a", model=inside.model,
                                 optimizer=inside.optimizer):
            for _ in range(20):
                plain.step(), inside.step()
            times = [(seconds_of(plain), seconds_of(inside)) for _ in range(options.steps)]
    before, after = (1e3 * statistics.median(column) for column in zip(*times))
    print(f"{options.net}, PyTorch {torch.__version__}: {before:.2f} ms a step, "
          f"{after:.2f} ms in a run: {after / before - 1:+.1%}")


if __name__ == "__main__":
    main()
