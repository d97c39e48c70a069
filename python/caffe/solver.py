"""Solvers with the interface of pycaffe."""
import os
import sys

from google.protobuf import text_format

import millrace

from . import net, parallel
from .net import Net
from .parallel import NCCL
from .proto import caffe_pb2


def _read_param(solver_file):
    """The message of a solver file."""
    param = caffe_pb2.SolverParameter()
    with open(solver_file, encoding="utf-8", errors="replace") as file:
        text = file.read()
    try:
        return text_format.Merge(text, param)
    except text_format.ParseError:
        millrace.Session(solver_file)  # says what is wrong
        raise


# Fields of a solver file that are read when they are used, and those of the learning rate.
_OWN = {"display", "average_loss", "test_interval", "test_initialization", "snapshot",
        "snapshot_after_train", "layer_wise_reduce", "solver_mode", "device_id"}
_SCHEDULE = {"base_lr", "lr_policy", "gamma", "power", "stepsize", "stepvalue", "max_iter",
             "warmup_iter", "warmup_start_lr", "stagelr", "stageiter"}


# Whether loss and tests are shown. glog's variable hides them, as in Caffe.
_shows_lines = os.environ.get("GLOG_minloglevel", "0") in ("", "0")


def set_log_level(level):
    """Above 0: the solvers' loss and tests are not shown."""
    global _shows_lines  # pylint: disable=global-statement
    _shows_lines = level <= 0


def _log(line):
    if _shows_lines:
        print(line, file=sys.stderr)


