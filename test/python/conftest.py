"""What the tests share."""
import os
import shutil
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(ROOT, os.environ.get("BUILD", "build"))
FASHION = "/usr/share/datasets/fashion-mnist"


SECONDS = 120  # generous limit of each wait


def wait_until(holds):
    end = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.005)


@pytest.fixture(autouse=True)
def fixed_seed():
    np.random.seed(1)


@pytest.fixture
def write(tmp_path):
    """write(name, text): a file in a folder of the test; returns its path."""
    def write_file(name, text):
        path = tmp_path / name
        path.write_text(text)
        return str(path)
    return write_file


@pytest.fixture
def two_nodes(write):
    """A topology file of the nodes a and b on this machine."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    return write("two.prototxt", f"""name: 'two'
        node {{ name: 'a' address: '127.0.0.1' }} node {{ name: 'b' address: '127.0.0.2' }}
        segment {{ name: 's' transport: 'udp' port: {port} damping: false }}""")


@pytest.fixture
def three_nodes(write, two_nodes):
    """A topology file of the nodes a, b and c, which names no rule and does not damp."""
    with open(two_nodes, encoding="utf-8") as topology:
        text = topology.read().replace("damping: false", "peer_timeout_ms: 60000")
    return write("three.prototxt", text.replace(
        "segment", "node { name: 'c' address: '127.0.0.3' } segment"))


@pytest.fixture
def segments(write, two_nodes):
    """A topology file of the same segment without nodes, for those that meet by a registry."""
    with open(two_nodes, encoding="utf-8") as topology:
        return write("segments.prototxt", "segment" + topology.read().split("segment")[1])


@pytest.fixture
def etcd(tmp_path):
    """The address of an etcd with no keys."""
    program = shutil.which("etcd")
    if program is None:
        pytest.skip("etcd is not installed (tools/install-deps --etcd)")
    with socket.socket() as client, socket.socket() as member:
        client.bind(("127.0.0.1", 0))
        member.bind(("127.0.0.1", 0))
        address, peer = (f"127.0.0.1:{each.getsockname()[1]}" for each in (client, member))
    server = subprocess.Popen(
        [program, f"--data-dir={tmp_path}/etcd", "--log-level=error",
         f"--listen-client-urls=http://{address}", f"--advertise-client-urls=http://{address}",
         f"--listen-peer-urls=http://{peer}", f"--initial-advertise-peer-urls=http://{peer}",
         f"--initial-cluster=default=http://{peer}"], stderr=subprocess.DEVNULL)
    yield address
    server.terminate()
    server.wait(SECONDS)


@pytest.fixture
def caffe_fixture(tmp_path):
    """A copy of the net, data and results of Caffe, whose paths do not depend on the working
    folder."""
    folder = tmp_path / "fixture"
    shutil.copytree(os.path.join(ROOT, "test/caffe/fixture"), folder)
    net = folder / "net.prototxt"
    text = net.read_text()
    for name in ("mean.binaryproto", "train_lmdb", "test_lmdb"):
        text = text.replace(f'"{name}"', f'"{folder / name}"')
    net.write_text(text)
    solver = folder / "solver.prototxt"
    text = solver.read_text().replace('"net.prototxt"', f'"{net}"')
    solver.write_text(text.replace('snapshot_prefix: "caffe"',
                                   f'snapshot_prefix: "{folder / "ours"}"'))
    return folder


@pytest.fixture(scope="session")
def fashion_lmdb(tmp_path_factory):
    """An LMDB of the 10,000 test images of Fashion-MNIST."""
    images = os.path.join(FASHION, "t10k-images-idx3-ubyte.gz")
    if not os.path.exists(images):
        pytest.skip("the package dataset-fashion-mnist is not installed")
    out = str(tmp_path_factory.mktemp("fashion") / "lmdb")
    subprocess.run([os.path.join(BUILD, "millrace"), "convert_mnist_data", images,
                    os.path.join(FASHION, "t10k-labels-idx1-ubyte.gz"), out],
                   check=True, capture_output=True)
    return out


@pytest.fixture
def others_run_during():
    """others_run_during(call): whether another Python thread runs while the main thread does
    nothing but call(). The interpreter does not change threads by itself meanwhile."""
    def during(call):
        begun, ran = threading.Event(), threading.Event()

        def run():
            begun.wait(120)
            ran.set()

        thread = threading.Thread(target=run)
        thread.start()
        interval = sys.getswitchinterval()
        sys.setswitchinterval(3600)
        try:
            begun.set()
            limit = time.monotonic() + 60
            while not ran.is_set() and time.monotonic() < limit:
                call()
            return ran.is_set()
        finally:
            sys.setswitchinterval(interval)
            thread.join(120)
    return during
