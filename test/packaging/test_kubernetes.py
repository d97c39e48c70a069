"""The manifests of examples/kubernetes: their form, and their commands on one machine."""
import os
import re
import shutil
import signal
import socket
import subprocess
import time

import pytest

from conftest import BUILD, MILLRACE, NOISE_NET, ROOT, free_port, needs, output_of

MANIFESTS = {"millrace.yaml": 3, "elastic.yaml": 5}  # with their number of objects


def path_of(name):
    return os.path.join(ROOT, "examples/kubernetes", name)


def objects_of(name):
    """The objects of a manifest by kind."""
    yaml = pytest.importorskip("yaml", reason="python3-yaml is not installed")
    with open(path_of(name), encoding="utf-8") as file:
        return {each["kind"]: each for each in yaml.safe_load_all(file)}


@pytest.mark.parametrize("name", MANIFESTS)
def test_the_schemas_of_kubernetes_accept_it(name):
    program = os.path.join(BUILD, "k8s/bin/kubernetes-validate")
    if not os.path.exists(program):
        pytest.skip("kubernetes-validate of PyPI is not in a venv build/k8s")
    for release in ("1.31", "1.34"):
        run = subprocess.run([program, "-k", release, "--strict", path_of(name)],
                             capture_output=True, text=True, check=False)
        found = run.stdout + run.stderr
        passed = found.count(" passed for resource ")
        assert (run.returncode, passed) == (0, MANIFESTS[name]), found


@pytest.mark.parametrize("name", MANIFESTS)
def test_its_containers_mount_its_volumes(name):
    pod = objects_of(name)["Job"]["spec"]["template"]["spec"]
    volumes = {each["name"] for each in pod["volumes"]}
    containers = pod["initContainers"] + pod["containers"]
    assert {mount["name"] for each in containers for mount in each.get("volumeMounts", [])} == volumes


def test_the_parts_of_the_job_name_each_other():
    objects = objects_of("millrace.yaml")
    job, service = objects["Job"], objects["Service"]
    pod = job["spec"]["template"]
    assert service["spec"]["selector"] == pod["metadata"]["labels"]
    assert pod["spec"]["subdomain"] == service["metadata"]["name"]
    topology = objects["ConfigMap"]["data"]["cluster.prototxt"]
    names = re.findall(r'node { name: "(\d+)" address: "(.*?)" }', topology)
    assert names == [(str(i), f"{job['metadata']['name']}-{i}.{service['metadata']['name']}")
                     for i in range(job["spec"]["completions"])]


def test_the_parts_of_the_elastic_run_name_each_other():
    objects = objects_of("elastic.yaml")
    job, etcd, service = objects["Job"]["spec"], objects["StatefulSet"]["spec"], objects["Service"]
    labels = etcd["template"]["metadata"]["labels"]
    policy = objects["NetworkPolicy"]["spec"]
    assert service["spec"]["selector"] == labels == etcd["selector"]["matchLabels"]
    assert policy["podSelector"]["matchLabels"] == labels
    source, = policy["ingress"][0]["from"]
    assert source["podSelector"]["matchLabels"] == job["template"]["metadata"]["labels"]
    assert etcd["serviceName"] == service["metadata"]["name"]
    port = service["spec"]["ports"][0]["port"]
    assert policy["ingress"][0]["ports"][0]["port"] == port
    command = job["template"]["spec"]["containers"][0]["command"]
    registry, = [each for each in command if each.startswith("--rendezvous=")]
    assert registry.startswith(f"--rendezvous=etcd://{service['metadata']['name']}:{port}/")
    # An Indexed Job of which the number of pods can change.
    assert job["completionMode"] == "Indexed" and job["completions"] == job["parallelism"]
    least, most = re.search(r"--nodes=(\d+):(\d+)", " ".join(command)).groups()
    assert int(least) <= job["parallelism"] <= int(most)


