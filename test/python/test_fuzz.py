"""Entry points of the modules with arguments and files of any kind: no call ends the interpreter."""
import os
import subprocess
import sys

import pytest

pytest.importorskip("hypothesis", reason="no module hypothesis: install python3-hypothesis")
HERE = os.path.dirname(os.path.abspath(__file__))
TARGETS = ["test_hdf5_files", "test_mean_files", "test_memory_data", "test_model_files",
           "test_net_texts", "test_nets", "test_parts", "test_pycaffe_nets", "test_sessions",
           "test_state_files", "test_state_hdf5_files", "test_streams"]


@pytest.mark.parametrize("target", TARGETS)
def test_no_call_ends_the_interpreter(target):
    run = subprocess.run([sys.executable, "-X", "faulthandler",
                          os.path.join(HERE, "fuzz_targets.py"), target],
                         capture_output=True, text=True, timeout=900, check=False)
    assert run.returncode == 0, run.stderr[-4000:]


def test_all_targets_are_run():
    names = subprocess.run([sys.executable, "-c", "import fuzz_targets; "
                            "print(*fuzz_targets.TARGETS)"], cwd=HERE, capture_output=True,
                           text=True, check=True).stdout.split()
    assert names == TARGETS
