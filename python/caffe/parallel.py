"""Solvers of several processes of one machine that average their gradients, with the interface that
pycaffe has for NCCL."""
import secrets

from millrace._millrace import ProcessGroup

_count, _rank, _multiprocess = 1, 0, False


def has_nccl():
    """True: there is the class NCCL."""
    return True


def solver_count():
    """The number of solvers that train together."""
    return _count


def set_solver_count(count):
    """The number of solvers that train together, one in each process."""
    global _count
    if count < 1:
        raise RuntimeError(f"set_solver_count: {count} given, expected at least 1")
    _count = int(count)


def solver_rank():
    """The number of this process's solver, from 0."""
    return _rank


def set_solver_rank(rank):
    """The number of this process's solver, from 0. That of rank 0 tests, displays and saves."""
    global _rank
    if rank < 0:
        raise RuntimeError(f"set_solver_rank: {rank} given, expected at least 0")
    _rank = int(rank)


def multiprocess():
    """Whether solvers of several processes train together."""
    return _multiprocess


def set_multiprocess(value):
    """Whether each solver that is made from now on is one of solver_count(): it reads its part of
    the records, and has a seed of its own."""
    global _multiprocess
    _multiprocess = bool(value)


class NCCL:
    """A solver as one of solver_count() processes of this machine, made after set_multiprocess,
    set_solver_count and set_solver_rank. solver.add_callback(nccl) averages the gradients of all
    before each update, by shared memory, as the strategy allreduce does. All processes then have
    the same weights, and do the same number of steps.

    `uid`: of new_uid(), the same in all processes. Waits until all of them have come.
    """

    def __init__(self, solver, uid):
        uid = uid.decode() if isinstance(uid, bytes) else uid
        blobs = {blob.diff.ctypes.data: blob  # layers may share one
                 for layer in solver.net.params.values() for blob in layer}
        self._blobs = list(blobs.values())
        self._group = ProcessGroup(uid, _rank, _count, sum(blob.count for blob in self._blobs))

    @staticmethod
    def new_uid():
        """A name for a group of processes: bytes."""
        return secrets.token_hex(16).encode()

    def bcast(self):
        """Gives all processes the weights of rank 0."""
        self._group.broadcast([blob.data for blob in self._blobs])

    def _average(self):
        self._group.average([blob.diff for blob in self._blobs])
