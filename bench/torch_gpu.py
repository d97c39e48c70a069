#!/usr/bin/python3
"""PyTorch's speed on a net of the zoo on GPU 0: whole training iterations, data in its memory.

The module is that of torch_zoo.py. --tf32=on allows TF32 in products and convolutions.

    bench/torch_gpu.py --net=resnet50 --batch=64 --tf32=off --seconds=8
"""
import argparse
import json
import time

import torch

import torch_zoo
import zoo_nets


def main():
    flags = argparse.ArgumentParser(description=__doc__,
                                    formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--net", required=True)
    flags.add_argument("--batch", type=int, required=True)
    flags.add_argument("--seconds", type=float, default=8)
    flags.add_argument("--tf32", choices=["off", "on"], default="off")
    options = flags.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("torch_gpu: PyTorch finds no GPU")
    torch.backends.cuda.matmul.allow_tf32 = options.tf32 == "on"
    torch.backends.cudnn.allow_tf32 = options.tf32 == "on"
    torch.backends.cudnn.benchmark = True
    torch.manual_seed(1)
    net, shape = zoo_nets.training_net(options.net, options.batch)
    model = torch_zoo.ZooNet(net, shape, options.batch).train().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9, weight_decay=5e-4)
    images = torch.rand(options.batch, *shape, device="cuda")
    labels = torch.randint(0, torch_zoo.CLASSES, (options.batch,), device="cuda")

    def step():
        optimizer.zero_grad(set_to_none=True)
        model(images, labels).backward()
        optimizer.step()

    for _ in range(10):
        step()
    torch.cuda.synchronize()
    done, start, spent = 0, time.perf_counter(), 0.0
    while spent < options.seconds:
        for _ in range(10):
            step()
        torch.cuda.synchronize()
        done += 10
        spent = time.perf_counter() - start
    print(json.dumps({"net": options.net, "tf32": options.tf32, "torch": torch.__version__,
                      "gpu": torch.cuda.get_device_name(0),
                      "images_per_second": done * options.batch / spent}))


if __name__ == "__main__":
    main()
