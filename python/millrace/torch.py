"""Trains a PyTorch model as a node of a cluster, in the program's own loop.

    run = millrace.torch.join("pair.prototxt", node="a", model=model, optimizer=optimizer)
    while run.iterations < 10000:
        optimizer.zero_grad()
        loss(model(images), labels).backward()
        optimizer.step()
    run.finish()

docs/python.md says what is exchanged and when.
"""
from __future__ import annotations

import contextlib
import copy
import functools
import hashlib
import types
from os import PathLike
from typing import Any, Callable, Iterator

import numpy as np

try:
    import torch
except ModuleNotFoundError as error:
    raise ImportError("millrace.torch needs PyTorch: install python3-torch") from error

from ._millrace import Error
from .member import Member, empty, end_block, stream

_ALIGN = 16  # floats between the beginnings of two tensors, as of 64 bytes
_HALF = (torch.float16, torch.bfloat16)


def _is_dense(tensor: torch.Tensor) -> bool:
    """Whether the values fill a range of memory, in any order of the axes."""
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape)):
        if size > 1 and stride != expected:
            return False
        expected *= size
    return True


class _Slot:
    """A parameter or buffer of the model, and its place in the flat array."""

    def __init__(self, name: str, holder: dict[str, Any], key: str, offset: int) -> None:
        self.name, self.holder, self.key, self.offset = name, holder, key, offset
        self.tensor: torch.Tensor = holder[key]
        self.shape = tuple(self.tensor.shape)
        dense = _is_dense(self.tensor)
        self.stride = self.tensor.stride() if dense else torch.empty(self.shape).stride()
        self.is_half = self.tensor.dtype in _HALF
        self.is_variance = key == "running_var"  # of batch normalisation
        self.view = torch.empty(0)               # float32, in the flat array
        self.pointer = 0                         # of the tensor's memory, since join
        # The float32 parameter that the optimizer changes, of a half one.
        self.master: torch.nn.Parameter | None = None

    def of(self, flat: torch.Tensor) -> torch.Tensor:
        return flat.as_strided(self.shape, self.stride, self.offset)


def _tensors(model: torch.nn.Module) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Parameters and buffers of the model's state: name, and the dict that holds it with its key.
    The names are those of the model before torch.compile."""
    for prefix, module in model.named_modules():
        prefix = prefix.replace("_orig_mod.", "").replace("_orig_mod", "")
        for key in module._parameters:
            yield f"{prefix}.{key}".lstrip("."), module._parameters, key
        for key in module._buffers:
            if key not in module._non_persistent_buffers_set:
                yield f"{prefix}.{key}".lstrip("."), module._buffers, key


def _frozen_tensors(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """The parameters that do not train, by name."""
    return {name: holder[key] for name, holder, key in _tensors(model)
            if isinstance(holder[key], torch.nn.Parameter) and not holder[key].requires_grad}


def _digest(tensor: torch.Tensor) -> str:
    values = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
    return hashlib.blake2b(values.numpy().tobytes(), digest_size=8).hexdigest()


def _slots(model: torch.nn.Module, left_out: set[int]
           ) -> tuple[list[_Slot], dict[int, _Slot], int]:
    """The slots of tensors whose ids are not left out, the slot of each tensor by its id, and the
    size of the flat array."""
    slots: list[_Slot] = []
    by_id: dict[int, _Slot] = {}
    by_memory: dict[tuple[Any, ...], _Slot] = {}
    size = 0
    for name, holder, key in _tensors(model):
        tensor = holder[key]
        if tensor is None or id(tensor) in by_id or id(tensor) in left_out:
            continue
        if hasattr(tensor, "cls_to_become"):  # of a lazy module
            raise Error(f"{name}: not initialized, expected a forward pass of the model before")
        is_parameter = isinstance(tensor, torch.nn.Parameter)
        if tensor.dtype != torch.float32 and tensor.dtype not in _HALF:
            if is_parameter and (tensor.is_floating_point() or tensor.is_complex()):
                raise Error(f"{name}: {tensor.dtype} given, expected float32, bfloat16 or float16")
            continue  # each node's own
        if tensor.device.type != "cpu":
            raise Error(f"{name}: on {tensor.device}, expected a model on the CPU")
        memory = (tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), tensor.dtype)
        if tensor.numel() > 0 and memory in by_memory:  # tied by their memory
            slot = by_memory[memory]
            tied = _Slot(name, holder, key, slot.offset)
            slots.append(tied)
            by_id[id(tensor)] = tied
            continue
        slot = by_memory[memory] = by_id[id(tensor)] = _Slot(name, holder, key, size)
        slots.append(slot)
        size += -(-tensor.numel() // _ALIGN) * _ALIGN
    if size == 0:
        raise Error("model: expected a parameter that is float32, bfloat16 or float16")
    ends = sorted(((memory[0], memory[0] + slot.tensor.numel() * slot.tensor.element_size(), slot)
                  for memory, slot in by_memory.items() if slot.tensor.numel() > 0
                  and _is_dense(slot.tensor)), key=lambda each: each[:2])
    for (_, end, slot), (begin, _, following) in zip(ends, ends[1:]):
        if begin < end:
            raise Error(f"{following.name} shares a part of the memory of {slot.name}, expected "
                        "all of it or nothing")
    return slots, by_id, size


def _scaling(optimizer: torch.optim.Optimizer) -> str:
    """How the optimizer's learning rate grows with the nodes that average (`stream`)."""
    if isinstance(optimizer, torch.optim.LBFGS) or any("lr" not in group
                                                       for group in optimizer.param_groups):
        return "none"
    return "linear" if isinstance(optimizer, torch.optim.SGD) else "root"


