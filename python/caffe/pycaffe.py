"""The names of pycaffe's module of nets and solvers."""
from .net import Net, Timer, set_random_seed
from .parallel import NCCL
from .solver import (AdaDeltaSolver, AdaGradSolver, AdamSolver, NesterovSolver, RMSPropSolver,
                     SGDSolver, Solver, get_solver)
