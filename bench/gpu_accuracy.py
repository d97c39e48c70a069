#!/usr/bin/python3
"""Time to accuracy with one GPU: one solver on it, two processes that share it, and solvers on processors beside it.

Trains cifar10_quick (data/cifar10), or else LeNet (data/mnist, data/fashion_mnist), with the schedule of the examples
and tests every INTERVAL iterations, which count as part of the time. Prints a table in Markdown, a row as soon as its
run ends: the first test with the accuracy, and the last one. Rows of all tests are in curves.csv of the folder of
results ($RESULTS), and a picture if `millrace plot` works. Called by `run` in the folder of `make gpu-bundle`, or in the tree:

    bench/gpu_accuracy.py --millrace=build/millrace [--processors] [--iterations=N] [--interval=N] [--accuracy=A]

--processors trains on processors in place of the GPU, to try this program without one.
"""
import argparse
import json
import os
import re
import signal
import socket
import subprocess
import sys

FOLDER = os.path.join(os.environ.get("RESULTS", "results"), "accuracy")
# Solver file, data, accuracy.
WORK = [
    ("cifar10_quick", "examples/cifar10/cifar10_quick_solver.prototxt", "data/cifar10/cifar10_train_lmdb", 0.65),
    ("LeNet", "examples/mnist/lenet_solver.prototxt", "data/mnist/mnist_train_lmdb", 0.985),
    ("LeNet on Fashion-MNIST", "examples/fashion_mnist/lenet_solver.prototxt",
     "data/fashion_mnist/fashion_mnist_train_lmdb", 0.88),
]


def free_port():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def write_solver(path, iterations, interval):
    """The solver file of the examples with these numbers, and without snapshots. Returns its path and max_iter."""
    with open(path) as file:
        lines = [line for line in file.read().splitlines()
                 if not re.match(r"\s*(snapshot\w*|solver_mode|test_interval|random_seed|display)\s*:", line)]
    text = "\n".join(lines)
    most = int(re.search(r"^max_iter:\s*(\d+)", text, re.M).group(1))
    if iterations:
        text = re.sub(r"(?m)^max_iter:.*$", f"max_iter: {iterations}", text)
    name = f"{FOLDER}/solver.prototxt"
    with open(name, "w") as file:
        file.write(f"{text}\ntest_interval: {interval}\ndisplay: {interval}\nrandom_seed: 1\n"
                   "snapshot_after_train: false\n")
    return name, iterations or most


def write_topology(memory):
    name = f"{FOLDER}/topology.prototxt"
    with open(name, "w") as file:
        file.write('name: "gpu"\nshard_data: false\n')
        for node, address in (("a", "127.0.0.1"), ("b", "127.0.0.2")):
            file.write(f'node {{ name: "{node}" address: "{address}" memory: "{memory}" }}\n')
        file.write(f'segment {{ name: "local" transport: "udp" port: {free_port()} }}\n')
    return name


def runs(processors):
    """Names, names of files, and the flags of each process."""
    gpu = ["--cpu=1"] if processors else ["--gpu=0"]
    beside = ["--cpu=3"] if processors else ["--gpu=0", "--cpu=2"]
    shared = f"--shm=millrace-accuracy-{os.getpid()}"
    topology = f"--topology={write_topology('host' if processors else 'cuda:0')}"
    return [
        ("one solver on the GPU", "one-solver", [gpu]),
        ("two processes on it, weights in /dev/shm", "two-processes", [[*gpu, shared], [*gpu, shared]]),
        ("two nodes on it, segments on its memory", "two-nodes",
         [[*gpu, topology, "--node=a"], [*gpu, topology, "--node=b"]]),
        ("a solver on it, two on processors", "beside-processors", [beside]),
    ]


def tests_of(metrics):
    """(seconds, iteration, accuracy) of the tests of one process; seconds since it began."""
    with open(metrics) as file:
        rows = [json.loads(line) for line in file if line.endswith("\n")]
    return [(row["time"], row.get("iter", 0), row["test"]["outputs"]["accuracy"]) for row in rows
            if "accuracy" in row.get("test", {}).get("outputs", {})]


