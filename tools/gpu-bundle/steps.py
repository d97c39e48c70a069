"""The steps of each part, with the seconds that they may take."""
import dataclasses
import json
import os
import re
import sys
import time
from collections.abc import Callable

import gtests
import machine
import programs
import report


class Failed(Exception):
    """Lines that say why."""


class Skipped(Exception):
    """A line that says why."""


@dataclasses.dataclass
class Step:
    name: str
    seconds: float
    action: Callable  # action(part) returns a line for the result, or None; raises Failed or Skipped


# ---- The machine ----

def describe_machine(part):
    wrong = machine.describe(part)
    if not wrong:
        return None
    if part.dry:  # a machine without a GPU is expected
        part.step["lines"] += wrong
        return "no GPU is expected in a dry run"
    raise Failed("\n".join(wrong))


# ---- Test programs ----

def record(part, program, outcomes):
    part.report.tests.update({f"{program} {test}": outcome for test, outcome in outcomes.items()})
    return [test for test, outcome in outcomes.items() if outcome.startswith("failed")]


def repeat_alone(part, program, failed):
    """Runs failed tests alone while there is time. Others wait for the end of the part."""
    for test in failed:
        if part.end - time.monotonic() < 2:
            part.waiting.append((program, test))
            continue
        lines = gtests.run_alone(part.runner, program, test, part.end)
        part.report.alone[f"{program} {test}"] = lines
        part.say(f"  {test}: {'; '.join(line.splitlines()[0][:100] for line in lines)}")


def tests(*runs):
    """Runs (program, filter of tests on GPUs, filter of tests on fakes for a dry run)."""
    def action(part):
        counts, wrong, failed = {"passed": 0, "skipped": 0, "failed": 0}, [], []
        for program, on_gpu, on_fakes in runs:
            outcomes, problem = gtests.run(part.runner, program, on_fakes if part.dry else on_gpu, part.end)
            failed.append((program, record(part, program, outcomes)))
            for outcome in outcomes.values():
                counts[outcome.split(":")[0]] += 1
            if problem:
                wrong.append(problem)
        for program, names in failed:
            for name in names:
                part.say(f"  failed: {name}")
        for program, names in failed:
            repeat_alone(part, program, names)
        summary = ", ".join(f"{count} {what}" for what, count in counts.items() if count or what == "passed")
        if wrong or counts["failed"]:
            raise Failed("\n".join([f"{summary} tests" + "".join(f"; {line}" for line in wrong)]))
        return summary + " tests"
    return action


TRAINING_STEPS = "*GpuLayers*:*DeviceNet*:*UpdateRows*:*GpuImages*"
DEVICES = tests(("device_test", "*cuda*:DeviceRegistry.KnowsTheMemoryOfAGpu", "*/fake*:FakeDevice*"))
LAYERS = tests(("training_test", "*GpuLayers*OnCuda*:*DeviceNet*/OnCuda*:*UpdateRows*/OnCuda*:*GpuImages*/OnCuda*",
                "*GpuLayers.AgreeWithTheHost/*:*DeviceNet*/AtOnce:*UpdateRows*/AtOnce:*GpuImages*/AtOnce"))
EXCHANGE = tests(("exchange_test", "*Kernels*/cuda*", "*Kernels*/emulated5"),
                 ("segment_test", "*cuda*", "*DeviceSegment*/fake"))
TRAININGS = tests(("training_test", f"*OnCuda*-{TRAINING_STEPS}", f"*/AtOnce-{TRAINING_STEPS}"))


# ---- LeNet ----

# LeNet on MNIST with the seed 1, as one solver on a processor trains it (docs/gpu.md has the command): losses of the
# iterations 0, 10 and 19, and the accuracy after so many iterations.
LOSSES = (2.3963, 1.6435, 0.8916)
ACCURACY = {100: 0.9235, 1000: 0.9812, 3000: 0.9875}
# Accuracy that a GPU may lack. The seeds 1, 2 and 3 differ by 0.0028 after 100 iterations, by 0.0013 after 1,000.
MAX_MISSING_ACCURACY = 0.01
LENET_DATA = "data/mnist/mnist_train_lmdb"