class Run:
    """A node of a cluster that trains a model; `join` makes it. One thread at a time uses it and
    its optimizer, except for `iterations`. In a `with` statement, an exception in the block is told
    to the other nodes, or ends with `leave` if it is a KeyboardInterrupt; the end of the block is
    `finish`.

    Attributes:
      model: the program's model. Its parameters and buffers lie in one array.
      optimizer: the program's optimizer. Each `step` also sends its change to the other nodes and
        takes theirs; it does not wait for the network.
    """

    def __init__(self, cluster: dict[str, Any], model: torch.nn.Module,
                 optimizer: torch.optim.Optimizer, iteration: int,
                 state: dict[str, Any] | None, frozen: bool, seconds: float) -> None:
        former = getattr(optimizer.step, "_millrace_run", None)
        if former is not None:
            if not former._ended:
                raise Error("optimizer: in a run already, expected one whose runs have ended")
            setattr(optimizer, "step", former._plain_step)
        if state is not None:
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(copy.deepcopy(state["optimizer"]))
            iteration = state["iterations"]
        self.model, self.optimizer = model, optimizer
        self._ended = False
        self._keeps = False  # steps of this node alone, counted and not merged yet
        self._frozen = {} if frozen else _frozen_tensors(model)
        left_out = {id(tensor) for tensor in self._frozen.values()}
        self._slots, self._by_id, size = _slots(model, left_out)
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if id(parameter) not in self._by_id and id(parameter) not in left_out:
                    raise Error(f"optimizer: a parameter of shape {tuple(parameter.shape)} is not "
                                "one of the model's")
        # What the segments write; what the model has; what it had after the last step.
        self._shared, self._own, self._base = (empty(size) for _ in range(3))
        for array in (self._shared, self._own, self._base):
            array[...] = 0  # also between tensors
        flat = torch.from_numpy(self._own)
        for slot in self._slots:
            slot.view = slot.of(flat)
            slot.view.copy_(slot.tensor.detach())
        if state is not None:
            self._load_halves(state["model"])
        np.copyto(self._shared, self._own)
        layout = "".join(f"{slot.name} {slot.shape} {slot.stride} {slot.offset}\n"
                         for slot in self._slots)
        layout += "".join(f"{name} {tuple(tensor.shape)} {_digest(tensor)}\n"
                          for name, tensor in self._frozen.items())
        self._member: Member = stream(self._shared, layout=layout, iteration=iteration,
                                      scaling=_scaling(optimizer), **cluster)
        self._member.join(seconds)
        self._read()
        for slot in self._slots:
            if not slot.is_half:
                slot.tensor.data = slot.view
            slot.pointer = slot.tensor.data_ptr()
        self._swap_masters(True)
        self._replace_step()

    @property
    def iterations(self) -> int:
        """Steps of all nodes, with those before the run. Any thread."""
        return self._member.iterations

    @property
    def nodes(self) -> int:
        """Nodes that are in sync, with this one."""
        return self._member.nodes

    @property
    def is_leader(self) -> bool:
        """Whether this node is the one that tests and saves for all."""
        return self._member.is_leader

    def merged_state_dict(self) -> dict[str, Any]:
        """The model's state with the values that all nodes agree on, without unsent progress of
        this node: a copy to test or save. After the end of the run, its last values."""
        if self._ended:
            return self._state(self._own)
        self._merge_kept()
        return self._state(self._member.merged())

    def state_dict(self) -> dict[str, Any]:
        """What continues this run: model and optimizer of this node, and the iterations. Give it to
        `join` as `state`."""
        return {"model": self._state(self._own),
                "optimizer": copy.deepcopy(self.optimizer.state_dict()),
                "iterations": self.iterations}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Sets model and optimizer; the next step tells the others. Only while this node is alone:
        else the weights are those of all nodes. `iterations` goes on."""
        if self.nodes != 1:
            raise Error(f"load_state_dict: {self.nodes} nodes are in sync, expected this node "
                        "alone; join the run's model instead")
        self.optimizer.load_state_dict(copy.deepcopy(state["optimizer"]))
        self.model.load_state_dict(state["model"])
        self._load_halves(state["model"])

    def finish(self) -> None:
        """Waits until all nodes have called finish, and leaves with the same weights on all."""
        self._merge_kept()
        self._end(self._member.finish)

    def leave(self) -> None:
        """Sends unsent progress, then leaves. The other nodes continue."""
        self._merge_kept()
        self._end(self._member.leave)

    def fail(self, error: str) -> None:
        """Tells the other nodes that this one has failed, and leaves."""
        self._end(lambda: self._member.fail(error))

    def __enter__(self) -> Run:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: types.TracebackType | None) -> None:
        if not self._ended:
            end_block(self, self._member._finishing, error)

    def _end(self, call: Callable[[], None]) -> None:
        try:
            call()
        except Error:
            self._close()
            raise
        self._close()

    def _close(self) -> None:
        if not self._ended:
            self._ended = True
            self._read()
            self._swap_masters(False)
            setattr(self.optimizer, "zero_grad", self._plain_zero_grad)

    def _state(self, values: np.ndarray[Any, np.dtype[np.float32]]) -> dict[str, Any]:
        """A copy of the model's state with the values of a flat array."""
        flat = torch.from_numpy(values)
        state = self.model.state_dict(keep_vars=True)
        for key, tensor in state.items():
            slot = self._by_id.get(id(tensor))
            if slot is not None:
                state[key] = slot.of(flat).clone()
            elif isinstance(tensor, torch.Tensor):
                state[key] = tensor.detach().clone()
        return state

    def _load_halves(self, state: dict[str, Any]) -> None:
        """Takes the float32 values of half tensors, which the model has loaded rounded."""
        for key, tensor in self.model.state_dict(keep_vars=True).items():
            slot = self._by_id.get(id(tensor))
            if slot is not None and slot.is_half:
                slot.view.copy_(state[key])

    def _read(self) -> None:
        """Gives the model what the segments have written."""
        np.copyto(self._own, self._shared)
        np.copyto(self._base, self._own)
        self._write_model()

    @torch.no_grad()
    def _write_model(self) -> None:
        for slot in self._slots:
            # The sum of several nodes' changes may be below zero.
            if slot.is_variance:
                slot.view.clamp_(min=0)
            if slot.is_half:
                slot.tensor.copy_(slot.view)

    @torch.no_grad()
    def _merge(self) -> None:
        for name, tensor in self._frozen.items():
            if tensor.requires_grad:
                raise Error(f"{name}: was frozen at join and is not exchanged, expected "
                            "join(..., frozen=True)")
        for slot in self._slots:
            if slot.holder.get(slot.key) is not slot.tensor or (
                    slot.tensor.data_ptr() != slot.pointer):
                raise Error(f"{slot.name}: replaced or moved since join (model.to, .data = ...), "
                            "expected the tensor that join has placed")
            if slot.is_half and slot.master is None:
                same = slot.tensor == slot.view.to(slot.tensor.dtype)
                slot.view.copy_(torch.where(same, slot.view, slot.tensor.float()))
        if self._member.count_alone():
            self._keeps = True
            self._write_model()
        else:
            self._exchange(1)

    def _merge_kept(self) -> None:
        if self._keeps:
            self._exchange(0)

    def _exchange(self, iterations: int) -> None:
        """Merges steps of which so many are not counted yet."""
        self._keeps = False
        try:
            self._member.merge(self._own, self._base, iterations)
        except Error as error:
            bad = [slot.name for slot in self._slots if not bool(torch.isfinite(slot.view).all())]
            if bad:
                with contextlib.suppress(Error):
                    self.fail("a value that is not finite")  # merge has published it
                raise Error(f"{bad[0]}: the step has made a value that is not finite; the run ends "
                            "for all nodes") from error
            raise
        self._write_model()

    def _swap_masters(self, begins: bool) -> None:
        """Lets the optimizer change float32 copies of half parameters, or the parameters again."""
        new: dict[int, torch.Tensor] = {}
        for slot in self._slots:
            if not slot.is_half or not isinstance(slot.tensor, torch.nn.Parameter):
                continue
            if begins:
                slot.master = torch.nn.Parameter(slot.view, slot.tensor.requires_grad)
                new[id(slot.tensor)] = slot.master
            else:
                new[id(slot.master)] = slot.tensor
        optimized: set[int] = set()
        for group in self.optimizer.param_groups:
            for i, before in enumerate(group["params"]):
                after = new.get(id(before))
                if after is None:
                    continue
                optimized.add(id(before))
                group["params"][i] = after
                if before in self.optimizer.state:
                    self.optimizer.state[after] = {
                        key: value.to(after.dtype) if isinstance(value, torch.Tensor)
                        and value.shape == after.shape else value
                        for key, value in self.optimizer.state.pop(before).items()}
        for slot in self._slots:
            if not begins or id(slot.tensor) not in optimized:
                slot.master = None

    def _take_gradients(self) -> None:
        for slot in self._slots:
            if slot.master is not None:
                gradient = slot.tensor.grad
                slot.master.grad = None if gradient is None else gradient.float()

    @contextlib.contextmanager
    def _scaled_rates(self) -> Iterator[None]:
        """Multiplies the learning rates by the factor of this moment, for one step: what else the
        program and its schedulers read and write are its own."""
        factor = self._member.rate_factor
        groups = self.optimizer.param_groups if factor != 1 else []
        given = [group["lr"] for group in groups]
        for group in groups:
            group["lr"] = group["lr"] * factor
        try:
            yield
        finally:
            for group, rate in zip(groups, given):
                group["lr"] = rate

    def _replace_step(self) -> None:
        """Makes step, which schedulers and scalers may hold or wrap, part of the run."""
        plain = self._plain_step = self.optimizer.step
        plain_zero = self._plain_zero_grad = self.optimizer.zero_grad

        def closed(closure: Callable[[], Any]) -> Callable[[], Any]:
            def call() -> Any:
                self._write_model()  # the optimizer may have changed the masters
                loss = closure()
                self._take_gradients()
                return loss
            return call

        @functools.wraps(plain)
        def step(optimizer: torch.optim.Optimizer, closure: Callable[[], Any] | None = None,
                 *args: Any, **kwargs: Any) -> Any:
            if self._ended:
                raise Error("step: the run has ended, expected a step before finish, leave or fail")
            if closure is not None:
                args = (closed(closure),) + args
            else:
                self._take_gradients()
            with self._scaled_rates():
                loss = plain(*args, **kwargs)
            self._merge()
            return loss

        @functools.wraps(plain_zero)
        def zero_grad(optimizer: torch.optim.Optimizer, *args: Any, **kwargs: Any) -> None:
            plain_zero(*args, **kwargs)
            for slot in self._slots:
                if slot.master is not None:
                    slot.tensor.grad = None

        setattr(step, "_millrace_run", self)
        # Bound methods, as schedulers expect.
        setattr(self.optimizer, "step", types.MethodType(step, self.optimizer))
        if any(slot.master is not None for slot in self._slots):
            setattr(self.optimizer, "zero_grad", types.MethodType(zero_grad, self.optimizer))