def train(millrace, solver, name, processes):
    """Trains, and returns the tests of all processes, by iteration."""
    environment = dict(os.environ)
    if environment.get("LIBRARY_PATH_OF_MILLRACE"):
        environment["LD_LIBRARY_PATH"] = environment["LIBRARY_PATH_OF_MILLRACE"]
    started = []
    try:
        for index, flags in enumerate(processes):
            stem = f"{FOLDER}/{name}" + (f"-{index + 1}" if index else "")
            metrics, log = f"{stem}.jsonl", f"{stem}.log"
            if os.path.exists(metrics):
                os.remove(metrics)
            with open(log, "w") as file:
                started.append((subprocess.Popen(
                    [millrace, "train", f"--solver={solver}", f"--metrics={metrics}", *flags],
                    stdout=file, stderr=subprocess.STDOUT, env=environment), metrics, log))
        for process, _, log in started:
            if process.wait() != 0:
                with open(log) as file:
                    lines = file.read().strip().splitlines()
                raise SystemExit(f"gpu_accuracy: {lines[-1] if lines else 'a process has failed'}")
    finally:
        for process, _, _ in started:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
                process.wait()
    first = {}
    for _, metrics, _ in started:
        for seconds, iteration, accuracy in tests_of(metrics):
            if iteration not in first or seconds < first[iteration][0]:
                first[iteration] = (seconds, iteration, accuracy)
    return [first[iteration] for iteration in sorted(first)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--millrace", default="bin/millrace")
    parser.add_argument("--processors", action="store_true")
    parser.add_argument("--iterations", type=int, default=0, help="0: those of the example")
    parser.add_argument("--interval", type=int, default=200, help="iterations between tests")
    parser.add_argument("--accuracy", type=float, default=0, help="0: one for each net")
    options = parser.parse_args()
    found = [work for work in WORK if os.path.exists(work[2])]
    if not found:
        raise SystemExit("gpu_accuracy: no data in data/cifar10, data/mnist or data/fashion_mnist")
    name, path, _, accuracy = found[0]
    accuracy = options.accuracy or accuracy
    os.makedirs(FOLDER, exist_ok=True)
    solver, most = write_solver(path, options.iterations, options.interval)
    print(f"{name}, {most} iterations{', on processors' if options.processors else ''}\n", flush=True)
    print(f"| | seconds to {accuracy} | iterations to {accuracy} | seconds in all | accuracy at the end |")
    print("|---|---:|---:|---:|---:|", flush=True)
    curves = ["run,seconds,iteration,accuracy"]
    metrics = []
    for run, file_name, processes in runs(options.processors):
        tests = train(options.millrace, solver, file_name, processes)
        if not tests:
            raise SystemExit(f"gpu_accuracy: {run}: no test was made")
        reached = next((test for test in tests if test[2] >= accuracy), None)
        to = f"{reached[0]:.1f} | {reached[1]}" if reached else "- | -"
        print(f"| {run} | {to} | {tests[-1][0]:.1f} | {tests[-1][2]:.4f} |", flush=True)
        curves += [f'"{run}",{seconds:.3f},{iteration},{value:.4f}' for seconds, iteration, value in tests]
        metrics.append(f"{FOLDER}/{file_name}.jsonl")
        with open(f"{FOLDER}/curves.csv", "w") as file:
            file.write("\n".join(curves) + "\n")
    print(f"\ncurves: {FOLDER}/curves.csv")
    if subprocess.run([options.millrace, "plot", *metrics, "-o", f"{FOLDER}/curves.svg"], stdout=subprocess.DEVNULL,
                      stderr=subprocess.DEVNULL).returncode == 0:
        print(f"curves: {FOLDER}/curves.svg")
    return 0


if __name__ == "__main__":
    sys.exit(main())
