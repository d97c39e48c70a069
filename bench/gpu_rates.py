#!/usr/bin/python3
"""Images a second of whole training iterations on a GPU: Millrace, and PyTorch if it is installed.

Prints a line for each measurement as soon as it is made, so that a run which is stopped keeps what it has; at the end
a table of the medians in Markdown. Nets are those of the zoo (bench/zoo_nets.py), each on one batch in memory. A
contender that fails is left out, with its last line. Called by `run` in the folder of `make gpu-bundle`, or in the
tree:

    bench/gpu_rates.py --nets=lenet:64,caffenet:256 --seconds=8 --rounds=3 --millrace=build/millrace
"""
import argparse
import importlib.util
import json
import os
import select
import signal
import statistics
import subprocess
import sys
import time

sys.dont_write_bytecode = True
import zoo_nets  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = os.path.join(os.environ.get("RESULTS", "results"), "rates")
# In the order of their importance, since the time may not suffice for all. Millrace's settings are flags, PyTorch's
# those of torch_gpu.py.
CONTENDERS = {
    "Millrace auto, graphs": ["--precision=auto", "--cuda_graphs=on"],
    "PyTorch tf32": "tf32",
    "Millrace fp32": ["--precision=fp32", "--cuda_graphs=off"],
    "PyTorch fp32": "fp32",
    "Millrace bf16": ["--precision=bf16", "--cuda_graphs=off"],
    "PyTorch bf16, channels_last": "bf16, channels_last",
    "Millrace tf32": ["--precision=tf32", "--cuda_graphs=off"],
    "PyTorch tf32, channels_last, graph": "tf32, channels_last, graph",
}
DEFAULT = "PyTorch tf32"  # TF32 in convolutions: what PyTorch does if nothing is set
# Iterations between the lines of metrics that times are taken from: a tenth of a second or so.
DISPLAY = {"lenet": 200, "cifar10_quick": 100, "caffenet": 5, "googlenet": 5, "resnet50": 5}
MAX_SECONDS = 40  # of one measurement, with its start


class Failed(Exception):
    pass


def write_solver(folder, name, batch, display, iterations):
    os.makedirs(folder, exist_ok=True)
    net, _ = zoo_nets.training_net(name, batch)
    with open(f"{folder}/{name}.prototxt", "w") as file:
        file.write(net.text())
    solver = f"{folder}/{name}_solver.prototxt"
    with open(solver, "w") as file:
        file.write(f'net: "{folder}/{name}.prototxt"\nbase_lr: 0.00001\nmomentum: 0.9\n'
                   f'weight_decay: 0.0005\nlr_policy: "fixed"\ndisplay: {display}\n'
                   f"max_iter: {iterations}\nsnapshot_after_train: false\nrandom_seed: 1\n")
    return solver


def display_times(path):
    """(iteration, seconds) of the lines that training has written so far."""
    if not os.path.exists(path):
        return []
    with open(path) as file:
        rows = [json.loads(line) for line in file if line.endswith("\n")]
    return [(row.get("iter", 0), row["time"]) for row in rows if "train" in row]


def millrace_rate(options, name, batch, flags):
    """Trains until the iterations after a warm-up have taken as long as a measurement should."""
    metrics = f"{FOLDER}/{name}.jsonl"
    if os.path.exists(metrics):
        os.remove(metrics)
    environment = dict(os.environ)
    if environment.get("LIBRARY_PATH_OF_MILLRACE"):
        environment["LD_LIBRARY_PATH"] = environment["LIBRARY_PATH_OF_MILLRACE"]
    solver = write_solver(FOLDER, name, batch, options.display or DISPLAY.get(name, 10), 100_000_000)
    log = f"{FOLDER}/{name}.log"
    with open(log, "w") as file:
        process = subprocess.Popen([options.millrace, "train", f"--metrics={metrics}", "--gpu=0", f"--solver={solver}",
                                    *flags], env=environment, stdout=file, stderr=subprocess.STDOUT)
    end = time.monotonic() + MAX_SECONDS
    try:
        # Warm-up: the first two lines, and half a second.
        first = last = None
        while first is None or last[1] - first[1] < options.seconds:
            if process.poll() is not None or time.monotonic() > end:
                with open(log, errors="replace") as file:
                    said = file.read().strip().splitlines()
                raise Failed(said[-1] if process.returncode is not None and said else f"nothing in {MAX_SECONDS} s")
            time.sleep(0.02)
            times = display_times(metrics)
            if len(times) < 3:
                continue
            first = next((each for each in times[2:] if each[1] - times[0][1] >= 0.5), None)
            last = times[-1]
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    return batch * (last[0] - first[0]) / (last[1] - first[1])


