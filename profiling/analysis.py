"""From a trace to answers: what one forward costs, and which op caused each GPU activity.

A GPU activity belongs to the forward whose annotation was open when its launch call was made,
joined by correlation id. Dividing all GPU events by the number of forwards is wrong: kernels of
warm-up forwards that still run when recording starts appear in the trace too.
"""

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import fmean
from typing import Any, Literal

from profiling import kernel_names
from profiling.occupancy import Occupancy, kernel_occupancy, launch_footprint, limits_for
from profiling.roles import Role, first_softmax_ns, role_of, step_of
from profiling.trace import Device, Event, Trace

ANNOTATION = "attn_fwd"

# Calls that put work on a GPU. Only used to count launches that left no record: joining is by
# correlation, whatever the call is named.
_LAUNCH = re.compile(
    r"(cuda|cu|hip)"
    r"((Drv|Ext|Graph|Module)*Launch(?!HostFunc)|Mem(cpy|set)\w*(Async|WithStream))"
)

_STEP = "ProfilerStep"


@dataclass(frozen=True, slots=True)
class Region:
    """What was analysed: the named annotation, else each ProfilerStep, else the whole trace."""

    kind: Literal["annotation", "profiler_step", "whole_trace"]
    name: str
    count: int


@dataclass(frozen=True, slots=True)
class Activity:
    """A kernel, copy or memset, with the call that launched it and the ops that caused it."""

    event: Event
    launch: Event | None
    caused_by: tuple[str, ...]
    role: Role
    occupancy: Occupancy | None


@dataclass(frozen=True, slots=True)
class HostEvent:
    """A CPU op (`depth` 0 is outermost) or, with depth -1, a runtime or driver call."""

    event: Event
    depth: int
    role: Role
    caused_by: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Forward:
    """One forward: its window on the CPU and everything that ran in it or was launched from it."""

    start_ns: int
    end_ns: int
    ops: tuple[HostEvent, ...]
    calls: tuple[HostEvent, ...]
    activities: tuple[Activity, ...]


@dataclass(frozen=True, slots=True)
class PerForward:
    """Means over the forwards. GPU fields are None where the trace has no GPU at all."""

    kernels: float | None
    memcpys: float | None
    memsets: float | None
    gpu_busy_us: float | None
    gpu_span_us: float | None
    gpu_idle_us: float | None
    cpu_time_us: float | None
    launch_api_us: float | None


@dataclass(frozen=True, slots=True)
class KernelRow:
    """All GPU activities of one name, footprint and cause."""

    name: str
    short_name: str
    kind: Literal["kernel", "memcpy", "memset"]
    family: str
    role: Role
    library: str
    uses_tensor_cores: bool | None
    dtype: str | None
    count_per_forward: float
    mean_us: float
    share_pct: float
    launch_api: str | None
    caused_by: tuple[str, ...]
    registers_per_thread: int | None
    shared_memory_bytes: int | None
    block: tuple[int, ...] | None
    grid: tuple[int, ...] | None
    bytes: int | None
    occupancy: Occupancy | None


@dataclass(frozen=True, slots=True)
class OpRow:
    """A CPU op of one name and cause; `self_us` leaves out the ops inside it."""

    name: str
    role: Role
    count_per_forward: float
    total_us: float
    self_us: float


@dataclass(frozen=True, slots=True)
class OccupancySummary:
    """Occupancy of a run, weighted by kernel time, with its range and the dominant kernel."""

    theoretical_pct: float
    lowest_pct: float
    highest_pct: float
    reported_pct: float | None
    dominant_kernel: str


@dataclass(frozen=True, slots=True)
class HostTime:
    """Where the annotated host time of a forward goes; means in microseconds."""

    python_us: float | None
    ops_us: float | None
    launch_api_us: float | None


