#!/usr/bin/python3
"""Images a second of whole training iterations on a GPU: Millrace, and PyTorch if it is installed.

Both in float32 and with TF32; Millrace also in bfloat16, and with CUDA graphs. Prints one line of Markdown per
contender; one that fails is left out, with its last line. A net is that of the zoo (bench/zoo_nets.py) on a batch
that is in memory. Called by run-bench in the folder of `make gpu-bundle`, or in the tree:

    bench/gpu_rates.py --net=lenet --batch=64 --seconds=8 --millrace=build/millrace
"""
import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys

sys.dont_write_bytecode = True
import zoo_nets  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = os.path.join(os.environ.get("RESULTS", "results"), "rates")
ROUNDS = 3
SETTINGS = {"fp32": ["--precision=fp32", "--cuda_graphs=off"],
            "tf32": ["--precision=tf32", "--cuda_graphs=off"],
            "bf16": ["--precision=bf16", "--cuda_graphs=off"],
            "tf32, graphs": ["--precision=tf32", "--cuda_graphs=on"]}


class Failed(Exception):
    pass


def write_solver(name, batch, display, iterations):
    os.makedirs(FOLDER, exist_ok=True)
    net, _ = zoo_nets.training_net(name, batch)
    with open(f"{FOLDER}/{name}.prototxt", "w") as file:
        file.write(net.text())
    solver = f"{FOLDER}/{name}_solver.prototxt"
    with open(solver, "w") as file:
        file.write(f'net: "{FOLDER}/{name}.prototxt"\nbase_lr: 0.00001\nmomentum: 0.9\n'
                   f'weight_decay: 0.0005\nlr_policy: "fixed"\ndisplay: {display}\n'
                   f"max_iter: {iterations}\nsnapshot_after_train: false\nrandom_seed: 1\n")
    return solver


def train(millrace, name, batch, flags, display, iterations):
    """Times of the displayed iterations, in seconds."""
    metrics = f"{FOLDER}/{name}.jsonl"
    if os.path.exists(metrics):
        os.remove(metrics)
    environment = dict(os.environ)
    if environment.get("LIBRARY_PATH_OF_MILLRACE"):
        environment["LD_LIBRARY_PATH"] = environment["LIBRARY_PATH_OF_MILLRACE"]
    done = subprocess.run([millrace, "train", f"--metrics={metrics}", "--gpu=0", "--minloglevel=1",
                           "--solver=" + write_solver(name, batch, display, iterations), *flags],
                          env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True)
    if done.returncode != 0:
        raise Failed(f"millrace: {done.stdout.strip().splitlines()[-1]}")
    with open(metrics) as file:
        return [row["time"] for row in map(json.loads, file) if "train" in row]


def millrace_rate(millrace, name, batch, flags, seconds):
    """A first run finds out how many iterations take as long as a measurement should."""
    times = train(millrace, name, batch, flags, 10, 60)
    each = max((times[-1] - times[1]) / (10 * (len(times) - 2)), 1e-5)
    display = max(1, int(0.5 / each))
    times = train(millrace, name, batch, flags, display,
                  display * (3 + max(2, int(seconds / 0.5))))
    return batch * display * (len(times) - 3) / (times[-1] - times[2])


def torch_rate(name, batch, seconds, tf32):
    done = subprocess.run([sys.executable, os.path.join(HERE, "torch_gpu.py"), f"--net={name}",
                           f"--batch={batch}", f"--seconds={seconds}", f"--tf32={tf32}"],
                          stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise Failed("its process has failed")
    return json.loads(done.stdout)["images_per_second"]


def main():
    flags = argparse.ArgumentParser(description=__doc__,
                                    formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--net", required=True)
    flags.add_argument("--batch", type=int, required=True)
    flags.add_argument("--seconds", type=float, default=8)
    flags.add_argument("--millrace", default="bin/millrace")
    options = flags.parse_args()
    contenders = {f"Millrace, {setting}": lambda given=given: millrace_rate(
        options.millrace, options.net, options.batch, given, options.seconds)
                  for setting, given in SETTINGS.items()}
    if importlib.util.find_spec("torch"):
        for tf32 in ("off", "on"):
            contenders[f"PyTorch, TF32 {tf32}"] = lambda tf32=tf32: torch_rate(
                options.net, options.batch, options.seconds, tf32)
    else:
        print("PyTorch is not installed for this python3: no peer")
    rates = {name: [] for name in contenders}
    for i in range(ROUNDS):  # each round in the reverse order of the last
        for name in list(contenders)[::1 if i % 2 == 0 else -1]:
            try:
                rates[name].append(contenders[name]())
            except Failed as failure:
                print(f"{name}: {failure}")
                del contenders[name], rates[name]
    first = rates.get("Millrace, fp32")
    if not first:
        sys.exit("gpu_rates: Millrace has failed in float32")
    print(f"| {options.net}, batch {options.batch} | images/s | Millrace, fp32 / this |\n"
          "|---|---:|---:|")
    for name, values in rates.items():
        ratio = statistics.median(a / b for a, b in zip(first, values))
        print(f"| {name} | {statistics.median(values):.0f} | {ratio:.2f} |")


if __name__ == "__main__":
    main()
