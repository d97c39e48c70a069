"""Runs the programs that bench/run compares, and reads what they measured."""
import json
import os
import signal
import statistics
import subprocess
import sys
import time

WARM_UP_SECONDS = 1.0
LONGEST_START_SECONDS = 120

# OPENBLAS_CORETYPE, where it names an older core than the one here, slows whoever
# uses OpenBLAS.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "OPENBLAS_CORETYPE"}


def has_torch():
    """Whether python3-torch is installed."""
    return subprocess.run(("/usr/bin/python3", "-c", "import torch"), check=False,
                          stderr=subprocess.DEVNULL).returncode == 0


def has_millrace_torch(build):
    """Whether millrace.torch can run: python3-torch is installed, and `make python` was called."""
    return has_torch() and os.path.isdir(os.path.join(build, "python/millrace"))


def torch_environment(build):
    """The environment of a process with PyTorch, and with millrace of this build folder.

    malloc keeps freed memory: otherwise chance, the addresses of the process, decides between no
    page fault and 2,000 in each step of LeNet, which is a tenth of its time."""
    modules = [os.path.join(build, "python"), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": ":".join(filter(None, modules)),
            "MALLOC_TRIM_THRESHOLD_": "1000000000", "MALLOC_MMAP_THRESHOLD_": "1000000000",
            "MALLOC_TOP_PAD_": "67108864"}


def get_data(data):
    """Makes the folder `data` of data/ by its program among the examples: "mnist", or "cifar10" from
    the files in the folder that the variable CIFAR10 names, if it is set."""
    given = [os.environ["CIFAR10"]] if data == "cifar10" and "CIFAR10" in os.environ else []
    subprocess.run((f"examples/{data}/get_data", *given), check=True)


def output_of(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True,
                          env=ENVIRONMENT).stdout


class Training:
    """A `millrace train` in the background; leaving the block stops it."""

    def __init__(self, millrace, solver, solvers, metrics):
        self.metrics = metrics
        self.file = None
        if os.path.exists(metrics):
            os.remove(metrics)
        self.process = subprocess.Popen(
            [millrace, "train", f"--solver={solver}", f"--cpu={solvers}",
             f"--metrics={metrics}", "--minloglevel=1"], env=ENVIRONMENT)
        self.times = []  # of each displayed iteration, in seconds

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        if self.file:
            self.file.close()
        self.process.send_signal(signal.SIGINT)
        if self.process.wait(timeout=60) != 0:
            sys.exit(f"bench/run: millrace train ended with {self.process.returncode}")

    def wait_until(self, done):
        """Reads rows until done(self.times)."""
        deadline = time.monotonic() + LONGEST_START_SECONDS
        partial = ""
        while not done(self.times):
            if self.process.poll() is not None or time.monotonic() > deadline:
                sys.exit("bench/run: millrace train ended or stood still")
            time.sleep(0.02)
            if self.file is None:
                if not os.path.exists(self.metrics):
                    continue
                self.file = open(self.metrics)
            lines = (partial + self.file.read()).split("\n")
            partial = lines.pop()
            rows = [json.loads(line) for line in lines]
            self.times += [row["time"] for row in rows if "train" in row]

    def peak_mib(self):
        """Peak resident memory (VmHWM)."""
        with open(f"/proc/{self.process.pid}/status") as status:
            for line in status:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) / 1024
        raise RuntimeError("no VmHWM")


def millrace_rate(millrace, workload, folder, solvers, seconds):
    """Images/s of whole training iterations between two rows of metrics, start-up
    and warm-up left out."""
    metrics = os.path.join(folder, "run.jsonl")
    with Training(millrace, workload.solver(folder), solvers, metrics) as training:
        def warm(times):
            return len(times) > 2 * solvers and times[-1] - times[0] >= WARM_UP_SECONDS
        training.wait_until(warm)
        first = len(training.times) - 1

        # Solvers may run in step with each other: rows come in groups of one from
        # each, and a measurement holds whole groups.
        def measured(times):
            return (times[-1] - times[first] >= seconds and
                    (len(times) - 1 - first) % solvers == 0)
        training.wait_until(measured)
        rows = len(training.times) - 1 - first
        spent = training.times[-1] - training.times[first]
    return rows * workload.display * workload.batch / spent


def peak_memory_mib(millrace, workload, folder, solvers):
    """Peak resident memory once every solver has trained a few iterations."""
    metrics = os.path.join(folder, "run.jsonl")
    with Training(millrace, workload.solver(folder), solvers, metrics) as training:
        training.wait_until(lambda times: len(times) * workload.display >= 4 * solvers)
        return training.peak_mib()


def loop_rates(loop, net, seconds):
    """The hand-written loop: its JSON, with one thread and with two."""
    return json.loads(output_of(loop, f"--net={net}", "--scaling", f"--seconds={seconds}"))


def torch_rates(net, seconds, settings=None):
    """PyTorch on one thread: its JSON, with the best settings unless they are given."""
    how = f"--settings={settings}" if settings else "--search"
    peer = os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch_peer.py")
    return json.loads(output_of("/usr/bin/python3", peer, f"--net={net}", how,
                                f"--seconds={seconds}"))


def micro_benchmarks(binary):
    """Name to result of Google Benchmark."""
    text = output_of(binary, "--benchmark_format=json", "--benchmark_min_time=0.3")
    return {result["name"]: result for result in json.loads(text)["benchmarks"]}


def exchange_rates(binary, processes):
    """The exchange kernels and their bounds: place -> work -> GB/s of both and the median of
    the ratios within a repeat; medians over processes, each of which has its arrays elsewhere
    in the memory and thus in the caches."""
    runs = [json.loads(output_of(binary, "--repeats=3")) for _ in range(processes)]
    return {place: {work: {key: statistics.median(run[place][work][key] for run in runs)
                           for key in numbers}
                    for work, numbers in works.items()}
            for place, works in runs[0].items()}


def frame_rates(binary, repeats):
    """What a frame costs the exchange, and two exchanges end to end."""
    return json.loads(output_of(binary, f"--repeats={repeats}", "--seconds=0.5"))


def transport_rates(binary, repeats):
    """What a transport's benchmark prints: its rates beside bare ones."""
    return output_of(binary, f"--repeats={repeats}", "--seconds=0.3")


def data_rates(binary, rounds):
    """Images a second from databases to batches, beside what bounds them: the bench's own table."""
    return output_of(binary, f"--rounds={rounds}", "--seconds=0.5")
