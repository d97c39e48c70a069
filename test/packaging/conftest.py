"""What the tests share."""
import os
import shutil
import socket
import subprocess

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(ROOT, os.environ.get("BUILD", "build"))
MILLRACE = os.path.join(BUILD, "millrace")

# Small nets on random numbers, without data files.
NOISE_NET = (
    'layer { name: "data" type: "DummyData" top: "data" dummy_data_param {'
    ' shape { dim: 4 dim: 3 } data_filler { type: "gaussian" } } }\n'
    'layer { name: "out" type: "InnerProduct" bottom: "data" top: "out"'
    ' inner_product_param { num_output: 1 weight_filler { type: "xavier" } } }\n'
    'layer { name: "loss" type: "Reduction" bottom: "out" top: "loss" loss_weight: 1'
    ' reduction_param { operation: SUMSQ } }')
LABELLED_NET = (
    'layer { name: "data" type: "DummyData" top: "data" top: "label" dummy_data_param {'
    ' shape { dim: 4 dim: 3 } shape { dim: 4 } data_filler { type: "gaussian" }'
    ' data_filler { type: "constant" value: 1 } } }\n'
    'layer { name: "scores" type: "InnerProduct" bottom: "data" top: "scores"'
    ' inner_product_param { num_output: 2 weight_filler { type: "xavier" } } }\n'
    'layer { name: "loss" type: "SoftmaxWithLoss" bottom: "scores" bottom: "label" top: "loss" }')


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


def free_port(kind=socket.SOCK_STREAM):
    """A port of 127.0.0.1 that is free now."""
    with socket.socket(socket.AF_INET, kind) as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


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