def train_lenet(part, name, iterations, display, flags, env=None):
    """Returns the losses of displayed iterations by iteration, and the accuracy at the end."""
    if not os.path.exists(os.path.join(programs.ROOT, LENET_DATA)):
        raise Skipped(f"no {LENET_DATA}")
    with open(os.path.join(programs.ROOT, "examples/mnist/lenet_solver.prototxt")) as file:
        solver = "".join(line for line in file if not re.match(
            r"(snapshot\w*|solver_mode|test_interval|display|max_iter|random_seed)\s*:", line))
    stem = os.path.join(part.work, name)
    with open(stem + ".prototxt", "w") as file:
        file.write(f"{solver}max_iter: {iterations}\ntest_interval: {iterations}\ntest_initialization: false\n"
                   f"display: {display}\nrandom_seed: 1\nsnapshot_after_train: false\n")
    ended = part.runner.run(name, ["bin/millrace", "train", f"--solver={stem}.prototxt", f"--metrics={stem}.jsonl",
                                   "--gpu=0", *flags], part.end - time.monotonic(), env=env)
    if not ended.ok:
        raise Failed(f"{name}: {ended.why()}")
    losses, accuracy = {}, None
    with open(stem + ".jsonl") as file:
        for row in map(json.loads, file):
            if "train" in row:
                losses[row.get("iter", 0)] = row["train"]["loss"]
            accuracy = row.get("test", {}).get("outputs", {}).get("accuracy", accuracy)
    if accuracy is None:
        raise Failed(f"{name}: no test was made")
    return losses, accuracy


def lenet_start(part):
    """20 iterations with the logs of the libraries; losses as on processors."""
    logs = {name: os.path.join(part.work, f"{name}.log") for name in ("cudnn", "cublas", "cublaslt")}
    losses, _ = train_lenet(part, "lenet_start", 20, 1, ["--precision=fp32", "--cuda_graphs=off"], env={
        "CUDNN_LOGLEVEL_DBG": "3", "CUDNN_LOGDEST_DBG": logs["cudnn"],
        "CUBLAS_LOGINFO_DBG": "1", "CUBLAS_LOGDEST_DBG": logs["cublas"],
        "CUBLASLT_LOG_LEVEL": "5", "CUBLASLT_LOG_FILE": logs["cublaslt"],
        # Asks cuDNN, whatever an earlier run has found.
        "MILLRACE_CONVOLUTION_CACHE": "off"})
    found = [losses.get(iteration, float("nan")) for iteration in (0, 10, 19)]
    line = "losses " + ", ".join(f"{value:.4f}" for value in found) + " of the iterations 0, 10 and 19"
    # Rounding differs, and grows with the iterations.
    if not all(abs(a - b) <= tolerance * b for a, b, tolerance in zip(found, LOSSES, (1e-4, 0.01, 0.05))):
        raise Failed(f"{line}; on a processor {', '.join(f'{value:.4f}' for value in LOSSES)}")
    return line


def lenet_accuracy(part):
    runs = [("fp32", 3000, ["--precision=fp32", "--cuda_graphs=off"]),
            ("tf32", 1000, ["--precision=tf32", "--cuda_graphs=off"]),
            ("bf16", 1000, ["--precision=bf16", "--cuda_graphs=off"]),
            ("graphs", 1000, ["--precision=fp32", "--cuda_graphs=on"])]
    low = []
    for name, iterations, flags in runs:
        iterations = 100 if part.dry else iterations
        begin = time.monotonic()
        try:
            _, accuracy = train_lenet(part, f"lenet_{name}", iterations, 100, flags)
            least = ACCURACY[iterations] - MAX_MISSING_ACCURACY
            line = f"LeNet, {name}: accuracy {accuracy:.4f} after {iterations} iterations, " \
                   f"{time.monotonic() - begin:.1f} s, expected at least {least:.4f}"
            if accuracy < least:
                low.append(line)
        except Failed as failure:
            line = str(failure)
            low.append(line)
        part.step["lines"].append(line)
        part.say("  " + line)
    if low:
        raise Failed("\n".join(low))
    return f"{len(runs)} runs reach the accuracy of processors"


# ---- Measurements ----

def python_environment(part):
    """For the programs in bench/, which run `millrace` themselves."""
    return {"LIBRARY_PATH_OF_MILLRACE": programs.library_path(), "RESULTS": part.work}


def measure(part, name, command, env=None, own_libraries=True, matches="."):
    """Runs a program whose lines are measurements. Those that match go to the report, also if it is stopped; all of
    them to its log."""
    def read(line):
        if line and re.search(matches, line):
            part.report.rates.append(line)
            part.say("  " + line)
    ended = part.runner.run(name, command, part.end - time.monotonic(), env=env, own_libraries=own_libraries,
                            on_line=read)
    if not ended.ok:
        raise Failed(f"{name}: {ended.why()}")


def seconds_each(default):
    return os.environ.get("SECONDS", str(default))


