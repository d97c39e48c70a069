"""pycaffe over Millrace: scripts written for Caffe's Python interface import this package.

docs/python.md says what is the same, what is new and what is missing.
"""
import warnings as _warnings

import millrace as _millrace
from millrace import Layer

from .proto import caffe_pb2 as _caffe_pb2
from .proto.caffe_pb2 import TEST, TRAIN
from .pycaffe import (AdaDeltaSolver, AdaGradSolver, AdamSolver, NesterovSolver, Net, NCCL,
                      RMSPropSolver, SGDSolver, Solver, Timer, get_solver, set_random_seed)
from . import coord_map, draw, io
from .classifier import Classifier
from .detector import Detector
from .net_spec import NetSpec, layers, params, to_proto

__version__ = "1.0.0"  # the version of Caffe whose interface this is


def set_mode_cpu():
    """Computes on the CPU, as always."""


def set_mode_gpu():
    """Accepted: nets in Python compute on the CPU all the same."""
    _warnings.warn("caffe.set_mode_gpu: nets in Python compute on the CPU (docs/python.md)",
                   stacklevel=2)


def set_device(device):
    """Accepted, without effect: nets in Python compute on the CPU."""


def layer_type_list():
    """The layer types of this build: a list of names."""
    return _millrace.layer_types()


def init_log(level=0, stderr=True):
    """Logs lines from `level` on: 0 information, 1 warnings, 2 errors."""
    _millrace.set_log_level(level, stderr)


def log(line):
    """Writes a line to the log."""
    _millrace.log(line)


def has_nccl():
    """False: a process in Python trains with one solver."""
    return False


def solver_count():
    """The number of solvers of this process."""
    return 1


def set_solver_count(count):
    """Accepts 1."""
    if count != 1:
        raise RuntimeError(f"set_solver_count: {count} given, expected 1: a cluster of "
                           "millrace.Session, or millrace train, has several solvers")


def solver_rank():
    """The number of this solver: 0."""
    return 0


def set_solver_rank(rank):
    """Accepts 0."""
    if rank != 0:
        raise RuntimeError(f"set_solver_rank: {rank} given, expected 0")


def set_multiprocess(multiprocess):
    """Accepts False."""
    if multiprocess:
        raise RuntimeError("set_multiprocess: expected False: several processes train as a "
                           "cluster of millrace.Session")
