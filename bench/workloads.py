"""The nets that bench/run measures: their data and solver files, made under one
folder and kept there for the next run."""
import os
import random
import re
import subprocess
from dataclasses import dataclass

FASHION = "/usr/share/datasets/fashion-mnist"
CIFAR_RECORDS = 10000  # in each of the six files of CIFAR-10's binary version
CIFAR_IMAGE = 3 * 32 * 32


@dataclass
class Workload:
    net: str  # as onednn_loop and torch_peer.py call it
    title: str
    batch: int
    model: str  # the example that is measured
    rate: float
    decay: float
    display: int  # iterations between rows of metrics
    torch_target: float  # asked for: Millrace's images/s over PyTorch's

    def solver(self, folder):
        return os.path.join(folder, self.net + "_solver.prototxt")

    def model_copy(self, folder):
        return os.path.join(folder, self.net + ".prototxt")


WORKLOADS = [
    Workload("lenet", "LeNet, batch 64", 64, "examples/fashion_mnist/lenet_train_test.prototxt",
             0.01, 5e-4, 10, 1.8),
    Workload("quick", "cifar10_quick, batch 100", 100,
             "examples/cifar10/cifar10_quick_train_test.prototxt", 0.001, 4e-3, 2, 1.5),
    Workload("caffenet", "CaffeNet, batch 16", 16, "examples/imagenet/caffenet_dummy.prototxt",
             0.0001, 5e-4, 1, 1.8),
]


def prepare(workload, folder, millrace):
    """Makes what training `workload` needs."""
    os.makedirs(folder, exist_ok=True)
    if workload.net == "lenet":
        make_fashion(folder, millrace)
    elif workload.net == "quick":
        make_cifar(folder, millrace)
    with open(workload.model) as file:
        model = file.read()
    # The examples name their data under data/<set>/.
    model = re.sub(r'"data/\w+/', f'"{folder}/', model)
    with open(workload.model_copy(folder), "w") as file:
        file.write(model)
    with open(workload.solver(folder), "w") as file:
        file.write(f"""net: "{workload.model_copy(folder)}"
base_lr: {workload.rate}
momentum: 0.9
weight_decay: {workload.decay}
lr_policy: "fixed"
display: {workload.display}
max_iter: 1000000000
test_initialization: false
snapshot_after_train: false
random_seed: 1
solver_mode: CPU
""")


def make_fashion(folder, millrace):
    for part, prefix in (("train", "train"), ("test", "t10k")):
        database = os.path.join(folder, f"fashion_mnist_{part}_lmdb")
        if not os.path.exists(database):
            subprocess.run([millrace, "convert_mnist_data",
                            f"{FASHION}/{prefix}-images-idx3-ubyte.gz",
                            f"{FASHION}/{prefix}-labels-idx1-ubyte.gz", database,
                            "--minloglevel=1"], check=True)


def make_cifar(folder, millrace):
    """CIFAR-10's files with random images: speed does not depend on what they show."""
    if not os.path.exists(os.path.join(folder, "cifar10_test_lmdb")):
        generator = random.Random(1)
        names = [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]
        paths = [os.path.join(folder, name) for name in names]
        for path in paths:
            records = bytearray(generator.randbytes(CIFAR_RECORDS * (1 + CIFAR_IMAGE)))
            for record in range(CIFAR_RECORDS):
                records[record * (1 + CIFAR_IMAGE)] %= 10  # the label
            with open(path, "wb") as file:
                file.write(records)
        subprocess.run([millrace, "convert_cifar_data", folder, folder, "--minloglevel=1"],
                       check=True)
        for path in paths:
            os.remove(path)
    mean = os.path.join(folder, "mean.binaryproto")
    if not os.path.exists(mean):
        subprocess.run([millrace, "compute_image_mean",
                        os.path.join(folder, "cifar10_train_lmdb"), mean, "--minloglevel=1"],
                       check=True)