class Machine:
    """Runs the commands of a manifest's pods on this machine."""

    def __init__(self, objects, folder):
        self.objects, self.folder = objects, folder
        self.pod = objects["Job"]["spec"]["template"]["spec"]
        self.container = self.pod["containers"][0]
        self.control = [free_port() for _ in range(3)]
        self.changes = {"/usr/bin/millrace": MILLRACE, "/etc/millrace": str(folder),
                        "/run/millrace": str(folder), "--cpu=4": "--cpu=1", "0.0.0.0": "127.0.0.1"}
        self.nodes = []
        for name in ("secret", "key", "tls"):
            (folder / name).mkdir()
        (folder / "secret/cluster.key").write_bytes(b"0a" * 32)
        (folder / "secret/cluster.key").chmod(0o440)
        shutil.copy(f"{ROOT}/test/control/tls/certificate.pem", folder / "tls/tls.crt")
        shutil.copy(f"{ROOT}/test/control/tls/key.pem", folder / "tls/tls.key")
        (folder / "net.prototxt").write_text(NOISE_NET)
        (folder / "solver.prototxt").write_text(
            f'net: "{folder}/net.prototxt" base_lr: 0.0001 lr_policy: "fixed"'
            f' max_iter: 1000000000 snapshot_prefix: "{folder}/run"')
        output_of(*self.command(self.pod["initContainers"][0]["command"], 0))

    def write_topology(self, volume, name):
        text = self.objects["ConfigMap"]["data"][name].replace("/etc/millrace", str(self.folder))
        text = re.sub(r"millrace-(\d)\.millrace", lambda m: f"127.0.0.{int(m[1]) + 1}", text)
        (self.folder / volume).mkdir()
        (self.folder / volume / name).write_text(
            text.replace("7700", str(free_port(socket.SOCK_DGRAM))))

    def command(self, words, node):
        changes = {**self.changes, "8400": str(self.control[node]),
                   "$(JOB_COMPLETION_INDEX)": str(node)}
        pattern = re.compile("|".join(re.escape(old) for old in changes))
        return [pattern.sub(lambda found: changes[found[0]], word) for word in words]

    def start(self, node, *flags):
        with open(self.folder / f"{node}.log", "wb") as log:
            self.nodes.append(subprocess.Popen(
                [*self.command(self.container["command"], node), *flags], stderr=log, stdout=log,
                cwd=self.folder))

    def probe(self, node):
        return subprocess.run(self.command(self.container["livenessProbe"]["exec"]["command"], node),
                              capture_output=True, text=True, check=False)

    def await_training(self, node):
        end = time.monotonic() + 300
        while True:
            run = self.probe(node)
            if run.returncode == 0 and re.search(r"iteration\D+[1-9]", run.stdout):
                return
            log = (self.folder / f"{node}.log").read_text()
            assert self.nodes[node].poll() is None and time.monotonic() < end, run.stderr + log
            time.sleep(0.1)

    def stop(self):
        """Ends all nodes as Kubernetes ends pods, and returns their exit statuses."""
        for node in self.nodes:
            node.send_signal(signal.SIGTERM)
        return [node.wait(120) for node in self.nodes]


def test_the_commands_of_the_job_train_and_its_probe_answers(tmp_path):
    machine = Machine(objects_of("millrace.yaml"), tmp_path)
    machine.write_topology("topology", "cluster.prototxt")
    assert machine.probe(0).returncode == 1
    try:
        for node in range(3):
            machine.start(node)
        for node in range(3):
            machine.await_training(node)
    finally:
        codes = machine.stop()
    assert codes == [0, 0, 0]
    assert list(tmp_path.glob("run_iter_*.caffemodel"))


def test_the_commands_of_the_elastic_run_train_by_its_etcd(tmp_path):
    needs("etcd")
    machine = Machine(objects_of("elastic.yaml"), tmp_path)
    machine.write_topology("segments", "segments.prototxt")
    etcd = machine.objects["StatefulSet"]["spec"]["template"]["spec"]["containers"][0]
    port, members = free_port(), f"http://127.0.0.1:{free_port()}"
    machine.changes |= {"millrace-etcd": "127.0.0.1", "2379": str(port),
                        "/var/lib/etcd": str(tmp_path / "etcd")}
    with open(tmp_path / "etcd.log", "wb") as log:
        registry = subprocess.Popen(
            [*machine.command(etcd["command"], 0), f"--listen-peer-urls={members}",
             f"--initial-advertise-peer-urls={members}", f"--initial-cluster=default={members}"],
            stdout=log, stderr=log)
    codes = []
    try:
        # A pod alone is alive, and waits for another one.
        machine.start(0, "--rendezvous_address=127.0.0.1")
        end = time.monotonic() + 300
        while "Waiting for nodes: 1 of 2" not in (tmp_path / "0.log").read_text():
            assert time.monotonic() < end, (tmp_path / "0.log").read_text()
            time.sleep(0.1)
        assert "starting" in machine.probe(0).stdout
        machine.start(1, "--rendezvous_address=127.0.0.2")
        machine.await_training(0)
        machine.start(2, "--rendezvous_address=127.0.0.3")
        machine.await_training(2)
        assert "Joined the run at iteration" in (tmp_path / "2.log").read_text()
    finally:
        codes = machine.stop()
        registry.terminate()
        registry.wait(60)
    assert codes == [0, 0, 0]
    assert list(tmp_path.glob("run_iter_*.caffemodel"))