class Torch:
    """A process that measures what it is told; it is started once, since loading PyTorch takes seconds."""

    def __init__(self, options):
        self._process = subprocess.Popen([sys.executable, os.path.join(HERE, "torch_gpu.py"),
                                          f"--seconds={options.seconds}"],
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        self.version = self._answer()["torch"]

    def rate(self, name, batch, setting):
        print(json.dumps({"net": name, "batch": batch, "setting": setting}), file=self._process.stdin, flush=True)
        answer = self._answer()
        if "error" in answer:
            raise Failed(answer["error"])
        return answer["images_per_second"]

    def _answer(self):
        ready, _, _ = select.select([self._process.stdout], [], [], MAX_SECONDS)
        line = self._process.stdout.readline() if ready else ""
        if not line:
            self.close()
            raise Failed(f"its process has ended, or answers nothing in {MAX_SECONDS} s")
        return json.loads(line)

    def close(self):
        self._process.kill()
        self._process.wait()


def table(nets, rates):
    print("\n| net, batch | contender | images/s | this / " + DEFAULT + " |\n|---|---|---:|---:|")
    for net in nets:
        peer = rates.get((net, DEFAULT))
        for (of, contender), values in rates.items():
            if of == net:
                ratio = f"{statistics.median(a / b for a, b in zip(values, peer)):.2f}" if peer else "-"
                print(f"| {net[0]}, {net[1]} | {contender} | {statistics.median(values):.0f} | {ratio} |")


def start_torch(options):
    if not importlib.util.find_spec("torch"):
        print("PyTorch is not installed for this python3: no peer", flush=True)
        return None
    try:
        torch = Torch(options)
        print(f"PyTorch {torch.version}", flush=True)
        return torch
    except Failed as failure:
        print(f"PyTorch: {failure}", flush=True)
        return None


def main():
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--nets", required=True, help="NAME:BATCH, separated by commas")
    flags.add_argument("--seconds", type=float, default=8, help="of each measurement")
    flags.add_argument("--rounds", type=int, default=3)
    flags.add_argument("--limit", type=float, default=1e9, help="seconds after which no measurement begins")
    flags.add_argument("--display", type=int, default=0, help="iterations between lines of metrics (0: by the net)")
    flags.add_argument("--millrace", default="bin/millrace")
    options = flags.parse_args()
    nets = [(name, int(batch)) for name, batch in (each.split(":") for each in options.nets.split(","))]
    begin = time.monotonic()
    torch = start_torch(options)

    def measure(net, setting):
        if isinstance(setting, list):
            return millrace_rate(options, *net, setting)
        return torch.rate(*net, setting)

    work = [(net, name) for name, setting in CONTENDERS.items() for net in nets if torch or isinstance(setting, list)]
    rates, failed, durations, left_out = {}, set(), [], []
    for round_number in range(options.rounds):  # each round in the reverse order of the last
        for net, name in work[::1 if round_number % 2 == 0 else -1]:
            at = time.monotonic()
            what = f"{net[0]}, batch {net[1]}, {name}"
            if (net, name) in failed:
                continue
            if at - begin + (statistics.median(durations) if durations else options.seconds) > options.limit:
                left_out.append(what)
                continue
            try:
                rate = measure(net, CONTENDERS[name])
                rates.setdefault((net, name), []).append(rate)
                print(f"{what}: {rate:.1f} images/s", flush=True)
            except Failed as failure:
                failed.add((net, name))
                print(f"{what}: {failure}", flush=True)
            durations.append(time.monotonic() - at)
    for what in left_out:
        print(f"{what}: left out, the limit of {options.limit:.0f} s is near")
    table(nets, rates)
    if torch:
        torch.close()
    broken = [f"{net[0]}: {name}" for net, name in failed if name.startswith("Millrace")]
    if broken:
        sys.exit("gpu_rates: failed: " + ", ".join(sorted(broken)))


if __name__ == "__main__":
    main()
