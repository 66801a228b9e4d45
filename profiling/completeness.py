"""Whether a recording can be trusted: what it misses, what leaked in, what stands out.

A profiler loses records without a word (CUPTI 12.6 U2 to 13.0 drops kernels after idle), and
kernels of warm-up forwards that still run when recording starts appear in it. Each check says which
of this happened, with the numbers.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from profiling.analysis import Analysis, Forward, is_launch, union_ns
from profiling.trace import Event, Trace
from profiling.wording import activities, counted, microseconds

CheckStatus = Literal["ok", "warning", "fail"]

# Clock drift and cuBLAS vary kernel times by 5 to 12 %; host times drift up to twofold between
# runs of the same code. A forward beyond these factors of the median is another kind of event:
# lazy loading, a recompilation, a neighbour on the machine.
GPU_OUTLIER_FACTOR = 1.2
HOST_OUTLIER_FACTOR = 2.0
# A forward of a few microseconds moves by 20 % with the state of the caches alone.
GPU_OUTLIER_FLOOR_US = 5.0
_FEWEST_FOR_OUTLIERS = 3

# Traces before torch 2.3 hold whole microseconds, so that a start can be rounded this far.
_CLOCK_TOLERANCE_NS = 1000


@dataclass(frozen=True, slots=True)
class Check:
    """One question about the recording; `sentence` answers it with its numbers."""

    name: str
    status: CheckStatus
    sentence: str


@dataclass(frozen=True, slots=True)
class StepOutlier:
    """A forward (counted from 1) whose time is far from the median of all forwards."""

    forward: int
    quantity: Literal["gpu_busy", "host"]
    value_us: float
    median_us: float


@dataclass(frozen=True, slots=True)
class Completeness:
    """What was checked. Only a missing kernel or forward fails; the rest warns."""

    checks: tuple[Check, ...]
    outliers: tuple[StepOutlier, ...]

    @property
    def complete(self) -> bool:
        """No launch misses its kernel and no forward is missing."""
        return all(check.status != "fail" for check in self.checks)


def completeness(
    trace: Trace,
    analysis: Analysis,
    *,
    expected_forwards: int | None = None,
    ran_on_gpu: bool = False,
) -> Completeness:
    """Check one recording; `expected_forwards` and `ran_on_gpu` are what the recorder knows."""
    outliers = step_outliers(analysis)
    leaked, lost, elsewhere = _unowned(trace, analysis)
    gpu_count = len(trace.in_category("kernel", "memcpy", "memset"))
    return Completeness(
        checks=(
            _forwards_missing(analysis, expected_forwards),
            _launches_without_kernels(analysis, ran_on_gpu),
            _kernels_without_launches(lost, gpu_count),
            _warm_up_leak(leaked, elsewhere, gpu_count, analysis),
            _equal_forwards(analysis),
            _step_outliers(analysis, outliers),
            _clock_order(analysis),
            _dropped_records(analysis),
        ),
        outliers=outliers,
    )


def step_outliers(analysis: Analysis) -> tuple[StepOutlier, ...]:
    """Forwards that cost far more or less than the median; none with fewer than three forwards."""
    forwards = analysis.forwards
    if len(forwards) < _FEWEST_FOR_OUTLIERS:
        return ()
    busy_us = [_busy_ns(forward) / 1000 for forward in forwards]
    host_us = [(forward.end_ns - forward.start_ns) / 1000 for forward in forwards]
    found: list[StepOutlier] = []
    for number, value in _beyond(busy_us, GPU_OUTLIER_FACTOR):
        if abs(value - median(busy_us)) >= GPU_OUTLIER_FLOOR_US:
            found.append(StepOutlier(number, "gpu_busy", value, median(busy_us)))
    for number, value in _beyond(host_us, HOST_OUTLIER_FACTOR):
        found.append(StepOutlier(number, "host", value, median(host_us)))
    return tuple(found)


def _busy_ns(forward: Forward) -> int:
    return union_ns((a.event.start_ns, a.event.end_ns) for a in forward.activities)


def _beyond(values: Sequence[float], factor: float) -> Iterable[tuple[int, float]]:
    middle = median(values)
    for number, value in enumerate(values, start=1):
        if value > factor * middle or value * factor < middle:
            yield number, value


def _unowned(trace: Trace, analysis: Analysis) -> tuple[list[Event], list[Event], list[Event]]:
    """GPU activities as (leaked in from before, launch record lost, launched outside forwards).

    A stream runs in the order of launching: what has no launch record and starts before all that
    has one was launched before the recording; what starts later lost its record.
    """
    gpu_events = trace.in_category("kernel", "memcpy", "memset")
    starts = {call.correlation: call.start_ns for call in trace.in_category("api")}
    owned = {id(a.event) for forward in analysis.forwards for a in forward.activities}
    first_forward_ns = min((f.start_ns for f in analysis.forwards), default=0)
    first_launched_ns: dict[tuple[str, str], int] = {}
    for event in gpu_events:
        if event.correlation is not None and event.correlation in starts:
            first_launched_ns.setdefault(event.lane, event.start_ns)
    leaked: list[Event] = []
    lost: list[Event] = []
    elsewhere: list[Event] = []
    for event in gpu_events:
        launched_ns = None if event.correlation is None else starts.get(event.correlation)
        if launched_ns is None:
            before = event.start_ns < first_launched_ns.get(event.lane, event.start_ns)
            (leaked if before else lost).append(event)
        elif id(event) not in owned:
            (leaked if launched_ns < first_forward_ns else elsewhere).append(event)
    return leaked, lost, elsewhere


def _forwards_missing(analysis: Analysis, expected: int | None) -> Check:
    name = "forwards_missing"
    region = analysis.region
    captured = 0 if region.kind == "whole_trace" else region.count
    if expected is None:
        what = (
            "The recording marks no forwards, so that it was analysed as a whole."
            if captured == 0
            else f"{counted(captured, 'forward')} recorded; how many were meant is not known."
        )
        return Check(name, "ok" if captured else "warning", what)
    if captured < expected:
        return Check(name, "fail", f"{captured} of {counted(expected, 'forward')} were recorded.")
    if captured > expected:
        return Check(
            name,
            "warning",
            f"{counted(captured, 'forward')} recorded where {expected} were meant: "
            "something outside the window leaked in; means are over all of them.",
        )
    return Check(name, "ok", f"All {counted(expected, 'forward')} were recorded.")


def _launches_without_kernels(analysis: Analysis, ran_on_gpu: bool) -> Check:
    name = "launches_without_kernels"
    calls = [c.event for f in analysis.forwards for c in f.calls if is_launch(c.event)]
    if not calls and not any(f.activities for f in analysis.forwards):
        if ran_on_gpu:
            return Check(
                name,
                "fail",
                "The run used a GPU, but its forwards hold neither launches nor GPU activities: "
                "the profiler could not trace the GPU here.",
            )
        return Check(name, "ok", "No GPU work was launched.")
    launches = counted(len(calls), "launch", "launches")
    missing = analysis.launches_without_kernel
    if missing == 0:
        return Check(name, "ok", f"Of {launches}, each has its record on the GPU.")
    recorded = {a.event.correlation for f in analysis.forwards for a in f.activities}
    names = Counter(call.name for call in calls if call.correlation not in recorded)
    listed = ", ".join(f"{count} {call}" for call, count in names.most_common(3))
    return Check(
        name,
        "fail",
        f"{missing} of {launches} left no record on the GPU ({listed}): counts and GPU times are "
        "too small.",
    )


def _kernels_without_launches(lost: Sequence[Event], gpu_count: int) -> Check:
    name = "kernels_without_launches"
    if gpu_count == 0:
        return Check(name, "ok", "No GPU activities were recorded.")
    if not lost:
        return Check(name, "ok", "Each GPU activity launched during the recording has its launch.")
    return Check(
        name,
        "warning",
        f"{len(lost)} of {activities(gpu_count)} ({_busy_us(lost)}) have no launch record, "
        "so that no op can be named for them.",
    )


def _warm_up_leak(
    leaked: Sequence[Event], elsewhere: Sequence[Event], gpu_count: int, analysis: Analysis
) -> Check:
    name = "warm_up_leak"
    others = (
        f" {activities(len(elsewhere))} ({_busy_us(elsewhere)}) launched between or after "
        "the forwards are left out too."
        if elsewhere
        else ""
    )
    if not leaked:
        return Check(name, "ok", f"Nothing from before the first forward leaked in.{others}")
    effect = (
        "they are counted in, because the recording marks no forwards"
        if analysis.region.kind == "whole_trace"
        else "they are left out of every number"
    )
    return Check(
        name,
        "warning",
        f"{len(leaked)} of {activities(gpu_count)} ({_busy_us(leaked)}) were launched before "
        f"the first forward and still ran; {effect}.{others}",
    )


def _equal_forwards(analysis: Analysis) -> Check:
    name = "equal_forwards"
    counts = [len(forward.activities) for forward in analysis.forwards]
    if len(set(counts)) > 1:
        return Check(
            name,
            "warning",
            f"The forwards do not run the same work: {', '.join(map(str, counts))} GPU activities. "
            "Records were lost, or the code changed its mind (a recompilation, another kernel).",
        )
    if not counts or counts[0] == 0:
        return Check(name, "ok", "No forward ran anything on a GPU.")
    return Check(name, "ok", f"Every forward ran {activities(counts[0])}.")


def _step_outliers(analysis: Analysis, outliers: Sequence[StepOutlier]) -> Check:
    name = "step_outliers"
    count = len(analysis.forwards)
    if count < _FEWEST_FOR_OUTLIERS:
        return Check(
            name,
            "ok",
            f"{counted(count, 'forward')}: at least {_FEWEST_FOR_OUTLIERS} are needed to tell "
            "which one stands out.",
        )
    rule = (
        f"GPU busy within a factor {GPU_OUTLIER_FACTOR:g} of the median, host time within "
        f"{HOST_OUTLIER_FACTOR:g}"
    )
    if not outliers:
        return Check(name, "ok", f"No forward stands out ({rule}).")
    listed = "; ".join(outlier_text(outlier) for outlier in outliers)
    return Check(name, "warning", f"{listed} (expected: {rule}).")


def outlier_text(outlier: StepOutlier) -> str:
    """Such as "forward 1 took 409.8 µs on the host, the median forward 168.9 µs"."""
    where = "on the host" if outlier.quantity == "host" else "on the GPU"
    return (
        f"forward {outlier.forward} took {microseconds(outlier.value_us)} {where}, the median "
        f"forward {microseconds(outlier.median_us)}"
    )


def _clock_order(analysis: Analysis) -> Check:
    name = "clock_order"
    pairs = [
        (a.launch.start_ns - a.event.start_ns)
        for f in analysis.forwards
        for a in f.activities
        if a.launch is not None
    ]
    if not pairs:
        return Check(name, "ok", "No launch and its GPU activity to compare.")
    early = [ahead for ahead in pairs if ahead > _CLOCK_TOLERANCE_NS]
    if not early:
        return Check(name, "ok", f"All {activities(len(pairs))} start after their launch call.")
    return Check(
        name,
        "warning",
        f"{len(early)} of {activities(len(pairs))} start before their launch call, by up to "
        f"{microseconds(max(early) / 1000)}: the CPU and GPU clocks do not agree, so do not read "
        "delays between the two.",
    )


def _dropped_records(analysis: Analysis) -> Check:
    if not analysis.warnings:
        return Check("dropped_records", "ok", "Every record could be read.")
    return Check("dropped_records", "warning", f"{'; '.join(analysis.warnings)}.")


def _busy_us(events: Sequence[Event]) -> str:
    return microseconds(sum(event.dur_ns for event in events) / 1000)
