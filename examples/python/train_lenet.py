#!/usr/bin/env python3
"""Trains LeNet on Fashion-MNIST from Python, then classifies an image with the weights.

    make python && make quickstart          # builds the modules, makes the data
    PYTHONPATH=build/python examples/python/train_lenet.py
"""
import sys

import numpy as np

import millrace

FOLDER = "examples/fashion_mnist/"


def main(iterations=500):
    session = millrace.Session(FOLDER + "lenet_solver.prototxt")
    weights = session.net.params["conv1"][0].data  # a live view: training changes it
    before = weights.copy()
    while session.iteration < iterations and (step := session.step()):
        if step.iteration % 100 == 0:
            print(f"iteration {step.iteration}: loss {step.loss:.3f}, "
                  f"conv1 has moved by {np.abs(weights - before).mean():.5f}")
    print("test:", ", ".join(f"{name} {mean:.3f}" for name, mean in session.test()))
    state = session.snapshot()

    net = millrace.Net(FOLDER + "lenet_deploy.prototxt",
                       weights=state.replace(".solverstate", ".caffemodel"))
    name = net.inputs[0]
    images = session.test_nets[0].blobs["data"].data  # of the test's last batch
    net.blobs[name].reshape(1, *images.shape[1:])
    net.blobs[name].data[...] = images[:1]
    net.forward()
    scores = net.blobs[net.outputs[0]].data[0]
    print(f"the first image is of class {scores.argmax()}, by {scores.max():.1%}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