def rates(nets, dry_nets, seconds):
    """nets: NAME:BATCH, by commas."""
    def action(part):
        chosen = os.environ.get("NETS", dry_nets if part.dry else nets)
        limit = max(0, part.end - time.monotonic() - 2)
        return measure(part, "rates_" + re.sub(r"\W.*", "", chosen),
                       [sys.executable, "bench/gpu_rates.py", f"--nets={chosen}", f"--limit={limit:.0f}",
                        f"--seconds={0.2 if part.dry else seconds_each(seconds)}",
                        f"--rounds={os.environ.get('REPEATS', '1')}", *(["--display=1"] if part.dry else [])],
                       python_environment(part), own_libraries=False)
    return action


def link_rate(part):
    flags = ["--device=cpu", "--mfloats=1", "--seconds=0.2"] if part.dry else [f"--seconds={seconds_each(1)}"]
    measure(part, "link_bench", ["bin/link_bench", *flags])


def kernel_rates(part):
    # The largest chunks in the largest calls, and copies; the log has the others.
    measure(part, "kernel_bench", ["bin/kernel_bench", f"--seconds={seconds_each(0.03)}"], matches=r"[Cc]op|2200 +512|no ")


def segment_rates(part):
    flags = ["--weights=100000", "--seconds=0.1"] if part.dry else [f"--seconds={seconds_each(0.5)}"]
    measure(part, "segment_bench", ["bin/segment_bench", *flags])


def accuracy_time(part):
    flags = ["--processors", "--iterations=60", "--interval=30"] if part.dry else ["--iterations=3000"]
    measure(part, "gpu_accuracy", [sys.executable, "bench/gpu_accuracy.py", *flags], python_environment(part),
            own_libraries=False)


# ---- Under tools of CUDA ----

def sanitizer(seconds_of, *runs):
    """Runs (tool, program, filter, filter of a dry run), each for seconds_of at most and what earlier ones have left. A
    dry run leaves the tool out."""
    def action(part):
        checker = programs.find_tool("compute-sanitizer")
        if not checker and not part.dry:
            raise Failed("compute-sanitizer is not installed")
        wrong = []
        for index, (tool, program, on_gpu, on_fakes) in enumerate(runs):
            left = part.end - time.monotonic() - seconds_of * (len(runs) - index - 1)
            outcomes, found = {}, []
            reader = gtests.Reader(outcomes)

            def read(line, reader=reader, found=found):
                if line and line.startswith("========="):
                    found.append(line)
                return reader(line) if line else None  # tests are slow here

            prefix = [] if part.dry else [checker, "--tool", tool, "--error-exitcode", "9", "--print-limit", "20"]
            name = f"{tool}_{program}"
            ended = part.runner.run(name, [*prefix, f"bin/{program}",
                                           f"--gtest_filter={on_fakes if part.dry else on_gpu}"],
                                    max(left, 1), on_line=read)
            passed = sum(outcome == "passed" for outcome in outcomes.values())
            line = f"{tool}, {program} {on_gpu}: {passed} tests passed"
            if not ended.ok or passed == 0:
                line += f"; {ended.why() or 'no test has passed'}"
                wrong.append(line)
            part.step["lines"] += [line, *("    " + text for text in found[:30])]
            part.say("  " + line)
        if wrong:
            raise Failed("\n".join(wrong))
    return action


def layer(name):
    return (f"*GpuLayers.AgreeWithTheHostOnCuda/{name}", f"*GpuLayers.AgreeWithTheHost/{name}")


def net_solver(part, net, batch, iterations):
    """A solver of a net of the zoo on a batch in memory."""
    sys.path[:0] = [os.path.join(programs.ROOT, "bench")]
    import gpu_rates
    return gpu_rates.write_solver(os.path.join(part.work, "nets"), net, batch, iterations, iterations)


def timelines(part):
    """Times of kernels and copies by stream: LeNet beside a solver on a processor, so that its link works, and
    ResNet-50."""
    for net, batch, iterations, flags in (("lenet", 64, 300, ["--cpu=1"]), ("resnet50", 64, 8, [])):
        if part.dry:
            batch, iterations = 1, 2
        trace = os.path.join(part.work, f"trace_{net}.json")
        ended = part.runner.run(f"trace_{net}", [
            "bin/millrace", "train", "--gpu=0", *flags, "--solver=" + net_solver(part, net, batch, iterations)],
            part.end - time.monotonic(), env={"CUDA_INJECTION64_PATH": f"{programs.ROOT}/lib/libmillrace_trace.so",
                                              "MILLRACE_TRACE": trace})
        if not ended.ok:
            raise Failed(f"{net}: {ended.why()}")
        if part.dry and not os.path.exists(trace):  # no driver has loaded the library
            with open(trace, "w") as file:
                file.write('[\n{"ph": "X", "cat": "kernel", "name": "none", "pid": 0, "tid": 7, "ts": 0, "dur": 5}\n]\n')
        if not os.path.exists(trace):
            raise Failed(f"{net}: no trace was written")
        drawn = part.runner.run(f"draw_{net}", [sys.executable, "bench/gpu_timeline.py", trace, "-o",
                                                f"{part.work}/{net}.svg"], 10, own_libraries=False)
        part.step["lines"] += drawn.last_lines
        if not drawn.ok:
            raise Failed(f"{net}: {drawn.why()}")


