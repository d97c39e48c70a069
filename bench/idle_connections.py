#!/usr/bin/python3
"""What idle connections to the control service cost a training.

One `millrace train` of LeNet on Fashion-MNIST with a control service, which --idle=N (10000) clients connect to
and leave again, in turns of --seconds=S (10), --rounds=N (5) times. Prints iterations a second, and iterations
per second of the process's time, with and without them, their ratios, and the process's resident memory. Before
each turn is a second in which nothing is measured. BUILD=DIR: of the program (build).
"""
import argparse
import os
import re
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import workloads  # pylint: disable=wrong-import-position

TICKS = os.sysconf("SC_CLK_TCK")


class Training:
    """A `millrace train` with a control service; leaving the block ends it."""

    def __init__(self, millrace, solver, folder):
        self.log = os.path.join(folder, "log")
        with open(self.log, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen([millrace, "train", f"--solver={solver}", "--control=0"],
                                            stderr=log)
        self.port = 0

    def __enter__(self):
        while not self.port:
            time.sleep(0.1)
            if self.process.poll() is not None:
                sys.exit("idle_connections: millrace train ended: " + open(self.log, encoding="utf-8").read())
            with open(self.log, encoding="utf-8") as log:
                found = re.search(r"Control service: http://[^\s]*:(\d+)", log.read())
            self.port = int(found.group(1)) if found else 0
        return self

    def __exit__(self, *unused):
        self.process.terminate()
        self.process.wait(timeout=120)

    def metric(self, name):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics") as answer:
            text = answer.read().decode()
        return float(re.search(rf"^{re.escape(name)} (.*)$", text, re.M).group(1))

    def moment(self):
        """Time, time of the process, iterations."""
        iterations = self.metric("millrace_run_iterations_here_total")
        with open(f"/proc/{self.process.pid}/stat", encoding="utf-8") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        return time.monotonic(), (int(fields[11]) + int(fields[12])) / TICKS, iterations

    def turn(self, seconds):
        """Iterations a second, and per second of the process's time."""
        begin = self.moment()
        time.sleep(seconds)
        passed = [after - before for before, after in zip(begin, self.moment())]
        return passed[2] / passed[0], passed[2] / passed[1]


def connect(port, count):
    sockets = []
    for _ in range(count):
        sockets.append(socket.create_connection(("127.0.0.1", port)))
    return sockets


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--idle", type=int, default=10000)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    wanted = 2 * args.idle
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < wanted:
        sys.exit(f"idle_connections: the limit of file descriptors is {hard}, expected {wanted} (ulimit -Hn)")
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    build = os.environ.get("BUILD", "build")
    millrace = os.path.join(build, "millrace")
    lenet = workloads.WORKLOADS[0]
    folder = os.path.join(build, "bench-data")
    workloads.prepare(lenet, folder, millrace)
    rates = {False: [], True: []}
    with tempfile.TemporaryDirectory() as own, Training(millrace, lenet.solver(folder), own) as training:
        while training.metric("millrace_run_iterations_here_total") < 100:
            time.sleep(0.1)
        memory = {}
        for number in range(2 * args.rounds):
            with_idle = number % 2 == 1
            idle = connect(training.port, args.idle) if with_idle else []
            time.sleep(1)
            rates[with_idle].append(training.turn(args.seconds))
            held = training.metric("millrace_control_connections")
            memory[with_idle] = training.metric("process_resident_memory_bytes") / 2**20
            print(f"{held:.0f} connections: {rates[with_idle][-1][0]:.1f} iterations/s, "
                  f"{rates[with_idle][-1][1]:.1f} per second of the process", flush=True)
            for each in idle:
                each.close()
    for kind, name in enumerate(("iterations/s", "iterations per second of the process")):
        without, beside = ([turn[kind] for turn in rates[with_idle]] for with_idle in (False, True))
        ratios = [b / a for a, b in zip(without, beside)]
        print(f"{name}: {statistics.median(without):.1f} without, {statistics.median(beside):.1f} with, "
              f"ratio {statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})")
    print(f"resident memory: {memory[False]:.0f} MiB without, {memory[True]:.0f} MiB with")


if __name__ == "__main__":
    main()
