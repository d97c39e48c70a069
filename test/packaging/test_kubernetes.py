"""The manifest of examples/kubernetes: its form, and its commands on one machine."""
import os
import re
import shutil
import signal
import socket
import subprocess
import time

import pytest

from conftest import BUILD, MILLRACE, NOISE_NET, ROOT, free_port, output_of

MANIFEST = os.path.join(ROOT, "examples/kubernetes/millrace.yaml")


@pytest.fixture
def objects():
    """The objects of the manifest by kind."""
    yaml = pytest.importorskip("yaml", reason="python3-yaml is not installed")
    with open(MANIFEST, encoding="utf-8") as file:
        return {each["kind"]: each for each in yaml.safe_load_all(file)}


def test_the_schemas_of_kubernetes_accept_it():
    program = os.path.join(BUILD, "k8s/bin/kubernetes-validate")
    if not os.path.exists(program):
        pytest.skip("kubernetes-validate of PyPI is not in a venv build/k8s")
    for release in ("1.31", "1.34"):
        run = subprocess.run([program, "-k", release, "--strict", MANIFEST], capture_output=True,
                             text=True, check=False)
        found = run.stdout + run.stderr
        assert (run.returncode, found.count(" passed for resource ")) == (0, 3), found


def test_its_parts_name_each_other(objects):
    job, service = objects["Job"], objects["Service"]
    pod = job["spec"]["template"]
    assert service["spec"]["selector"] == pod["metadata"]["labels"]
    assert pod["spec"]["subdomain"] == service["metadata"]["name"]
    topology = objects["ConfigMap"]["data"]["cluster.prototxt"]
    names = re.findall(r'node { name: "(\d+)" address: "(.*?)" }', topology)
    assert names == [(str(i), f"{job['metadata']['name']}-{i}.{service['metadata']['name']}")
                     for i in range(job["spec"]["completions"])]
    volumes = {each["name"] for each in pod["spec"]["volumes"]}
    containers = pod["spec"]["initContainers"] + pod["spec"]["containers"]
    mounts = {mount["name"] for each in containers for mount in each.get("volumeMounts", [])}
    assert mounts == volumes


def test_its_commands_train_and_its_probe_answers(objects, tmp_path):
    pod = objects["Job"]["spec"]["template"]["spec"]
    container = pod["containers"][0]
    for name in ("secret", "key", "tls", "topology"):
        (tmp_path / name).mkdir()
    (tmp_path / "secret/cluster.key").write_bytes(b"0a" * 32)
    (tmp_path / "secret/cluster.key").chmod(0o440)
    shutil.copy(f"{ROOT}/test/control/tls/certificate.pem", tmp_path / "tls/tls.crt")
    shutil.copy(f"{ROOT}/test/control/tls/key.pem", tmp_path / "tls/tls.key")
    topology = objects["ConfigMap"]["data"]["cluster.prototxt"].replace("/etc/millrace", str(tmp_path))
    topology = re.sub(r"millrace-(\d)\.millrace", lambda m: f"127.0.0.{int(m[1]) + 1}", topology)
    (tmp_path / "topology/cluster.prototxt").write_text(
        topology.replace("7700", str(free_port(socket.SOCK_DGRAM))))
    (tmp_path / "net.prototxt").write_text(NOISE_NET)
    (tmp_path / "solver.prototxt").write_text(
        f'net: "{tmp_path}/net.prototxt" base_lr: 0.0001 lr_policy: "fixed"'
        f' max_iter: 1000000000 snapshot_prefix: "{tmp_path}/run"')

    ports = [free_port() for _ in range(3)]

    def command(words, node):
        changes = {"/usr/bin/millrace": MILLRACE, "/etc/millrace": str(tmp_path), "8400":
                   str(ports[node]), "/run/millrace": str(tmp_path), "--cpu=4": "--cpu=1",
                   "$(JOB_COMPLETION_INDEX)": str(node), "0.0.0.0": "127.0.0.1"}
        for old, new in changes.items():
            words = [word.replace(old, new) for word in words]
        return words

    probe = container["livenessProbe"]["exec"]["command"]
    assert subprocess.run(command(probe, 0), capture_output=True, check=False).returncode == 1
    output_of(*command(pod["initContainers"][0]["command"], 0))
    nodes = []
    try:
        for node in range(3):
            with open(tmp_path / f"{node}.log", "wb") as log:
                nodes.append(subprocess.Popen(command(container["command"], node), stderr=log,
                                              stdout=log, cwd=tmp_path))
        end = time.monotonic() + 300
        for node in range(3):
            while True:
                run = subprocess.run(command(probe, node), capture_output=True, text=True, check=False)
                if run.returncode == 0 and re.search(r"iteration\D+[1-9]", run.stdout):
                    break
                log = (tmp_path / f"{node}.log").read_text()
                assert nodes[node].poll() is None and time.monotonic() < end, run.stderr + log
                time.sleep(0.1)
    finally:
        for node in nodes:
            node.send_signal(signal.SIGTERM)
        codes = [node.wait(120) for node in nodes]
    assert codes == [0, 0, 0]
    assert list(tmp_path.glob("run_iter_*.caffemodel"))