@dataclass(frozen=True, eq=False)
class Analysis:
    """Everything that is said of one trace."""

    device: Device
    region: Region
    forwards: tuple[Forward, ...]
    per_forward: PerForward
    kernels: tuple[KernelRow, ...]
    ops: tuple[OpRow, ...]
    host: HostTime
    occupancy: OccupancySummary | None
    unattributed_activities: int
    launches_without_kernel: int
    warnings: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """Every launch inside the region has its record on the GPU."""
        return self.launches_without_kernel == 0


def analyse(trace: Trace, annotation: str = ANNOTATION) -> Analysis:
    """Analyse each forward that `annotation` encloses; see Region for what is taken without one."""
    region, windows = _region(trace, annotation)
    calls = {
        event.correlation: event
        for event in reversed(trace.in_category("api"))
        if event.correlation
    }
    host_events = trace.in_category("op", "annotation", "api")
    insides = [_inside(window, host_events) for window in windows]
    gpu_events = trace.in_category("kernel", "memcpy", "memset")
    owned = _owned(gpu_events, calls, insides, region)
    launched = {event.correlation for event in gpu_events}
    forwards = tuple(
        _forward(window, inside, owned[index], calls, trace.devices)
        for index, (window, inside) in enumerate(zip(windows, insides, strict=True))
    )
    has_gpu = bool(gpu_events) or any(is_launch(call) for call in calls.values())
    unmatched = sum(
        1
        for forward in forwards
        for call in forward.calls
        if is_launch(call.event) and call.event.correlation not in launched
    )
    kernels = _kernel_rows(forwards)
    return Analysis(
        device=_main_device(trace, gpu_events),
        region=region,
        forwards=forwards,
        per_forward=_per_forward(forwards, has_gpu, region),
        kernels=kernels,
        ops=_op_rows(forwards),
        host=_host_time(forwards, has_gpu, region),
        occupancy=_occupancy_summary(kernels),
        unattributed_activities=len(gpu_events) - sum(map(len, owned.values())),
        launches_without_kernel=unmatched,
        warnings=trace.warnings,
    )


def union_ns(intervals: Iterable[tuple[int, int]]) -> int:
    """Length covered by (start, end) intervals, counting overlaps once."""
    covered, reach = 0, None
    for start, end in sorted(intervals):
        if reach is None or start > reach:
            covered, reach = covered + end - start, end
        elif end > reach:
            covered, reach = covered + end - reach, end
    return covered


@dataclass(frozen=True, slots=True)
class _Window:
    start_ns: int
    end_ns: int
    lane: tuple[str, str] | None
    name: str

    def holds(self, event: Event) -> bool:
        """Calls count from any thread of the process: autograd launches from its own."""
        same_process = self.lane is None or event.lane[0] == self.lane[0]
        return same_process and self.start_ns <= event.start_ns < self.end_ns


def _region(trace: Trace, annotation: str) -> tuple[Region, list[_Window]]:
    marks = trace.in_category("annotation", "op")  # PyTorch 1.8 writes both as operators
    named = _outermost([mark for mark in marks if mark.name == annotation])
    if named:
        return Region("annotation", annotation, len(named)), named
    steps = _outermost([mark for mark in marks if _label(mark) == _STEP])
    if steps:
        return Region("profiler_step", _STEP, len(steps)), steps
    if not trace.events:
        return Region("whole_trace", "whole trace", 0), []
    start = trace.events[0].start_ns
    end = max(event.end_ns for event in trace.events) + 1
    return Region("whole_trace", "whole trace", 1), [_Window(start, end, None, "whole trace")]


def _label(event: Event) -> str:
    """The event's name; steps lose their number, so that they compare."""
    return _STEP if event.name.startswith(f"{_STEP}#") else event.name


def _outermost(marks: Sequence[Event]) -> list[_Window]:
    """Windows of the marks that lie in no other mark of the same thread."""
    windows: list[_Window] = []
    reach_ns: dict[tuple[str, str], int] = {}
    for mark in marks:
        if mark.end_ns > reach_ns.get(mark.lane, mark.start_ns - 1):
            windows.append(_Window(mark.start_ns, mark.end_ns, mark.lane, _label(mark)))
            reach_ns[mark.lane] = mark.end_ns
    return windows


