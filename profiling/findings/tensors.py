"""Sizes of the tensors that an op got, where shapes were recorded."""

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

from profiling.analysis import Activity, Forward, HostEvent
from profiling.trace import Event

_MOST_DIMS = 12
_BYTES_PER_ELEMENT = {
    "c10::BFloat16": 2,
    "c10::Half": 2,
    "float": 4,
    "double": 8,
    "bool": 1,
    "unsigned char": 1,
    "signed char": 1,
    "short": 2,
    "int": 4,
    "long": 8,
    "long int": 8,
}


@dataclass(frozen=True, slots=True)
class TensorArgument:
    """One tensor given to an op."""

    dims: tuple[int, ...]
    dtype: str
    bytes_per_element: int

    @property
    def elements(self) -> int:
        return prod(self.dims)

    @property
    def bytes(self) -> int:
        return self.elements * self.bytes_per_element


def tensor_arguments(event: Event) -> list[TensorArgument]:
    """The tensors among an op's inputs, in order; empty where shapes were not recorded."""
    dims, types = event.args.get("Input Dims"), event.args.get("Input type")
    if not isinstance(dims, list) or not isinstance(types, list):
        return []
    return [
        TensorArgument(tuple(shape), dtype, _BYTES_PER_ELEMENT[dtype])
        for shape, dtype in zip(dims, types, strict=False)
        if isinstance(dtype, str) and dtype in _BYTES_PER_ELEMENT and _is_shape(shape)
    ]


def _is_shape(value: object) -> bool:
    """A trace is a stranger's file: what no tensor can have is no shape."""
    return (
        isinstance(value, list)
        and 1 <= len(value) <= _MOST_DIMS
        and all(isinstance(extent, int) and 0 <= extent < 2**48 for extent in value)
    )


def launching_op(forward: Forward, activity: Activity) -> HostEvent | None:
    """The innermost op that was open on the launching thread."""
    launch = activity.launch
    if launch is None:
        return None
    around = [
        op
        for op in forward.ops
        if op.event.lane == launch.lane and op.event.start_ns <= launch.start_ns < op.event.end_ns
    ]
    return max(around, key=lambda op: op.depth, default=None)


def launching_ops(forwards: Iterable[Forward]) -> list[tuple[Activity, HostEvent]]:
    """Each GPU activity with the op that launched it, where there is one."""
    pairs = ((a, launching_op(forward, a)) for forward in forwards for a in forward.activities)
    return [(activity, op) for activity, op in pairs if op is not None]
