"""A training loop of the program's own as a node of a cluster."""
from __future__ import annotations

import contextlib
import hashlib
import math
from os import PathLike
from types import TracebackType
from typing import Iterator, Protocol

import numpy as np
from numpy.typing import NDArray

from ._millrace import ClusterMember, Error

_ALIGNMENT = 64


def empty(shape: int | tuple[int, ...]) -> NDArray[np.float32]:
    """A float32 array of that shape for `stream`: aligned to 64 bytes, its values undefined."""
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    count = 4 * math.prod(sizes)
    memory = np.empty(count + _ALIGNMENT, np.uint8)
    begin = -memory.ctypes.data % _ALIGNMENT
    return memory[begin:begin + count].view(np.float32).reshape(sizes)


def layout_id(text: str) -> int:
    """The `layout` of an array whose contents the text describes."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


class _Node(Protocol):
    def finish(self) -> None: ...
    def leave(self) -> None: ...
    def fail(self, error: str) -> None: ...


def end_block(node: _Node, finishing: bool, error: BaseException | None) -> None:
    """Ends the part of a node in its cluster at the end of a `with` block, which `error` may have
    ended: `finish`, `fail`, or `leave` after a KeyboardInterrupt. `finishing`: `finish` was called.
    """
    if error is None:
        node.finish()
        return
    with contextlib.suppress(Error):  # the one that ends the block says more
        if isinstance(error, Exception) or finishing:
            node.fail(f"{type(error).__name__}: {error}")
        else:
            node.leave()


class Member(ClusterMember):
    """A node of a cluster around an array; `stream` makes it. One thread at a time uses it, except
    for `iterations`. In a `with` statement, an exception in the block is told to the other nodes
    (`fail`), or ends with `leave` if it is a KeyboardInterrupt; the end of the block is `finish`.
    """

    def __init__(self, array: NDArray[np.float32], topology: str | PathLike[str] | None = None,
                 node: str = "", layout: int = 0, iteration: int = 0, *, rendezvous: str = "",
                 nodes: str = "", scaling: str = "none", warmup: int = 0) -> None:
        super().__init__(array, topology, node, layout, iteration, rendezvous=rendezvous,
                         nodes=nodes, scaling=scaling, warmup=warmup)
        self._ended = False
        self._finishing = False
        self._updates = False
        self._copies: tuple[NDArray[np.float32], NDArray[np.float32]] | None = None

    @contextlib.contextmanager
    def update(self) -> Iterator[NDArray[np.float32]]:
        """Yields a copy of the array, for the block to change in place. Its end adds the change to
        the array as `add` does; after an exception in the block nothing is added."""
        if self._updates:
            raise Error("update: the block of another update has not ended")
        if self._copies is None:
            self._copies = (empty(self.array.shape), empty(self.array.shape))
        own, base = self._copies
        np.copyto(own, self.array)
        np.copyto(base, own)
        self._updates = True
        try:
            yield own
        finally:
            self._updates = False
        self.merge(own, base)

    def finish(self) -> None:
        """Waits until all nodes have called finish and have the same values, then leaves. Raises
        Error if they end with other values or one ended with values that are not finite. Ctrl-C
        ends the wait; `finish`, `leave` or `fail` may follow."""
        self._finishing = True
        super().finish()
        self._ended = True

    def leave(self) -> None:
        """Sends unsent progress, then leaves. The other nodes continue."""
        super().leave()
        self._ended = True

    def fail(self, error: str) -> None:
        """Tells the other nodes that this one has failed, and leaves."""
        super().fail(error)
        self._ended = True

    def __enter__(self) -> Member:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        if not self._ended:
            end_block(self, self._finishing, error)


def stream(array: NDArray[np.float32], *, topology: str | PathLike[str] | None = None,
           node: str = "", layout: int | str | None = None, iteration: int = 0,
           rendezvous: str = "", nodes: str = "", scaling: str = "none",
           warmup: int = 0) -> Member:
    """Makes an array part of a cluster: other nodes' progress is written into it at any time, and
    that of this node is sent to them.

        weights = millrace.empty(1000)
        with millrace.stream(weights, topology="pair.prototxt", node="a") as member:
            member.join()
            while member.iterations < 10000:
                member.add(-rate * gradient(weights))

    Args:
      array: float32, contiguous, writable, of `empty(shape)` or else aligned to 64 bytes. It is not
        copied. Change it only by `add`, `update` or `merge`; other changes may be lost.
      topology: path of a topology file (docs/topology.md).
      node: this node's name there; without a name, the rank of the launcher (mpirun, srun) chooses.
      layout: what the array contains, as a number or a text: nodes with another one are refused.
        Without it, the array's shape.
      iteration: iterations that the array has seen, if this node's values start the run.
      rendezvous, nodes: "etcd://HOST:PORT/RUN" and "MIN:MAX", for nodes that join and leave by a
        registry (docs/operations.md, "Elastic clusters"). The topology then has segments only, or
        is None, and the node has no name.
      scaling: "linear" (SGD) or "root" (Adam and the like) if the program multiplies its learning
        rate by `Member.rate_factor` in each iteration. Then three to 16 nodes average their
        progress, unless the topology says otherwise (docs/learning.md, "Merge rules"). The same on
        all nodes.
      warmup: iterations of all nodes in which the factor rises from 1; at least 100 for each unit.
    """
    if layout is None:
        layout = f"array {np.shape(array)}"
    if isinstance(layout, str):
        layout = layout_id(layout)
    return Member(array, topology, node, layout, iteration, rendezvous=rendezvous, nodes=nodes,
                  scaling=scaling, warmup=warmup)
