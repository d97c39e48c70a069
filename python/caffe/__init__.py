"""pycaffe over Millrace: scripts written for Caffe's Python interface import this package.

docs/python.md says what is the same, what is new and what is missing.
"""
import warnings as _warnings

import millrace as _millrace
from millrace import Layer

from .proto import caffe_pb2 as _caffe_pb2
from .proto.caffe_pb2 import TEST, TRAIN
from .net import Net, Timer, set_random_seed
from .parallel import (NCCL, has_nccl, set_multiprocess, set_solver_count, set_solver_rank,
                       solver_count, solver_rank)
from .solver import (AdaDeltaSolver, AdaGradSolver, AdamSolver, NesterovSolver, RMSPropSolver,
                     SGDSolver, Solver, get_solver)
from ._caffe import layer_type_list
from . import _caffe, coord_map, draw, io, pycaffe, solver as _solver
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


def init_log(level=0, stderr=True):
    """Logs lines from `level` on: 0 information, with the solvers' loss and tests, 1 warnings,
    2 errors."""
    _solver.set_log_level(level)
    _millrace.set_log_level(level, stderr)


def log(line):
    """Writes a line to the log."""
    _millrace.log(line)
