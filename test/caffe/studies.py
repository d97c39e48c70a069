"""What is trained by both programs: nets, data and solver settings."""
import os
import re
from dataclasses import dataclass, field

SEED = 5


@dataclass
class Study:
    name: str
    model: str  # a file of the tree
    data: str  # what its paths' data/<set>/ becomes
    iterations: int
    snapshot: int  # falls on the end of an epoch: both programs then go on with record 0
    test_batches: int
    batch: int = 0  # images in a batch of training; 0: as the file says
    solver: dict = field(default_factory=dict)
    # Tests of trainings take so many batches, which need not be a whole epoch.
    test_iter: int = 3
    # Only the loss curve is compared.
    curve_only: bool = False
    text: str = ""  # of the net, in place of a file

    @property
    def net(self):
        return f"{self.name}.prototxt"

    def write_net(self, folder, root):
        text = self.text
        if not text:
            with open(os.path.join(root, self.model)) as file:
                text = file.read()
        text = re.sub(r'"data/\w+/', f'"{self.data}/', text)
        if self.batch:
            text = re.sub(r"batch_size: \d+", f"batch_size: {self.batch}", text, count=1)
        with open(os.path.join(folder, self.net), "w") as file:
            file.write(text)

    def write_solver(self, folder, name, **changes):
        """NAME.prototxt, whose snapshots begin with NAME; returns its file name."""
        fields = {"net": self.net, "random_seed": SEED, "display": 1, "momentum": 0.9,
                  "max_iter": self.iterations, "snapshot": self.snapshot,
                  "snapshot_prefix": name, "test_iter": self.test_iter,
                  "test_interval": max(1, self.iterations // 4)}
        if self.curve_only:
            del fields["test_iter"], fields["test_interval"], fields["snapshot"]
        fields |= self.solver | changes
        with open(os.path.join(folder, f"{name}.prototxt"), "w") as file:
            for key, value in fields.items():
                for each in value if isinstance(value, list) else [value]:
                    file.write(f'{key}: {quoted(key, each)}\n')
            file.write("solver_mode: CPU\n")
        return f"{name}.prototxt"


def quoted(key, value):
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return f'"{text}"' if isinstance(value, str) and key != "solver_type" else text


LENET = "examples/mnist/lenet_train_test.prototxt"
QUICK = "examples/cifar10/cifar10_quick_train_test.prototxt"
FULL = "examples/cifar10/cifar10_full_train_test.prototxt"
SMALL = "test/caffe/small_caffenet.prototxt"

ODD = "test/caffe/odd_shapes.prototxt"

# Grey has 3,200 records, colour 1,000 different ones.
STUDIES = [
    Study("lenet", LENET, "grey", 150, 100, 10, solver={
        "base_lr": 0.01, "weight_decay": 0.0005, "lr_policy": "inv", "gamma": 0.0001,
        "power": 0.75}),
    Study("quick", QUICK, "colour", 80, 50, 5, batch=40, solver={
        "base_lr": 0.001, "weight_decay": 0.004, "lr_policy": "step", "gamma": 0.5,
        "stepsize": 40}),
    Study("full", FULL, "colour", 80, 50, 5, batch=40, solver={
        "base_lr": 0.004, "weight_decay": 0.004, "lr_policy": "multistep", "gamma": 0.1,
        "stepvalue": [40, 70]}),
    Study("small_caffenet", SMALL, "colour", 150, 100, 10, solver={
        "base_lr": 0.02, "weight_decay": 0.0005, "lr_policy": "poly", "power": 1.5,
        "iter_size": 2, "clip_gradients": 1.0, "average_loss": 5, "test_compute_loss": True}),
    Study("odd_shapes", ODD, "grey", 150, 100, 10, solver={
        "base_lr": 0.01, "weight_decay": 0.001, "lr_policy": "fixed"}),
] + [Study(f"lenet_{name}", LENET, "grey", 60, 60, 0, solver=solver, curve_only=True)
     for name, solver in {
         "nesterov": {"type": "Nesterov", "base_lr": 0.01, "weight_decay": 0.0005,
                      "lr_policy": "exp", "gamma": 0.99},
         "l1": {"base_lr": 0.01, "weight_decay": 0.0001, "regularization_type": "L1",
                "lr_policy": "sigmoid", "gamma": 0.1, "stepsize": 30},
         "plain": {"base_lr": 0.05, "momentum": 0.0, "lr_policy": "fixed", "iter_size": 3,
                   "average_loss": 7}}.items()]
