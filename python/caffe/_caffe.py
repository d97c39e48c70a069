"""The names of pycaffe's compiled module: scripts look at the types of what nets have."""
from millrace import Blob, Layer, layer_types as layer_type_list
from millrace._millrace import BlobVec

from .net import Net
from .parallel import (NCCL, has_nccl, set_multiprocess, set_solver_count, set_solver_rank,
                       solver_count, solver_rank)
from .solver import (AdaDeltaSolver, AdaGradSolver, AdamSolver, NesterovSolver, RMSPropSolver,
                     SGDSolver, Solver, get_solver)
