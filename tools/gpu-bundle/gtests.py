"""Runs test programs so that a test cannot take the results of others with it.

A CUDA error that stays (a "sticky" one: every later call of the process fails), a crash or a test without an end
stops the process; the tests that have not run yet then run in a new one. Each failed test runs again alone, then with
CUDA_LAUNCH_BLOCKING=1, then under memcheck.
"""
import re
import time

import programs

MAX_SECONDS_WITHOUT_RESULT = 25  # of one test
MAX_SECONDS_ALONE = 20  # a failed test alone, and once more with CUDA_LAUNCH_BLOCKING=1
MAX_SECONDS_MEMCHECK = 30
STICKY = re.compile(
    "an illegal memory access|illegal address|misaligned address|unspecified launch failure|illegal instruction|"
    "invalid program counter|hardware stack error|device-side assert|invalid address space|launch timed out|"
    "uncorrectable|work has failed|CUDA_ERROR_ILLEGAL|CUDA_ERROR_LAUNCH_FAILED|CUDNN_STATUS_EXECUTION_FAILED|"
    "CUBLAS_STATUS_EXECUTION_FAILED")
RUN = re.compile(r"\[ RUN      \] (\S+)")
END = re.compile(r"\[ *(OK|FAILED|SKIPPED) *\] (\S+?),? (?:where .*)?\(\d+ ms\)$")


class Reader:
    """Follows the output of a test program."""

    def __init__(self, outcomes):
        self.outcomes = outcomes  # test -> "passed", "skipped: ..." or "failed: ..."
        self.current = None
        self._text = []
        self._since = time.monotonic()

    def __call__(self, line):
        """Returns why the program should be stopped, or None."""
        if line is None:
            late = self.current and time.monotonic() - self._since > MAX_SECONDS_WITHOUT_RESULT
            return f"no result of {self.current} after {MAX_SECONDS_WITHOUT_RESULT} s" if late else None
        begun = RUN.match(line)
        if begun:
            self.current, self._text, self._since = begun[1], [], time.monotonic()
            return None
        if self.current is None:
            return None
        ended = END.match(line)
        if not ended or ended[2] != self.current:
            self._text.append(line)
            return None
        return self._end(ended[1])

    def _end(self, result):
        text = "\n".join(self._text[:40])
        if result == "OK":
            self.outcomes[self.current] = "passed"
        elif result == "SKIPPED" and "no CUDA device" not in text and "no cuda device" not in text:
            self.outcomes[self.current] = f"skipped: {text}"
        else:
            self.outcomes[self.current] = f"failed: {text or 'without a text'}"
        self.current = None
        return "a CUDA error that stays" if result == "FAILED" and STICKY.search(text) else None

    def lose(self, why):
        """The program has ended: so has its test."""
        if self.current:
            self.outcomes[self.current] = f"failed: {why}\n" + "\n".join(self._text[:40])
            self.current = None


def listed(runner, program, pattern, seconds):
    """Names of the tests that the pattern selects."""
    names, suite = [], ""

    def read(line):
        nonlocal suite
        if line is None or line.startswith("["):
            return
        if line.startswith("  "):
            names.append(suite + line.split("#")[0].strip())
        elif line.split("#")[0].strip().endswith("."):
            suite = line.split("#")[0].strip()

    runner.run(program + "_list", [f"bin/{program}", "--gtest_list_tests", f"--gtest_filter={pattern}"], seconds,
               on_line=read)
    return names


def run(runner, program, pattern, end):
    """Runs the tests until the time `end`. Returns the outcomes by name, and a line if the program itself has failed
    or tests could not run."""
    outcomes, chosen, all_tests = {}, pattern, None
    while True:
        before = len(outcomes)
        reader = Reader(outcomes)
        ended = runner.run(program, [f"bin/{program}", f"--gtest_filter={chosen}", "--gtest_color=no"],
                           end - time.monotonic(), on_line=reader)
        reader.lose(ended.why())
        if ended.ok or not ended.stopped and ended.status == 1 and len(outcomes) > before:
            return outcomes, "" if outcomes else "no test has run"
        if len(outcomes) == before:
            return outcomes, f"bin/{program}: {ended.why()}"
        if end - time.monotonic() < 1:
            return outcomes, f"no time was left after {len(outcomes)} tests"
        if all_tests is None:
            all_tests = listed(runner, program, pattern, min(10, end - time.monotonic()))
        rest = [name for name in all_tests if name not in outcomes]
        if not rest:
            return outcomes, ""
        chosen = ":".join(rest)


def run_alone(runner, program, test, end):
    """Runs a failed test alone, with CUDA_LAUNCH_BLOCKING=1 and under memcheck, as far as it fails and there is time.
    Returns lines; the first is "alone: passed" if it did."""
    lines = []
    command = [f"bin/{program}", f"--gtest_filter={test}", "--gtest_color=no"]
    memcheck = programs.find_tool("compute-sanitizer")
    for how, prefix, env, seconds in (
            ("alone", [], {}, MAX_SECONDS_ALONE),
            ("CUDA_LAUNCH_BLOCKING=1", [], {"CUDA_LAUNCH_BLOCKING": "1"}, MAX_SECONDS_ALONE),
            ("memcheck", [memcheck, "--tool", "memcheck", "--error-exitcode", "9", "--print-limit", "5"], {},
             MAX_SECONDS_MEMCHECK)):
        left = end - time.monotonic()
        if left < 1:
            lines.append(f"{how}: no time was left")
            break
        if prefix and not memcheck:
            lines.append("memcheck: compute-sanitizer is not installed")
            break
        outcomes, found = {}, []
        reader = Reader(outcomes)

        def read(line, reader=reader, found=found):
            if line and line.startswith("========="):
                found.append(line)
            return reader(line)

        ended = runner.run("alone", prefix + command, min(seconds, left), env=env, on_line=read)
        reader.lose(ended.why())
        outcome = outcomes.get(test, f"failed: {ended.why() or 'no test has run'}")
        lines.append(f"{how}: {outcome}")
        if found:
            lines.append("\n".join(found[:25]))
        if how == "alone" and not outcome.startswith("failed"):
            break
    return lines
