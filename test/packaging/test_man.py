"""The manual pages that make install writes."""
import os
import re
import subprocess

import pytest

from conftest import MILLRACE, needs, output_of

CHECKERS = {
    "groff": ["groff", "-man", "-ww", "-Tutf8"],
    "man": ["man", "--warnings", "-l", "-Tutf8"],
    "mandoc": ["mandoc", "-T", "lint", "-W", "warning"],
}


def commands():
    return re.findall(r"^  (\w+) ", output_of(MILLRACE, "help"), re.M)


def shown(page):
    """The page as man shows it, without its bold and underlined letters, on long lines."""
    environment = {**os.environ, "MANWIDTH": "1000", "LC_ALL": "C.UTF-8"}
    return re.sub(r".\x08", "", output_of("man", "-l", str(page), env=environment))


@pytest.fixture
def folder(installed):
    return installed / "usr/share/man/man1"


def test_each_command_has_a_page(folder):
    names = {"millrace.1"} | {f"millrace-{name}.1" for name in commands()}
    assert {page.name for page in folder.iterdir()} == names
    assert len(names) > 20


@pytest.mark.parametrize("checker", CHECKERS)
def test_pages_are_without_warnings(folder, checker):
    needs(checker)
    for page in folder.iterdir():
        run = subprocess.run([*CHECKERS[checker], str(page)], capture_output=True, text=True,
                             check=False, env={**os.environ, "LC_ALL": "C.UTF-8"})
        found = run.stderr + (run.stdout if checker == "mandoc" else "")
        assert (run.returncode, found) == (0, ""), page.name


@pytest.mark.parametrize("checker", CHECKERS)
def test_the_checkers_find_a_wrong_request(tmp_path, checker):
    needs(checker)
    page = tmp_path / "wrong.1"
    page.write_text('.TH WRONG 1 "2024-01-01"\n.SH NAME\nwrong \\- nothing\n.XYZ 1\n')
    run = subprocess.run([*CHECKERS[checker], str(page)], capture_output=True, text=True,
                         check=False, env={**os.environ, "LC_ALL": "C.UTF-8"})
    assert "XYZ" in run.stderr + run.stdout


def test_pages_have_every_flag_with_its_default(folder):
    needs("man")
    for name in commands():
        page = shown(folder / f"millrace-{name}.1")
        for head in re.findall(r"^  (--\w+)  (\(.*\))$", output_of(MILLRACE, "help", name), re.M):
            assert re.search(rf"^ +{re.escape(' '.join(head))}$", page, re.M), (name, head)
    assert "default: those of --model or --solver, or else 1048576" in shown(
        folder / "millrace-bench.1")
    assert "millrace train --solver=lenet_solver.prototxt --cpu=2" in shown(
        folder / "millrace-train.1")


def test_the_date_is_source_date_epoch(tmp_path):
    output_of("packaging/help/make-man", MILLRACE, str(tmp_path),
              env={**os.environ, "SOURCE_DATE_EPOCH": "86400"})
    assert '"1970-01-02"' in (tmp_path / "millrace.1").read_text()
