"""The results of a part: a text to read, and one archive with all logs and the results, which the next part reads."""
import json
import os
import tarfile
import time
import zlib

MAX_ARCHIVE = 15 << 20  # bytes


class Report:
    def __init__(self, part, steps, limit, out, work, dry):
        self.part, self.limit, self.out, self.work, self.dry = part, limit, out, work, dry
        self.began, self._start = time.time(), time.monotonic()
        self.steps = [{"name": step.name, "planned": step.seconds, "seconds": 0.0, "result": "not run", "lines": []}
                      for step in steps]
        self.machine = []  # lines
        self.rates = []  # lines
        self.tests = {}  # "program test" -> outcome, of each test that has run
        self.alone = {}  # "program test" -> lines of its runs alone
        self.libraries = set()
        self.left_out = []
        self.end = ""  # why the part ended early
        self.written = ""  # the text of the report file

    def seconds(self):
        return time.monotonic() - self._start

    def failed(self):
        return [step for step in self.steps if step["result"].startswith("FAILED")]

    def complete(self):
        return all(step["result"].startswith(("passed", "skipped")) for step in self.steps)

    def table(self):
        """The budget: seconds planned and taken."""
        rows = [f"{'step':<12} {'planned':>7} {'taken':>7}  result"]
        for step in self.steps:
            result = step["result"].splitlines()[0]
            rows.append(f"{step['name']:<12} {step['planned']:>7.0f} {step['seconds']:>7.1f}  {result[:150]}")
        rows.append(f"{'total':<12} {sum(step['planned'] for step in self.steps):>7.0f} {self.seconds():>7.1f}  "
                    f"the caller's limit is {self.limit:.0f} s")
        return rows

    def text(self):
        passed = sum(step["result"].startswith("passed") for step in self.steps)
        lines = [f"{self.part}{' --dry-run' if self.dry else ''}, "
                 f"{time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime(self.began))} UTC: {passed} of {len(self.steps)} "
                 f"steps passed, {len(self.failed())} failed{'; ended early: ' + self.end if self.end else ''}",
                 "", *self.table()]
        if self.rates:
            lines += ["", "== Measurements", *self.rates]
        for step in self.steps:
            more = step["result"].splitlines()[1:]
            if more or step["lines"]:
                lines += ["", f"== {step['name']}", *more, *step["lines"]]
        bad = {name: text for name, text in self.tests.items() if text.startswith("failed")}
        if bad:
            lines += ["", f"== {len(bad)} tests have failed"]
        for name, text in bad.items():
            lines += [name, *("    " + line for line in text.splitlines()[:12])]
            for how in self.alone.get(name, []):
                lines += ["  " + line for line in how.splitlines()[:25]]
        if self.machine:
            lines += ["", "== Machine", *self.machine]
        lines += ["", "== CUDA libraries that programs have loaded", *(sorted(self.libraries) or ["none"])]
        if self.left_out:
            lines += ["", "== Files that the archive has no room for", *self.left_out]
        return "\n".join(lines) + "\n"

    def write(self):
        """Rewrites both files. Each is whole at any time."""
        results = {"part": self.part, "began": self.began, "dry": self.dry, "steps": self.steps, "tests": self.tests,
                   "alone": self.alone, "rates": self.rates, "end": self.end}
        with open(os.path.join(self.work, "results.json"), "w") as file:
            json.dump(results, file, indent=1)
        self._write_archive()
        name = os.path.join(self.out, self.part + ".txt")
        self.written = self.text()
        with open(name + ".tmp", "w") as file:
            file.write(self.written)
        os.replace(name + ".tmp", name)

    def _write_archive(self):
        found = [os.path.join(folder, file) for folder, _, files in os.walk(self.work) for file in files]
        # Small ones first: what has no room is then one of few.
        found.sort(key=os.path.getsize)
        name = os.path.join(self.out, self.part + ".tar.gz")
        self.left_out = []
        room = MAX_ARCHIVE
        with tarfile.open(name + ".tmp", "w:gz", compresslevel=5) as archive:
            for path in found:
                if os.path.getsize(path) > 1 << 16:
                    with open(path, "rb") as file:
                        size = len(zlib.compress(file.read(256 << 20), 5))
                else:
                    size = os.path.getsize(path)
                if size + 1024 > room:
                    self.left_out.append(f"{os.path.relpath(path, self.work)}: {os.path.getsize(path)} bytes")
                    continue
                room -= size + 1024
                archive.add(path, arcname=os.path.join(self.part, os.path.relpath(path, self.work)))
        os.replace(name + ".tmp", name)


def failed_before(paths, dry):
    """Names ("program test") of tests that failed last, and results of failed steps by their names, by the archives of
    earlier parts: files, or folders of them. Those of dry runs count for dry runs only."""
    files = []
    for path in paths:
        if os.path.isdir(path):
            files += [os.path.join(path, name) for name in os.listdir(path) if name.endswith(".tar.gz")]
        else:
            files.append(path)
    results = []
    for path in files:
        try:
            with tarfile.open(path) as archive:
                for member in archive:
                    if os.path.basename(member.name) == "results.json":
                        results.append(json.load(archive.extractfile(member)))
        except (OSError, tarfile.TarError, ValueError) as error:
            raise SystemExit(f"run: {path}: {error}: expected an archive of an earlier part") from None
    outcomes, steps = {}, {}
    for each in sorted((each for each in results if each["dry"] == dry), key=lambda result: result["began"]):
        outcomes.update(each["tests"])
        steps.update({step["name"]: step["result"] for step in each["steps"]})
    return ([name for name, text in outcomes.items() if text.startswith("failed")],
            {name: result for name, result in steps.items() if result.startswith("FAILED")})