def _inside(window: _Window, host_events: Sequence[Event]) -> list[Event]:
    first = bisect_left(host_events, window.start_ns, key=_start_ns)
    last = bisect_left(host_events, window.end_ns, key=_start_ns)
    return [event for event in host_events[first:last] if window.holds(event)]


def _start_ns(event: Event) -> int:
    return event.start_ns


def _owned(
    gpu_events: Sequence[Event],
    calls: dict[int, Event],
    insides: Sequence[Sequence[Event]],
    region: Region,
) -> dict[int, list[Event]]:
    """GPU activities by the index of the window in which they were launched."""
    owners: dict[int, int] = {}
    for index, inside in enumerate(insides):
        for call in inside:
            owners.setdefault(id(call), index)
    owned: dict[int, list[Event]] = defaultdict(list)
    for event in gpu_events:
        owner = 0 if region.kind == "whole_trace" else owners.get(id(_call(event, calls)))
        if owner is not None:
            owned[owner].append(event)
    return owned


def _call(event: Event, calls: dict[int, Event]) -> Event | None:
    return calls.get(event.correlation or 0)


def _main_device(trace: Trace, gpu_events: Sequence[Event]) -> Device:
    """The GPU of the first activity; a machine can list others."""
    if gpu_events:
        return _device(gpu_events[0], trace.devices)
    return Device("CPU" if trace.events else None, None, None)


def _device(event: Event, devices: dict[str, Device]) -> Device:
    index = str(event.args.get("device", event.lane[0]))
    return devices.get(index, Device(None, None, None))


def _forward(
    window: _Window,
    inside: Sequence[Event],
    gpu_events: Sequence[Event],
    calls: dict[int, Event],
    devices: dict[str, Device],
) -> Forward:
    parents = _nesting(inside, window)
    # The region's own name, which a user chose, tells nothing of the step.
    steps = {
        id(event): step_of((*parents[id(event)][1:], event.name))
        for event in inside
        if parents[id(event)]
    }
    launches = {id(event): _call(event, calls) for event in gpu_events}
    chains = {id(event): parents.get(id(launches[id(event)]), ()) for event in gpu_events}
    gpu_steps = {id(event): step_of(chains[id(event)][1:], event.name) for event in gpu_events}

    def host_ns(event: Event) -> int:
        launch = launches[id(event)]
        return launch.start_ns if launch else event.start_ns

    softmax_ns = first_softmax_ns(
        [(steps.get(id(event)), event.start_ns) for event in inside]
        + [(gpu_steps[id(event)], host_ns(event)) for event in gpu_events]
    )

    def host_event(event: Event, depth: int) -> HostEvent:
        role = role_of(steps[id(event)], event.start_ns, softmax_ns)
        return HostEvent(event, depth, role, parents[id(event)])

    return Forward(
        start_ns=window.start_ns,
        end_ns=window.end_ns,
        ops=tuple(
            host_event(event, len(parents[id(event)]) - 1)
            for event in inside
            if event.category in ("op", "annotation") and parents[id(event)]
        ),
        calls=tuple(host_event(event, -1) for event in inside if event.category == "api"),
        activities=tuple(
            Activity(
                event=event,
                launch=launches[id(event)],
                caused_by=chains[id(event)],
                role=role_of(gpu_steps[id(event)], host_ns(event), softmax_ns),
                occupancy=_activity_occupancy(event, _device(event, devices)),
            )
            for event in gpu_events
        ),
    )


def _nesting(events: Sequence[Event], window: _Window) -> dict[int, tuple[str, ...]]:
    """Names of the events around each event, outermost first, starting with the region's own name.

    With stacks recorded, annotations and Python frames can overlap in part: only a full enclosure
    makes a parent.
    """
    chains: dict[int, tuple[str, ...]] = {}
    for _, lane_events in groupby(sorted(events, key=lambda e: e.lane), key=lambda e: e.lane):
        open_events: list[Event] = []
        for event in lane_events:
            open_events = [outer for outer in open_events if outer.end_ns > event.start_ns]
            around = [_label(outer) for outer in open_events if outer.end_ns >= event.end_ns]
            is_region = event.category != "api" and _label(event) == window.name
            if not is_region and around[:1] != [window.name]:
                around.insert(0, window.name)
            chains[id(event)] = tuple(around)
            if event.category in ("op", "annotation"):
                open_events.append(event)
    return chains


