"""Caffe and Millrace, run on the same files, and what they print.

Both run in one folder and are given paths relative to it. Caffe runs in a root folder
made by test/caffe/prepare, which sees that folder as /work; the mount lives and dies with
the process.
"""
import os
import re
import subprocess

SECONDS_AT_MOST = 900

ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "TZ": ":/etc/localtime"}


def blas_kernels():
    """OpenBLAS of 2021 takes processors that it does not know for one without AVX."""
    with open("/proc/cpuinfo", encoding="ascii") as file:
        has = set(re.search(r"^flags\s*:(.*)$", file.read(), re.MULTILINE).group(1).split())
    core = "SKYLAKEX" if "avx512dq" in has else "HASWELL" if "avx2" in has else None
    return {"OPENBLAS_CORETYPE": core} if core else {}


# Files in earlier formats (fixture/upgrade), and the tools of both programs that rewrite them.
OLD_FILES = {"v0": "upgrade_net_proto_text", "v1": "upgrade_net_proto_text",
             "inputs": "upgrade_net_proto_text", "solver": "upgrade_solver_proto_text"}


class Failed(Exception):
    """A program ended as it should not; the text says which and how, in one line."""


class Program:
    """One of the two; run(*arguments) is its own."""

    def train(self, solver, *flags):
        return Log(self.run("train", f"--solver={solver}", *flags))

    def test(self, model, weights, batches):
        return TestLog(self.run("test", f"--model={model}", f"--weights={weights}",
                                f"--iterations={batches}"))


class Caffe(Program):
    name = "caffe"

    def __init__(self, root, folder):
        self.root, self.folder = os.path.abspath(root), os.path.abspath(folder)

    def has(self, tool):
        return os.path.exists(os.path.join(self.root, "usr/bin", tool))

    def run(self, *arguments, tool="caffe"):
        """What `tool` printed, stdout and stderr together."""
        script = ('mkdir -p "$1/work" && mount --bind "$2" "$1/work" && shift 2 && exec "$@"')
        return output_of(
            ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh",
             self.root, self.folder, "chroot", self.root, "env", "--chdir=/work", "-i",
             "PATH=/usr/bin:/bin", "LC_ALL=C", "GLOG_logtostderr=1",
             *(f"{name}={value}" for name, value in {**ONE_THREAD, **blas_kernels()}.items()),
             tool, *arguments],
            self.folder, tool)


class Millrace(Program):
    name = "millrace"

    def __init__(self, binary, folder):
        self.binary, self.folder = os.path.abspath(binary), os.path.abspath(folder)

    def run(self, *arguments):
        return output_of([self.binary, *arguments], self.folder, "millrace")

    def train(self, solver, *flags):
        return super().train(solver, "--cpu=1", *flags)


def output_of(command, folder, name):
    environment = {key: value for key, value in os.environ.items() if key != "OPENBLAS_CORETYPE"}
    environment.update(ONE_THREAD)
    try:
        done = subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace",
                              timeout=SECONDS_AT_MOST, check=False)
    except subprocess.TimeoutExpired:
        raise Failed(f"{name} had not ended after {SECONDS_AT_MOST} s") from None
    if done.returncode != 0:
        lines = [line for line in done.stdout.splitlines() if not line.startswith("    @")]
        reason = next((line for line in lines if re.match(r"F\d{4} ", line)),
                    lines[-1] if lines else "nothing printed")
        raise Failed(f"{name} ended with {done.returncode}: {reason}")
    return done.stdout


NUMBER = r"(nan|[-+]?(?:[\d.]+(?:e[-+]?\d+)?|inf))"


class Log:
    """A training's log: both programs write it in the same form."""

    def __init__(self, text):
        self.text = text
        self.losses = {}  # by iteration, as displayed
        self.rates = {}  # the learning rate, by iteration
        self.tests = {}  # iteration -> {output: [values]}
        iteration = None
        for line in text.splitlines():
            if found := re.search(rf"Iteration (\d+) \(.*\), loss = {NUMBER}$", line):
                self.losses[int(found[1])] = float(found[2])
            elif found := re.search(rf"Iteration (\d+), lr = {NUMBER}$", line):
                self.rates[int(found[1])] = float(found[2])
            elif found := re.search(r"Iteration (\d+), Testing net", line):
                iteration = int(found[1])
                self.tests[iteration] = {}
            elif found := re.search(rf"Test net output #\d+: (\S+) = {NUMBER}", line):
                self.tests[iteration].setdefault(found[1], []).append(float(found[2]))


class TestLog:
    """What `test` printed."""

    def __init__(self, text):
        self.text = text
        self.means = {}  # output -> mean over all batches, one value per element
        self.batches = {}  # (batch, output) -> [values]
        for line in text.splitlines():
            line = re.sub(r" \(\* .*\)$", "", line)
            if found := re.search(rf"Batch (\d+), (\S+) = {NUMBER}$", line):
                self.batches.setdefault((int(found[1]), found[2]), []).append(float(found[3]))
            elif found := re.search(rf"\] (\S+) = {NUMBER}$", line):
                self.means.setdefault(found[1], []).append(float(found[2]))