def kernel_bytes(part):
    """Time and bytes of one launch of each of Millrace's own kernels in ResNet-50, as ncu counts them."""
    ncu = programs.find_tool("ncu")
    if not ncu and not part.dry:
        raise Failed("ncu is not installed")
    metrics = "gpu__time_duration.sum,dram__bytes_read.sum,dram__bytes_write.sum,launch__grid_size," \
              "launch__registers_per_thread"
    # The third launch of each kernel: the first loads its code.
    prefix = [] if part.dry else [ncu, "--clock-control", "none", "--kernel-name-base", "demangled", "--kernel-id",
                                  "::regex:.*millrace.*:3", "--csv", "--metrics", metrics]
    ended = part.runner.run("ncu", [*prefix, "bin/millrace", "train", "--gpu=0", "--cuda_graphs=off", "--solver=" +
                                    net_solver(part, "resnet50", 1 if part.dry else 64, 2)],
                            part.end - time.monotonic())
    if not ended.ok:
        raise Failed(ended.why())


# ---- What failed before ----

def failed_before(part):
    names, steps = report.failed_before(part.before, part.dry)
    # Steps of which only tests failed have nothing else to run again.
    again = [step for step in FIRST if step.name in steps and step is not MACHINE and
             not steps[step.name].endswith("failed tests")]
    if not names and not again:
        raise Skipped("nothing has failed in an earlier part")
    still = []
    for name in names:
        program, test = name.split(" ", 1)
        if part.end - time.monotonic() < 2:
            still.append(f"no time was left for {name}")
            continue
        lines = gtests.run_alone(part.runner, program, test, part.end)
        outcome = lines[0].split(": ", 1)[1]
        part.report.tests[name] = outcome
        part.report.alone[name] = lines
        part.say(f"  {test}: {lines[0].splitlines()[0]}")
        if outcome.startswith("failed"):
            still.append(f"{name}: {outcome.splitlines()[0]}")
    for step in again:
        if part.end - time.monotonic() < 5:
            still.append(f"no time was left for {step.name}")
            continue
        try:
            part.say(f"  {step.name}: passed: {step.action(part) or ''}")
        except Failed as failure:
            still.append(f"{step.name}: {failure}")
    if still:
        raise Failed("\n".join(still))
    return f"{len(names)} tests and {len(again)} steps pass now"


# ---- The parts ----

MACHINE = Step("machine", 12, describe_machine)
FIRST = [
    MACHINE,
    Step("devices", 8, DEVICES),
    Step("lenet-start", 12, lenet_start),
    Step("lenet", 20, lenet_accuracy),
    Step("layers", 60, LAYERS),
    Step("exchange", 40, EXCHANGE),
    Step("trainings", 55, TRAININGS),
    Step("lenet-rate", 30, rates("lenet:64", "lenet:64", 1)),
]
SPEED = [
    MACHINE,
    Step("before", 16, failed_before),
    Step("rates", 120, rates("caffenet:256,resnet50:64,googlenet:64,cifar10_quick:100",
                             "caffenet:1,resnet50:1,googlenet:1,cifar10_quick:8", 2)),
    Step("link", 10, link_rate),
    Step("kernels", 8, kernel_rates),
    Step("timelines", 14, timelines),
    Step("ncu", 10, kernel_bytes),
]
REST = [
    MACHINE,
    Step("before", 20, failed_before),
    Step("races", 60, sanitizer(
        30, *((tool, "exchange_test", "*Kernels*/cuda*", "*Kernels*/emulated5") for tool in ("racecheck", "synccheck")))),
    Step("memcheck", 60, sanitizer(
        20, *(("memcheck", "training_test", *layer(name)) for name in ("MaxPooling", "BatchNorm", "Convolution")))),
    Step("accuracy", 45, accuracy_time),
    Step("segments", 30, segment_rates),
]
# The steps and the seconds of the caller.
PARTS = {"first": (FIRST, 260), "speed": (SPEED, 210), "rest": (REST, 250)}
