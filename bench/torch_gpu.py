#!/usr/bin/python3
"""PyTorch's speed on nets of the zoo on GPU 0: whole training iterations, data in its memory.

The module is that of torch_zoo.py. Reads requests from stdin, one JSON object a line with net, batch and setting, and
answers each with one line: images_per_second, or error. The first line has the version and the GPU. A setting is
fp32, tf32 (in convolutions, as PyTorch does if nothing is set) or bf16 (autocast), with channels_last (memory format)
and graph (the iteration as one CUDA graph) behind it.

    echo '{"net": "resnet50", "batch": 64, "setting": "tf32, channels_last, graph"}' | bench/torch_gpu.py --seconds=8
"""
import argparse
import contextlib
import json
import sys
import time

import torch

import torch_zoo
import zoo_nets

WARM_UP = 8  # iterations


def synchronize(device):
    if device == "cuda":
        torch.cuda.synchronize()


def make_step(name, batch, parts, device):
    """A function that makes one training iteration."""
    torch.manual_seed(1)
    net, shape = zoo_nets.training_net(name, batch)
    layout = torch.channels_last if "channels_last" in parts else torch.contiguous_format
    # Finds out shapes on the processor: two images suffice.
    model = torch_zoo.ZooNet(net, shape, 2).train().to(device, memory_format=layout)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9, weight_decay=5e-4)
    images = torch.rand(batch, *shape, device=device).contiguous(memory_format=layout)
    labels = torch.randint(0, torch_zoo.CLASSES, (batch,), device=device)

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device, torch.bfloat16) if "bf16" in parts else contextlib.nullcontext():
            loss = model(images, labels)
        loss.backward()
        optimizer.step()

    if "graph" not in parts:
        return step
    # Iterations on another stream first, as the recording of a whole iteration needs them.
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(WARM_UP):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()

    def replay(kept=step):  # the graph does not own the weights and images that it works on
        graph.replay()

    return replay


def rate(name, batch, setting, seconds, device):
    parts = setting.split(", ")
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = "fp32" not in parts
    torch.backends.cudnn.benchmark = True
    step = make_step(name, batch, parts, device)
    for _ in range(WARM_UP):
        step()
    synchronize(device)
    done, start, spent = 0, time.perf_counter(), 0.0
    while spent < seconds:
        for _ in range(5):
            step()
        synchronize(device)
        done += 5
        spent = time.perf_counter() - start
    return done * batch / spent


def main():
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--seconds", type=float, default=8)
    flags.add_argument("--device", choices=["cuda", "cpu"], default="cuda", help="cpu: to try this program")
    options = flags.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("torch_gpu: PyTorch finds no GPU")
    gpu = torch.cuda.get_device_name(0) if options.device == "cuda" else "none"
    print(json.dumps({"torch": torch.__version__, "gpu": gpu}), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = {"images_per_second": rate(request["net"], request["batch"], request["setting"], options.seconds,
                                                options.device)}
        except Exception as error:  # the next request may succeed
            answer = {"error": f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"}
        if options.device == "cuda":
            with contextlib.suppress(Exception):
                torch.cuda.empty_cache()
        print(json.dumps(request | answer), flush=True)


if __name__ == "__main__":
    main()
