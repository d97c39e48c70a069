#!/usr/bin/python3
"""millrace.torch on the nets of torch_peer.py: one process a machine, one thread each, whole
training iterations on data already in memory.

    bench/torch_millrace.py --world=2 --topology=pair.prototxt --node=a
    bench/torch_millrace.py --world=1 --plain

Needs PYTHONPATH=build/python. Each process prints its own images/s as JSON, from the time when all
are in sync. --plain: PyTorch without a cluster. --times: prints a line when the measurement begins; the
JSON has, for each step, its begin by the machine's monotonic clock and its seconds.
"""
import argparse
import json
import time

import torch_peer  # sets the libraries' numbers of threads, before torch is loaded
import torch

WARM_UP = 5


def main():
    flags = argparse.ArgumentParser(description=__doc__,
                                    formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--net", choices=torch_peer.NETS, default="lenet")
    flags.add_argument("--settings", choices=torch_peer.SETTINGS, default=torch_peer.SETTINGS[0])
    flags.add_argument("--seconds", type=float, default=4, help="that are timed")
    flags.add_argument("--world", type=int, required=True)
    flags.add_argument("--topology")
    flags.add_argument("--node", default="a")
    flags.add_argument("--plain", action="store_true")
    flags.add_argument("--times", action="store_true")
    options = flags.parse_args()

    torch.set_num_threads(1)
    trainer = torch_peer.Trainer(options.net, options.settings)
    run, join_seconds = None, 0
    if not options.plain:
        import millrace
        begin = time.perf_counter()
        run = millrace.torch.join(options.topology, node=options.node, model=trainer.model,
                                  optimizer=trainer.optimizer)
        join_seconds = time.perf_counter() - begin
        while run.nodes < options.world:
            time.sleep(0.001)
    for _ in range(WARM_UP):
        trainer.step()
    if options.times:
        print("begun", flush=True)
    steps, start, spent, times = 0, time.perf_counter(), 0.0, []
    while spent < options.seconds:
        before = spent
        trainer.step()
        steps += 1
        spent = time.perf_counter() - start
        times.append((start + before, spent - before))
    total = run.iterations if run else steps + WARM_UP
    if run:
        run.finish()
    print(json.dumps({"net": options.net, "images_per_second": steps * trainer.batch / spent,
                      "own_steps": steps + WARM_UP, "all_steps": total,
                      "join_seconds": join_seconds,
                      "torch": torch.__version__, **({"times": times} if options.times else {})}))


if __name__ == "__main__":
    main()
