"""A plugin of pytest: prints verdicts in the form that tools/run-tests counts."""

def pytest_runtest_logreport(report):
    name = report.nodeid.split("/")[-1].replace("::", ".").replace(" ", "_")
    print()  # behind what pytest shows of its progress
    if report.when == "setup":
        print(f"[ RUN      ] {name}")
    milliseconds = int(report.duration * 1000)
    if report.failed:
        print(f"{report.longreprtext}\n[  FAILED  ] {name} ({milliseconds} ms)")
    elif report.skipped:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else "expected failure"
        print(f"{name}: Skipped\n{reason.removeprefix('Skipped: ')}")
        print(f"[  SKIPPED ] {name} ({milliseconds} ms)")
    elif report.when == "call":
        print(f"[       OK ] {name} ({milliseconds} ms)")


def pytest_collectreport(report):
    """Files that are skipped as a whole."""
    if report.skipped:
        name = report.nodeid.split("/")[-1]
        print(f"\n[ RUN      ] {name}")
        print(f"{name}: Skipped\n{report.longrepr[2].removeprefix('Skipped: ')}")
        print(f"[  SKIPPED ] {name} (0 ms)")