def _activity_occupancy(event: Event, device: Device) -> Occupancy | None:
    if event.category != "kernel" or device.compute_capability is None:
        return None
    args = event.args
    return kernel_occupancy(
        launch_footprint(
            args.get("registers per thread"), args.get("block"), args.get("shared memory")
        ),
        limits_for(device.compute_capability),
        grid=args.get("grid"),
        sm_count=device.sm_count,
        reported_pct=args.get("est. achieved occupancy %"),
    )


def _per_forward(forwards: Sequence[Forward], has_gpu: bool, region: Region) -> PerForward:
    def count(kind: str) -> float | None:
        return _mean([sum(a.event.category == kind for a in f.activities) for f in forwards])

    intervals = [[(a.event.start_ns, a.event.end_ns) for a in f.activities] for f in forwards]
    busy = [union_ns(spans) / 1000 for spans in intervals]
    span = [(max(e for _, e in s) - min(b for b, _ in s)) / 1000 if s else 0.0 for s in intervals]
    return PerForward(
        kernels=count("kernel") if has_gpu else None,
        memcpys=count("memcpy") if has_gpu else None,
        memsets=count("memset") if has_gpu else None,
        gpu_busy_us=_mean(busy) if has_gpu else None,
        gpu_span_us=_mean(span) if has_gpu else None,
        gpu_idle_us=_mean([s - b for s, b in zip(span, busy, strict=True)]) if has_gpu else None,
        cpu_time_us=_mean([(f.end_ns - f.start_ns) / 1000 for f in forwards])
        if region.kind != "whole_trace"
        else None,
        launch_api_us=_mean([_launch_ns(f) / 1000 for f in forwards]) if has_gpu else None,
    )


def _host_time(forwards: Sequence[Forward], has_gpu: bool, region: Region) -> HostTime:
    ops, python = [], []
    for forward in forwards:
        launch_ns = _launch_ns(forward)
        op_events = [o.event for o in forward.ops if o.event.category == "op"]
        inside = _covered_ns(forward, op_events + [c.event for c in forward.calls])
        ops.append((inside - launch_ns) / 1000)
        python.append((forward.end_ns - forward.start_ns - inside) / 1000)
    launch = _mean([_launch_ns(f) / 1000 for f in forwards]) if has_gpu else None
    whole = region.kind == "whole_trace"
    return HostTime(None if whole else _mean(python), _mean(ops), launch)


def _covered_ns(forward: Forward, events: Iterable[Event]) -> int:
    return union_ns((event.start_ns, min(event.end_ns, forward.end_ns)) for event in events)


def _launch_ns(forward: Forward) -> int:
    """Time inside runtime and driver calls that put work on the GPU."""
    return _covered_ns(forward, [c.event for c in forward.calls if is_launch(c.event)])


def is_launch(call: Event) -> bool:
    """Whether a runtime or driver call puts work (a kernel, copy, fill or graph) on the GPU."""
    return _LAUNCH.match(call.name) is not None


def _kernel_rows(forwards: Sequence[Forward]) -> tuple[KernelRow, ...]:
    """One row per name, footprint and cause, in the order in which they first run."""
    groups: dict[tuple[Any, ...], list[Activity]] = defaultdict(list)
    for forward in forwards:
        for activity in sorted(forward.activities, key=lambda a: a.event.start_ns):
            groups[_identity(activity)].append(activity)
    total_ns = sum(a.event.dur_ns for group in groups.values() for a in group)
    return tuple(_kernel_row(group, len(forwards), total_ns) for group in groups.values())


