"""Trainings under Slurm: a cluster of one machine, whose daemons run in a folder of the test."""
import os
import re
import shutil
import socket
import subprocess
import time

import pytest

from conftest import LABELLED_NET, MILLRACE, ROOT, free_port, needs, output_of

PATH = os.environ["PATH"] + ":/usr/sbin:/sbin"
LIMIT = 120  # seconds, for whatever is waited for


class Slurm:
    """munged, slurmctld and slurmd of one machine with two processors."""

    def __init__(self, folder):
        self.folder, self.daemons = folder, []
        host = socket.gethostname().split(".")[0]
        self.environment = {**os.environ, "PATH": PATH, "SLURM_CONF": str(folder / "slurm.conf")}
        (folder / "munge.key").write_bytes(bytes(range(64)))
        (folder / "munge.key").chmod(0o400)
        (folder / "slurm.conf").write_text(f"""
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmctldPort={free_port(socket.SOCK_STREAM)}
SlurmdPort={free_port(socket.SOCK_STREAM)}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
NodeName={host} NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN
PartitionName=all Nodes={host} Default=YES State=UP OverSubscribe=YES
""")
        for name in ("state", "spool"):
            (folder / name).mkdir()
        # Without cgroups, which a container may not change; Debian 12's Slurm 22.05 only loads them.
        release = re.search(r"(\d+)\.", self.run("slurmd", "-V"))
        if int(release[1]) > 22:
            (folder / "cgroup.conf").write_text("CgroupPlugin=disabled\n")

    def start(self, *command):
        log = open(self.folder / f"{command[0]}.out", "wb")
        self.daemons.append(subprocess.Popen(command, stdout=log, stderr=log, env=self.environment))

    def start_all(self):
        folder = self.folder
        self.start("munged", "--foreground", "--force", f"--socket={folder}/munge.socket",
                   f"--key-file={folder}/munge.key", f"--pid-file={folder}/munged.pid",
                   f"--log-file={folder}/munged.log", f"--seed-file={folder}/munged.seed")
        self.wait_for("munge's socket", lambda: (folder / "munge.socket").exists())
        self.start("slurmctld", "-D", "-i")
        self.start("slurmd", "-D")
        self.wait_for("an idle machine", lambda: "idle" in self.run("sinfo", "-h", "-o", "%T"))

    def wait_for(self, what, is_there):
        end = time.monotonic() + LIMIT
        while not is_there():
            dead = [each.args[0] for each in self.daemons if each.poll() is not None]
            if dead or time.monotonic() > end:
                logs = "".join((self.folder / f"{each.args[0]}.out").read_text()[-3000:]
                               for each in self.daemons)
                pytest.fail(f"Slurm: no {what}; ended: {dead}\n{logs}")
            time.sleep(0.1)

    def run(self, *command):
        return subprocess.run(command, capture_output=True, text=True, check=False,
                              env=self.environment).stdout

    def stop(self):
        for daemon in reversed(self.daemons):
            daemon.terminate()
        for daemon in self.daemons:
            try:
                daemon.wait(LIMIT)
            except subprocess.TimeoutExpired:
                daemon.kill()


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    needs("munged", "slurmctld", "slurmd", "srun", "sbatch")
    if os.geteuid() != 0:
        pytest.skip("only root can run slurmd")
    cluster = Slurm(tmp_path_factory.mktemp("slurm"))
    try:
        cluster.start_all()
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture
def solver(tmp_path):
    (tmp_path / "net.prototxt").write_text(LABELLED_NET)
    (tmp_path / "solver.prototxt").write_text(
        f'net: "{tmp_path}/net.prototxt" base_lr: 0.01 lr_policy: "fixed" max_iter: 200000'
        f' snapshot_prefix: "{tmp_path}/run" random_seed: 1')
    return tmp_path / "solver.prototxt"


def test_srun_selects_the_nodes_by_rank(slurm, solver, tmp_path):
    topology = tmp_path / "pair.prototxt"
    topology.write_text('name: "pair" node { name: "a" address: "127.0.0.1" }'
                        ' node { name: "b" address: "127.0.0.2" } segment { name: "loop"'
                        f' transport: "udp" port: {free_port(socket.SOCK_DGRAM)} }}')
    run = subprocess.run(["srun", "-n", "2", "--label", MILLRACE, "train", f"--solver={solver}",
                          f"--topology={topology}"], capture_output=True, text=True, check=False,
                         env=slurm.environment, cwd=tmp_path, timeout=600)
    text = run.stdout + run.stderr
    assert run.returncode == 0, text
    assert re.search(r"^0: .*Joined the run|^1: .*Joined the run", text, re.M), text
    assert (tmp_path / "run_iter_200000.caffemodel").exists()


def test_the_batch_script_trains_with_two_tasks(slurm, solver, tmp_path):
    script = shutil.copy(os.path.join(ROOT, "examples/slurm/train.sbatch"), tmp_path)
    environment = {**slurm.environment, "MILLRACE": MILLRACE,
                   "PORT": str(free_port(socket.SOCK_DGRAM))}
    job = output_of("sbatch", "--parsable", "--ntasks=2", script, str(solver), "--cpu=1",
                    cwd=tmp_path, env=environment).strip()
    end = time.monotonic() + 600
    while slurm.run("squeue", "-h", "-j", job).strip() and time.monotonic() < end:
        time.sleep(0.2)
    log = (tmp_path / f"millrace-{job}.log").read_text()
    assert "JobState=COMPLETED" in slurm.run("scontrol", "show", "job", job), log
    assert 'node { name: "n1" address: "127.0.0.2" }' in (
        tmp_path / f"millrace-{job}.prototxt").read_text()
    assert re.search(r"^[01]: .*Joined the run", log, re.M), log
    assert (tmp_path / "run_iter_200000.caffemodel").exists()
