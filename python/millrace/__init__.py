"""Millrace in Python: nets, solvers and clusters of the C++ library, with live numpy views.

    import millrace
    session = millrace.Session("solver.prototxt")
    while step := session.step():
        print(step.iteration, step.loss)

docs/python.md describes the module, and the package `caffe` for scripts written for pycaffe.
"""
import importlib

from ._millrace import (Blob, ControlService, Controller, Error, Instruction, Net, NetLayer, Run,
                        Session, Step, Worker, layer_types, log, set_log_level, version)
from .member import Member, empty, stream
from .parts import (Parameter, Sampler, StopCondition, SyncCondition, UpdateRule, register_rule,
                    register_sampler, register_source, register_stop_condition,
                    register_sync_condition)

__version__ = version()
__all__ = ["Blob", "Control", "ControlService", "Controller", "Error", "Instruction", "Layer",
           "Member", "Net", "NetLayer", "Parameter", "Run", "Sampler", "Session", "Step",
           "StopCondition", "SyncCondition", "UpdateRule", "Worker", "empty", "layer_types", "log",
           "register_rule", "register_sampler", "register_source", "register_stop_condition",
           "register_sync_condition", "set_log_level", "stream", "train", "version"]


class Layer:
    """Base of layers in Python (type: "Python" in a net file).

    Attributes that the net sets before setup:
      param_str: the text of python_param.param_str.
      phase: 0 in the TRAIN phase, 1 in TEST.
      blobs: learnable arrays, which setup declares: self.blobs.add_blob(*sizes).
    `bottom` and `top` are lists of Blob. An exception of a method ends the call that runs the net
    with this exception.
    """

    def __init__(self, param=None):
        pass

    def setup(self, bottom, top):
        """Reads param_str and checks the bottoms. Called once."""

    def reshape(self, bottom, top):
        """Gives the tops their shapes: top[0].reshape(*sizes). Called before each forward."""

    def forward(self, bottom, top):
        """Writes top[..].data."""
        raise NotImplementedError(f"{type(self).__name__}.forward")

    def backward(self, top, propagate_down, bottom):
        """Writes bottom[i].diff where propagate_down[i] is true, and adds to blobs[..].diff."""


class Control:
    """What a callback of `train` may do between two iterations.

    Attributes:
      session: the Session.
      step: the Step that has just been computed.
      tests: by index of a test net, the results of its last test: list of (name, mean).
    """

    def __init__(self, session):
        self.session = session
        self.step = None
        self.tests = {}
        self._stops = False
        self._snapshots = False

    def stop(self):
        """Ends the training after this iteration."""
        self._stops = True

    def snapshot(self):
        """Writes a snapshot after this iteration."""
        self._snapshots = True


def train(solver_file, callback=None, *, test_interval=0, snapshot_interval=0, **options):
    """Trains as a solver file says and returns the Session, with the weights that it ends with.

    Args:
      solver_file: path of the solver's prototxt.
      callback: called as callback(control) after each iteration, with a Control: it can stop the
        training or ask for a snapshot, and the training waits for as long as it takes.
      test_interval: iterations between tests of all test nets; 0: none.
      snapshot_interval: iterations between snapshots; 0: none.
      options: of Session: weights, snapshot, topology, node, ...
    """
    session = Session(solver_file, **options)
    control = Control(session)
    try:
        while True:
            done = session.iteration
            if test_interval and done % test_interval == 0 and session.is_leader:
                control.tests = {i: session.test(i) for i in range(len(session.test_nets))}
            control.step = session.step()
            if control.step is None:
                break
            if callback is not None:
                callback(control)
            due = snapshot_interval and session.iteration % snapshot_interval == 0
            if due or control._snapshots:
                control._snapshots = False
                session.snapshot()
            if control._stops:
                break
    except BaseException:
        session.leave()
        raise
    if control._stops:
        session.leave()
    else:
        session.finish()
    return session


def __getattr__(name):
    if name == "torch":  # imported when it is first used, because it imports PyTorch
        return importlib.import_module(".torch", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