def _identity(activity: Activity) -> tuple[Any, ...]:
    event = activity.event
    footprint = (_dims(event, "block"), _dims(event, "grid"), _integer(event, "shared memory"))
    return (event.name, event.category, activity.role, activity.caused_by, footprint)


def _kernel_row(group: Sequence[Activity], forwards: int, total_ns: int) -> KernelRow:
    first = group[0]
    event = first.event
    named = kernel_names.decode(event.name)
    busy_ns = sum(a.event.dur_ns for a in group)
    kind: Any = event.category
    return KernelRow(
        name=event.name,
        short_name=named.short,
        kind=kind,
        family=named.family,
        role=first.role,
        library=named.library,
        uses_tensor_cores=named.uses_tensor_cores,
        dtype=named.dtype,
        count_per_forward=len(group) / forwards,
        mean_us=busy_ns / len(group) / 1000,
        share_pct=100 * busy_ns / total_ns if total_ns else 0.0,
        launch_api=first.launch.name if first.launch else None,
        caused_by=first.caused_by,
        registers_per_thread=_integer(event, "registers per thread"),
        shared_memory_bytes=_integer(event, "shared memory"),
        block=_dims(event, "block"),
        grid=_dims(event, "grid"),
        bytes=_integer(event, "bytes"),
        occupancy=first.occupancy,
    )


def _op_rows(forwards: Sequence[Forward]) -> tuple[OpRow, ...]:
    groups: dict[tuple[str, Role], list[tuple[int, int]]] = defaultdict(list)
    for forward in forwards:
        for op, self_ns in _self_times(forward.ops):
            groups[op.event.name, op.role].append((op.event.dur_ns, self_ns))
    rows = [
        OpRow(
            name=name,
            role=role,
            count_per_forward=len(times) / len(forwards),
            total_us=sum(total for total, _ in times) / len(forwards) / 1000,
            self_us=sum(own for _, own in times) / len(forwards) / 1000,
        )
        for (name, role), times in groups.items()
    ]
    return tuple(sorted(rows, key=lambda row: -row.self_us))


def _self_times(ops: Sequence[HostEvent]) -> list[tuple[HostEvent, int]]:
    """Each op with its time less that of the ops directly inside it."""
    inner_ns: dict[int, int] = defaultdict(int)
    open_ops: dict[tuple[str, str], list[HostEvent]] = defaultdict(list)
    for op in ops:
        stack = open_ops[op.event.lane]
        while stack and stack[-1].event.end_ns < op.event.end_ns:
            stack.pop()
        if stack:
            inner_ns[id(stack[-1])] += op.event.dur_ns
        stack.append(op)
    return [(op, max(0, op.event.dur_ns - inner_ns[id(op)])) for op in ops]


def _occupancy_summary(rows: Sequence[KernelRow]) -> OccupancySummary | None:
    """Weighted by time over the kernels whose occupancy is known."""
    known = [(row, row.occupancy) for row in rows if row.occupancy]
    weights = [row.mean_us * row.count_per_forward for row, _ in known]
    total = sum(weights)
    if not total:
        return None
    reported = [o.reported_pct for _, o in known]
    values = [o.theoretical_pct for _, o in known]
    has_reported = all(value is not None for value in reported)
    return OccupancySummary(
        theoretical_pct=sum(w * v for w, v in zip(weights, values, strict=True)) / total,
        lowest_pct=min(values),
        highest_pct=max(values),
        reported_pct=sum(w * (v or 0.0) for w, v in zip(weights, reported, strict=True)) / total
        if has_reported
        else None,
        dominant_kernel=max(zip(weights, known, strict=True), key=lambda pair: pair[0])[1][0].name,
    )


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None


def _dims(event: Event, key: str) -> tuple[int, ...] | None:
    value = event.args.get(key)
    if isinstance(value, list) and value and all(isinstance(v, int) for v in value):
        return tuple(value)
    return None


def _integer(event: Event, key: str) -> int | None:
    value = event.args.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
