#!/usr/bin/python3
"""PyTorch's distributed data parallelism (DDP over gloo) on the nets of torch_peer.py: one process
a machine, one thread each, whole training iterations on data already in memory.

    bench/torch_ddp.py --rank=0 --world=2 --address=10.97.0.1 --interface=eth0

Rank 0 prints the images/s of all together as JSON. Iterations are timed from a barrier to the
next; rank 0 decides how many there are.
"""
import argparse
import json
import os
import time

import torch_peer  # sets the libraries' numbers of threads, before torch is loaded
import torch
import torch.distributed as distributed

WARM_UP = 5


def main():
    flags = argparse.ArgumentParser(description=__doc__,
                                    formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--net", choices=torch_peer.NETS, default="lenet")
    flags.add_argument("--settings", choices=torch_peer.SETTINGS, default=torch_peer.SETTINGS[0])
    flags.add_argument("--seconds", type=float, default=4, help="about so many are timed")
    flags.add_argument("--rank", type=int, required=True)
    flags.add_argument("--world", type=int, required=True)
    flags.add_argument("--address", required=True, help="of rank 0")
    flags.add_argument("--interface", required=True)
    options = flags.parse_args()

    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = options.interface
    distributed.init_process_group("gloo", init_method=f"tcp://{options.address}:29500",
                                   rank=options.rank, world_size=options.world)
    trainer = torch_peer.Trainer(options.net, options.settings)
    trainer.model = torch.nn.parallel.DistributedDataParallel(trainer.model)

    def seconds_of(steps):
        distributed.barrier()
        start = time.perf_counter()
        for _ in range(steps):
            trainer.step()
        distributed.barrier()
        return time.perf_counter() - start

    seconds_of(WARM_UP)
    steps = torch.tensor([max(WARM_UP, int(options.seconds * WARM_UP / seconds_of(WARM_UP)))])
    distributed.broadcast(steps, 0)
    rate = steps.item() * trainer.batch * options.world / seconds_of(steps.item())
    if options.rank == 0:
        print(json.dumps({"net": options.net, "world": options.world, "images_per_second": rate,
                          "torch": torch.__version__, "blas": torch_peer.loaded_blas()}))


if __name__ == "__main__":
    main()