def join(topology: str | PathLike[str] | None = None, *, model: torch.nn.Module,
         optimizer: torch.optim.Optimizer, node: str = "", iteration: int = 0,
         state: dict[str, Any] | None = None, frozen: bool = False, seconds: float = 60,
         rendezvous: str = "", nodes: str = "", warmup: int = 0) -> Run:
    """Makes a model part of a cluster's run. If other nodes train already, the model takes their
    weights; else the run begins with the model's. Nodes with other parameters are refused.

    Args:
      topology: path of a topology file (docs/topology.md).
      model: on the CPU; parameters of float32, bfloat16 or float16. They move into one array: the
        tensors stay the same, their memory does not.
      optimizer: over parameters of the model. Its `step` becomes a part of the run.
      node: this node's name in the file; without it, the rank of the launcher chooses.
      iteration: steps that the weights have seen, if this node's weights begin the run.
      state: of `Run.state_dict`, to continue: loads model, optimizer and iteration before.
      frozen: exchange parameters without requires_grad too, which may train later. Otherwise they
        are each node's own, and nodes where they have other values are refused.
      seconds: longest wait for the run's weights.
      rendezvous, nodes: "etcd://HOST:PORT/RUN" and "MIN:MAX", for nodes that join and leave by a
        registry (docs/operations.md, "Elastic clusters"). The topology then has segments only, or
        is None, and the node has no name.
      warmup: steps of all nodes in which the factor of the learning rate rises, where three to 16
        nodes average their progress (docs/python.md, "Learning rates"); at least 100 for each unit.
    """
    cluster = {"topology": topology, "node": node, "rendezvous": rendezvous, "nodes": nodes,
               "warmup": warmup}
    return Run(cluster, model, optimizer, iteration, state, frozen, seconds)
