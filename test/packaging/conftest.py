"""What the tests share."""
import os
import shutil
import subprocess

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(ROOT, os.environ.get("BUILD", "build"))
MILLRACE = os.path.join(BUILD, "millrace")


def output_of(*command, **options):
    """What a command prints; the test fails with its errors if it does."""
    run = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    assert run.returncode == 0, f"{command}: {run.stdout}{run.stderr}"
    return run.stdout


def needs(*programs):
    """Skips the test unless all programs are installed."""
    path = os.environ["PATH"] + ":/usr/sbin:/sbin"
    for program in programs:
        if shutil.which(program, path=path) is None:
            pytest.skip(f"{program} is not installed")


@pytest.fixture(scope="session")
def version():
    return output_of(MILLRACE, "--version").split()[-1]


@pytest.fixture(scope="session")
def installed(tmp_path_factory, version):
    """The folder of an installation for PREFIX=/usr, as DESTDIR."""
    root = tmp_path_factory.mktemp("installed")
    output_of(os.path.join(ROOT, "packaging/install"), BUILD, version,
              env={**os.environ, "PREFIX": "/usr", "DESTDIR": str(root)})
    return root