class Solver:
    """A solver as its file describes it. `net` and `test_nets` are Net objects; test nets use the
    weights of the train net. `param` is the message of the file, of which the fields for the
    learning rate, max_iter, display, tests and snapshots may be changed between steps."""

    _type = None  # of the solver; None: that of the file

    def __init__(self, solver_file):
        self.param = _read_param(solver_file)
        changes = {}
        if self._type is not None and not self._has_type(self._type):
            changes["type"] = self._type
        if net.seed is not None and not self.param.HasField("random_seed"):
            changes["random_seed"] = net.seed
        options = {"past_max_iter": True}
        self._is_root = True  # of solvers of several processes
        if parallel.multiprocess() and parallel.solver_count() > 1:
            rank, count = parallel.solver_rank(), parallel.solver_count()
            self._is_root = rank == 0
            options["shard"] = (rank, count)
            seed = self.param.random_seed if self.param.HasField("random_seed") else 1
            changes["random_seed"] = changes.get("random_seed", seed) + rank
        if changes:
            for field, value in changes.items():
                setattr(self.param, field, value)
            if "type" in changes:
                self.param.ClearField("solver_type")
            self._session = millrace.Session.from_text(text_format.MessageToString(self.param),
                                                       str(solver_file), **options)
        else:
            self._session = millrace.Session(solver_file, **options)
        self._followed = caffe_pb2.SolverParameter()
        self._followed.CopyFrom(self.param)
        self.net = Net._of(self._session.net)
        self.test_nets = [Net._of(net) for net in self._session.test_nets]
        self._callbacks = []
        self._losses = []

    def _has_type(self, name):
        if self.param.HasField("solver_type"):
            old = caffe_pb2.SolverParameter.SolverType.Name(self.param.solver_type)
            return old == name.upper()
        return self.param.type == name

    @property
    def iter(self):
        """Iterations completed."""
        return self._session.iteration

    @property
    def lr(self):
        """The learning rate of the next iteration."""
        self._follow_param()
        return self._session.learning_rate

    def add_callback(self, on_start, on_gradients_ready=None):
        """Calls on_start() before each iteration, and on_gradients_ready() between its gradients
        and their update. Or add_callback(nccl), which averages the gradients there."""
        if isinstance(on_start, NCCL):
            on_start, on_gradients_ready = None, on_start._average
        self._callbacks.append((on_start, on_gradients_ready))
        callbacks = self._callbacks

        def ready():
            for _, call in callbacks:
                call()

        self._session.on_gradients(ready)

    def _test_all(self):
        for index in range(len(self.test_nets)):
            _log(f"Iteration {self.iter}, Testing net (#{index})")
            for number, (name, mean) in enumerate(self._session.test(index)):
                _log(f"    Test net output #{number}: {name} = {mean:.6g}")

    def _tests_now(self):
        interval = self.param.test_interval
        return self._is_root and interval > 0 and self.iter % interval == 0

    def _snapshots_now(self):
        interval = self.param.snapshot
        return self._is_root and interval > 0 and self.iter % interval == 0

    def _follow_param(self):
        """Makes changes of `param` take effect, or raises RuntimeError for one that cannot."""
        if self.param == self._followed:
            return
        for field in self.param.DESCRIPTOR.fields:
            name = field.name
            if name in _OWN or name in _SCHEDULE or (getattr(self.param, name)
                                                     == getattr(self._followed, name)):
                continue
            raise RuntimeError(f"solver.param.{name}: has changed, expected a change in the file, "
                               "before the solver is made")
        schedule = caffe_pb2.SolverParameter()
        schedule.CopyFrom(self.param)
        for field, _ in schedule.ListFields():
            if field.name not in _SCHEDULE:
                schedule.ClearField(field.name)
        self._session.set_schedule(text_format.MessageToString(schedule))
        self._followed.CopyFrom(self.param)

    def step(self, iterations):
        """Computes `iterations` iterations, with the tests, the lines and the snapshots that the
        solver file asks for."""
        param = self.param
        self._follow_param()
        for _ in range(iterations):
            if self._tests_now() and (self.iter > 0 or param.test_initialization):
                self._test_all()
            for on_start, _ in self._callbacks:
                if on_start is not None:
                    on_start()
            step = self._session.step()
            if step is None:
                break
            self._losses = (self._losses + [step.loss])[-max(param.average_loss, 1):]
            if self._is_root and param.display > 0 and step.iteration % param.display == 0:
                loss = sum(self._losses) / len(self._losses)
                _log(f"Iteration {step.iteration}, loss = {loss:.6g}, lr = "
                     f"{step.learning_rate:.6g}")
            if self._snapshots_now():
                self.snapshot()

    def solve(self, resume_file=None):
        """Trains up to max_iter, from a .solverstate if one is given; then, as the solver file
        says, saves and tests."""
        if resume_file is not None:
            self.restore(resume_file)
        param = self.param
        self.step(max(param.max_iter - self.iter, 0))
        if self._is_root and param.snapshot_after_train and not self._snapshots_now():
            self.snapshot()
        if self._tests_now():
            self._test_all()

    def snapshot(self):
        """Writes a .caffemodel and a .solverstate."""
        self._session.snapshot()

    def restore(self, state_file):
        """Goes on from a .solverstate."""
        self._session.restore(state_file)

    def apply_update(self):
        """Updates the weights from the gradients that `net` holds."""
        self._session.apply_update()

    def share_weights(self, net):
        """Makes `net` use the weights of this solver's train net."""
        net.share_with(self.net)


class SGDSolver(Solver):
    """SGD with momentum."""
    _type = "SGD"


class NesterovSolver(SGDSolver):
    """SGD with Nesterov's momentum."""
    _type = "Nesterov"


class AdaGradSolver(SGDSolver):
    """AdaGrad."""
    _type = "AdaGrad"


class RMSPropSolver(SGDSolver):
    """RMSProp."""
    _type = "RMSProp"


class AdaDeltaSolver(SGDSolver):
    """AdaDelta."""
    _type = "AdaDelta"


class AdamSolver(SGDSolver):
    """Adam."""
    _type = "Adam"


def get_solver(solver_file):
    """The solver of the type that the file names."""
    param = _read_param(solver_file)
    for solver in (SGDSolver, NesterovSolver, AdaGradSolver, RMSPropSolver, AdaDeltaSolver,
                   AdamSolver):
        if not param.HasField("solver_type") and param.type == solver._type:
            return solver(solver_file)
    return Solver(solver_file)
