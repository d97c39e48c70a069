"""The systemd unit of a node."""
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess

import pytest

from conftest import BUILD, LABELLED_NET, ROOT, free_port, needs, output_of


@pytest.fixture(scope="module")
def prefix(tmp_path_factory, version):
    """An installation in the place that it is made for."""
    prefix = tmp_path_factory.mktemp("prefix")
    output_of(os.path.join(ROOT, "packaging/install"), BUILD, version,
              env={**os.environ, "PREFIX": str(prefix), "DESTDIR": ""})
    return prefix


def verify(unit):
    return subprocess.run(["systemd-analyze", "verify", "--man=no", str(unit)],
                          capture_output=True, text=True, check=False)


@pytest.fixture
def unit(prefix, tmp_path):
    """The unit of node a."""
    return shutil.copy(prefix / "lib/systemd/system/millrace@.service",
                       tmp_path / "millrace@a.service")


def test_systemd_accepts_the_unit(unit):
    needs("systemd-analyze")
    run = verify(unit)
    assert (run.returncode, run.stderr) == (0, "")


def test_systemd_would_find_a_wrong_setting(unit):
    needs("systemd-analyze")
    with open(unit, "a", encoding="utf-8") as file:
        file.write("\n[Service]\nRestart=sometimes\n")
    assert "sometimes" in verify(unit).stderr


def test_the_unit_is_hardened(unit):
    needs("systemd-analyze")
    run = subprocess.run(["systemd-analyze", "security", "--offline=yes", "--threshold=30", unit],
                         capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr


def test_the_command_of_the_unit_trains(unit, tmp_path):
    """ExecStart, with an environment file as systemd replaces its variables."""
    (tmp_path / "net.prototxt").write_text(LABELLED_NET)
    (tmp_path / "solver.prototxt").write_text(
        f'net: "{tmp_path}/net.prototxt" base_lr: 0.1 lr_policy: "fixed" max_iter: 3'
        ' snapshot_prefix: "run"')
    port = free_port(socket.SOCK_DGRAM)
    (tmp_path / "cluster.prototxt").write_text(
        'name: "pair" node { name: "a" address: "127.0.0.1" } node { name: "b" address: "127.0.0.2" }'
        f' segment {{ name: "loop" transport: "udp" port: {port} }}')
    with open(unit, encoding="utf-8") as file:
        command = re.search(r"^ExecStart=(.*)$", file.read(), re.M)[1]
    for name, value in (("%i", "a"), ("${SOLVER}", f"{tmp_path}/solver.prototxt"),
                        ("${TOPOLOGY}", f"{tmp_path}/cluster.prototxt"), ("$OPTIONS", "--cpu=1")):
        assert name in command
        command = command.replace(name, value)
    assert command.split()[0].endswith("/bin/millrace")
    output_of(*command.split(), cwd=tmp_path)
    assert (tmp_path / "run_iter_3.caffemodel").exists()


def test_reload_asks_for_a_snapshot_without_other_packages(unit):
    with open(unit, encoding="utf-8") as file:
        command = re.search(r"^ExecReload=(.*)$", file.read(), re.M)[1]
    # The program kill is in a package that a small system lacks; each has a shell.
    assert command.startswith("/bin/sh ")
    with subprocess.Popen(["sleep", "1000"]) as process:
        output_of(*shlex.split(command.replace("${MAINPID}", str(process.pid))))
        assert process.wait(60) == -signal.SIGHUP


def test_the_user_of_the_unit_is_declared(installed, tmp_path):
    needs("systemd-sysusers")
    (tmp_path / "etc").mkdir()
    output_of("systemd-sysusers", f"--root={tmp_path}",
              str(installed / "usr/lib/sysusers.d/millrace.conf"))
    assert re.search(r"^millrace:.*:/var/lib/millrace:/usr/sbin/nologin$",
                     (tmp_path / "etc/passwd").read_text(), re.M)
