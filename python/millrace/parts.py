"""Data sources, update rules, samplers, sync and stop conditions that are classes in Python.

Each is registered under a name, by which net and solver files choose it:

    @millrace.register_sampler("curriculum")
    class Curriculum(millrace.Sampler):
        parameters = {"share": 0.25}
        ...

Register classes before nets, sessions and runs that use them are made. A class that is registered
again under its name replaces the former one. An exception in a method ends the net or run that
calls it, as this exception and with its traceback; a millrace.Error in the constructor gets the
file and field in front of its text.
"""
from __future__ import annotations

import dataclasses
import math
from typing import Any, Callable, Mapping, Union

from . import _millrace


@dataclasses.dataclass(frozen=True)
class Parameter:
    """A number that files may set, passed to the constructor by its name.

    Attributes:
      default: None: the file has to set it.
      min, max: the range, both included.
      whole: whether it is a whole number, passed as an int. Without it, whether the default is.
    """

    default: float | None = None
    min: float = -math.inf
    max: float = math.inf
    whole: bool | None = None


Parameters = Mapping[str, Union[float, Parameter]]


class UpdateRule:
    """Base of update rules: how a solver changes its weights by gradients; `type` in solver files.

    The constructor gets a dict of the fields that the solver file sets ("momentum", ...), and the
    parameters by name, which the file sets by custom_param. It is also called to check a solver
    file.

    Attributes of the class:
      parameters: their defaults by name: numbers, Parameter, or texts.
      slots: numbers that the rule keeps per weight; snapshots save them.
      counts: whether it depends on the number of updates.
    """

    parameters: Mapping[str, float | str | Parameter] = {}
    slots = 0
    counts = False

    def __init__(self, settings: dict[str, Any], **parameters: Any) -> None:
        pass

    def apply(self, update: _millrace.Update) -> None:
        """Changes update.weights and update.history in place. Called for each parameter in each
        iteration. The arrays are copies; the change of the weights is then added to them, so that
        no concurrent change is lost."""
        raise NotImplementedError(f"{type(self).__name__}.apply")


class Sampler:
    """Base of samplers: the order in which a run reads its training data.

        sampler { type: "NAME" param { key: "share" value: 0.5 } }

    The constructor gets a SampledData, and the parameters by name.

    Attributes of the class:
      parameters: by name, numbers or Parameter.
      needs_labels: whether all records are read once at the start, for SampledData.labels.
    """

    parameters: Parameters = {}
    needs_labels = False

    def __init__(self, data: _millrace.SampledData, **parameters: float) -> None:
        pass

    def record(self, epoch: int, number: int) -> int:
        """The record that has `number`, from 0 to records - 1, in `epoch`: a function of the
        arguments and of what the constructor got alone. Several threads call it."""
        raise NotImplementedError(f"{type(self).__name__}.record")


class SyncCondition:
    """Base of sync conditions: when a solver merges its own weights with the shared ones.

        strategy { type: "local" sync_condition { type: "NAME" param { key: "above" value: 1 } } }

    The constructor gets the parameters by name. A class may also have these methods:
      merging(state): the solver merges, whatever asked for it.
      state(): what the condition has learned, always as many finite numbers, for snapshots.
      restore(numbers): a run that continues a snapshot gives them back.

    Attributes of the class:
      parameters: by name, numbers or Parameter.
      reads_weights: whether state.weights and state.base are used; else they are empty.
    """

    parameters: Parameters = {}
    reads_weights = True

    def __init__(self, **parameters: float) -> None:
        pass

    def fires(self, state: _millrace.SyncState) -> bool:
        """Whether the solver has to merge now. Called after each iteration of the solver."""
        raise NotImplementedError(f"{type(self).__name__}.fires")


class StopCondition:
    """Base of stop conditions: what ends a run before max_iter.

        stop_condition { type: "NAME" param { key: "tests" value: 5 } }

    The constructor gets the parameters by name. A class has one of these methods, or both, which
    return a text, why the run ends, or None:
      after_iteration(run): a RunProgress.
      after_test(test): TestedOutputs of one test net.

    Attributes of the class:
      parameters: by name, numbers or Parameter.
      needs_tests: whether a solver file without test nets cannot name it.
    """

    parameters: Parameters = {}
    needs_tests = False

    def __init__(self, **parameters: float) -> None:
        pass


def _number(name: str, given: float | Parameter) -> tuple[str, float, float, float, bool, bool]:
    parameter = given if isinstance(given, Parameter) else Parameter(given)
    whole = parameter.whole
    if whole is None:
        whole = isinstance(parameter.default, int)
    default = 0.0 if parameter.default is None else float(parameter.default)
    return (name, default, parameter.min, parameter.max, whole, parameter.default is None)


def _registering(register: Callable[[Any], None]) -> Callable[[Any], Any]:
    def decorate(registered: Any) -> Any:
        register(registered)
        return registered
    return decorate


def _kind(base: type, register: Callable[..., None], *traits: str) -> Callable[[str], Any]:
    def register_as(name: str) -> Callable[[Any], Any]:
        def add(given: Any) -> None:
            if not (isinstance(given, type) and issubclass(given, base)):
                raise TypeError(f"{name}: expected a class derived from millrace.{base.__name__}")
            numbers = [_number(*each) for each in given.parameters.items()]
            register(name, given, *(getattr(given, trait) for trait in traits), numbers)
        return _registering(add)
    register_as.__doc__ = f"""A decorator that registers a class derived from {base.__name__}."""
    return register_as


register_sampler = _kind(Sampler, _millrace.register_sampler, "needs_labels")
register_sync_condition = _kind(SyncCondition, _millrace.register_sync_condition, "reads_weights")
register_stop_condition = _kind(StopCondition, _millrace.register_stop_condition, "needs_tests")


def register_source(name: str) -> Callable[[Any], Any]:
    """A decorator that registers a type of data source: source: "NAME:PATH" in a Data layer.

    It is a class or function that is called with PATH and returns a sequence of records: an object
    with __len__ and __getitem__, as lists and the datasets of PyTorch are. A record is a pair of an
    array, of shape (channels, height, width), (height, width) or (channels,), and a label; or the
    bytes of a serialized Datum. Arrays of uint8 stay bytes, others become float32. Several threads
    read records.
    """
    return _registering(lambda given: _millrace.register_source(name, given))


def register_rule(name: str) -> Callable[[Any], Any]:
    """A decorator that registers a class derived from UpdateRule."""
    def add(given: Any) -> None:
        if not (isinstance(given, type) and issubclass(given, UpdateRule)):
            raise TypeError(f"{name}: expected a class derived from millrace.UpdateRule")
        texts = [(key, value) for key, value in given.parameters.items() if isinstance(value, str)]
        numbers = [_number(key, value) for key, value in given.parameters.items()
                   if not isinstance(value, str)]
        _millrace.register_rule(name, given, given.slots, given.counts, numbers, texts)
    return _registering(add)
