#!/usr/bin/python3
"""PyTorch's speed and memory on a net of the zoo: whole training iterations on one thread.

The module is made from the very layers that Millrace trains (bench/zoo_nets.py), so that both
compute the same net. An iteration is as in torch_peer.py.

    bench/torch_zoo.py --net=resnet50 --batch=8 --search
    bench/torch_zoo.py --net=resnet50 --batch=8 --settings=channels_last,foreach --seconds=8
"""
import torch_peer  # first: it sets the number of threads before libraries read it

import argparse
import json
import resource
import time

import torch
from torch import nn
from torch.nn import functional

import zoo_nets

CLASSES = zoo_nets.CLASSES


class Eltwise(nn.Module):
    def forward(self, first, *others):
        for other in others:
            first = first + other
        return first


class Concat(nn.Module):
    def forward(self, *bottoms):
        return torch.cat(bottoms, 1)


class GlobalAverage(nn.Module):
    def forward(self, bottom):
        return functional.adaptive_avg_pool2d(bottom, 1)


class Flat(nn.Module):
    """An inner product over all axes but the first."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.product = nn.Linear(inputs, outputs)

    def forward(self, bottom):
        return self.product(bottom.flatten(1))


class ZooNet(nn.Module):
    """The layers of a Net in their order; forward(images, labels) is the sum of its losses."""

    def __init__(self, net, shape, batch):
        super().__init__()
        self.steps = []  # (module, bottoms, top)
        self.losses = []  # (scores, weight)
        self.modules_in_order = nn.ModuleList()
        blobs = {}  # shapes, by running each layer once
        in_place = {layer["bottom"][0] for layer in net.layers
                    if layer.get("bottom") == layer["top"]}
        for layer in net.layers:
            kind = layer["type"]
            if kind == "DummyData":
                blobs[layer["top"][0]] = torch.zeros(batch, *shape)
                continue
            bottoms, top = layer["bottom"], layer["top"][0]
            if kind == "SoftmaxWithLoss":
                self.losses.append((bottoms[0], layer.get("loss_weight") or 1))
                continue
            if kind == "Scale":  # BatchNorm before it has its weights
                blobs[top] = blobs[bottoms[0]]
                self.rename(bottoms[0], top)
                continue
            module = self.module_of(layer, [blobs[name] for name in bottoms],
                                    bottoms == layer["top"] or bottoms[0] in in_place)
            self.modules_in_order.append(module)
            self.steps.append((module, bottoms, top))
            with torch.no_grad():
                blobs[top] = module(*[blobs[name].clone() for name in bottoms])
        self.data = net.layers[0]["top"][0]

    def rename(self, old, new):
        if old != new:
            module, bottoms, _ = self.steps[-1]
            self.steps[-1] = (module, bottoms, new)

    @staticmethod
    def module_of(layer, bottoms, in_place):
        kind, channels = layer["type"], bottoms[0].shape[1]
        if kind == "Convolution":
            p = layer["convolution_param"]
            return nn.Conv2d(channels, p["num_output"], p["kernel_size"], p["stride"] or 1,
                             p["pad"] or 0, p["dilation"] or 1, p["group"] or 1,
                             bias=p["bias_term"] is None)
        if kind == "InnerProduct":
            return Flat(bottoms[0][0].numel(), layer["inner_product_param"]["num_output"])
        if kind == "Pooling":
            p = layer["pooling_param"]
            if p["global_pooling"]:
                return GlobalAverage()
            make = nn.MaxPool2d if p["pool"] == "MAX" else nn.AvgPool2d
            return make(p["kernel_size"], p["stride"] or 1, p["pad"] or 0, ceil_mode=True)
        if kind == "LRN":
            p = layer["lrn_param"]
            return nn.LocalResponseNorm(p["local_size"], p["alpha"], p["beta"], 1.0)
        if kind == "BatchNorm":
            return nn.BatchNorm2d(channels)
        if kind == "ReLU":
            return nn.ReLU(inplace=in_place)
        if kind == "Dropout":
            return nn.Dropout(layer["dropout_param"]["dropout_ratio"], inplace=False)
        if kind == "Flatten":
            return nn.Flatten()
        if kind == "Concat":
            return Concat()
        if kind == "Eltwise":
            return Eltwise()
        raise SystemExit(f"torch_zoo: no module for {kind} ({layer['name']})")

    def forward(self, images, labels):
        blobs = {self.data: images}
        for module, bottoms, top in self.steps:
            blobs[top] = module(*[blobs[name] for name in bottoms])
        return sum(weight * functional.cross_entropy(blobs[scores].flatten(1), labels)
                   for scores, weight in self.losses)


class Trainer(torch_peer.Trainer):
    def __init__(self, name, batch, settings):
        memory_format, optimizer = settings.split(",")
        memory_format = torch_peer.FORMATS[memory_format]
        torch.manual_seed(1)
        net, shape = zoo_nets.training_net(name, batch)
        self.batch, self.steps = batch, 0
        self.model = ZooNet(net, shape, batch).to(memory_format=memory_format).train()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-4, momentum=0.9,
                                         weight_decay=5e-4,
                                         foreach=torch_peer.OPTIMIZERS[optimizer])
        self.images = torch.rand(batch, *shape).contiguous(memory_format=memory_format)
        self.labels = torch.randint(0, CLASSES, (batch,))

    def step(self):
        self.optimizer.zero_grad(set_to_none=True)
        self.model(self.images, self.labels).backward()
        self.optimizer.step()

    def images_per_second(self, seconds):
        self.step()
        done, start, spent = 0, time.perf_counter(), 0
        while spent < seconds or done < 2:
            self.step()
            done += 1
            spent = time.perf_counter() - start
        return done * self.batch / spent


def main():
    flags = argparse.ArgumentParser(description=__doc__,
                                    formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--net", required=True)
    flags.add_argument("--batch", type=int, required=True)
    flags.add_argument("--settings", choices=torch_peer.SETTINGS, default=torch_peer.SETTINGS[0])
    flags.add_argument("--search", action="store_true", help="try all settings")
    flags.add_argument("--seconds", type=float, default=8, help="for each setting")
    options = flags.parse_args()

    torch.set_num_threads(1)
    rates = {}
    for settings in torch_peer.SETTINGS if options.search else [options.settings]:
        rates[settings] = Trainer(options.net, options.batch, settings).images_per_second(
            options.seconds)
    best = max(rates, key=rates.get)
    print(json.dumps({"net": options.net, "settings": best, "images_per_second": rates[best],
                      "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
                      "torch": torch.__version__, "blas": torch_peer.loaded_blas()}))


if __name__ == "__main__":
    main()
