"""Layout before pixels: which bars a timeline has, in which lane, from when to when.

Nothing here draws. Times are integer nanoseconds from the start of the chosen forward (of the first
one when all are shown), and a bar is exactly as long as its event.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Literal

from profiling.analysis import Activity, Analysis, Forward, HostEvent, union_ns
from profiling.kernel_names import decode
from profiling.roles import Role

# More bars than this on one page make zooming sluggish in a browser.
MAX_BARS = 2000
# Bars are first joined where they are narrower than one of this many columns of the picture.
_COLUMNS = 1000

Group = Literal["CPU ops", "launch calls", "GPU stream"]
GROUPS: tuple[Group, ...] = ("CPU ops", "launch calls", "GPU stream")
Kind = Literal["op", "call", "kernel", "memcpy", "memset"]
Fact = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Lane:
    """A thread's ops, its launch calls, or one GPU stream; `label` is what stands beside it."""

    group: Group
    label: str
    depths: int


@dataclass(frozen=True, slots=True)
class Bar:
    """One event, or `count` events joined; `busy_ns` of `dur_ns` is covered by what was joined.

    `lane` indexes Timeline.lanes, `depth` is the row in that lane, 0 on top. `key` names the event
    as forward.kind.position in the Analysis.
    """

    lane: int
    depth: int
    start_ns: int
    dur_ns: int
    busy_ns: int
    label: str
    role: Role
    kind: Kind
    key: str
    facts: tuple[Fact, ...]
    count: int = 1

    @property
    def end_ns(self) -> int:
        return self.start_ns + self.dur_ns


@dataclass(frozen=True, slots=True)
class Timeline:
    """Bars sorted by lane, depth and start; `merged_events` counts the events in joined bars."""

    lanes: tuple[Lane, ...]
    bars: tuple[Bar, ...]

    @property
    def end_ns(self) -> int:
        return max((bar.end_ns for bar in self.bars), default=0)

    @property
    def merged_events(self) -> int:
        return sum(bar.count for bar in self.bars if bar.count > 1)


def timeline(analysis: Analysis, forward: int | None) -> Timeline:
    """Bars of one forward (an index beyond the last takes the last), of all with None."""
    forwards = list(enumerate(analysis.forwards))
    if forward is not None:
        forwards = forwards[: forward + 1][-1:]
    if not forwards:
        return Timeline((), ())
    zero_ns = forwards[0][1].start_ns
    placed = [event for index, one in forwards for event in _events(index, one)]
    keys = sorted({(GROUPS.index(group), lane) for group, lane, _ in placed})
    lanes = tuple(_lane(GROUPS[group], lane, placed, keys) for group, lane in keys)
    bars = [
        replace(bar, lane=keys.index((GROUPS.index(group), lane)), start_ns=bar.start_ns - zero_ns)
        for group, lane, bar in placed
    ]
    return Timeline(lanes, tuple(sorted(bars, key=_place)))


def fitted(timelines: Sequence[Timeline], max_bars: int = MAX_BARS) -> list[Timeline]:
    """The same timelines, with narrow neighbours joined until at most `max_bars` bars are left.

    Nothing is joined while all fit. The width below which bars are joined is one for all runs.
    """
    fitting = list(timelines)
    end_ns = max((one.end_ns for one in timelines), default=0)
    width_ns = end_ns / _COLUMNS
    while sum(len(one.bars) for one in fitting) > max_bars and width_ns < 2 * end_ns:
        fitting = [merged(one, width_ns) for one in timelines]
        width_ns *= 2
    return fitting


def merged(one: Timeline, width_ns: float) -> Timeline:
    """Join neighbours in a row that are each narrower than `width_ns` and no further apart."""
    rows = groupby(one.bars, key=lambda bar: (bar.lane, bar.depth))
    return replace(one, bars=tuple(bar for _, row in rows for bar in _joined(row, width_ns)))


_Placed = tuple[Group, tuple[str, str], Bar]


def _events(index: int, forward: Forward) -> Iterator[_Placed]:
    for position, op in enumerate(forward.ops):
        yield "CPU ops", op.event.lane, _host_bar(op, "op", f"{index}.op.{position}")
    for position, call in enumerate(forward.calls):
        yield "launch calls", call.event.lane, _host_bar(call, "call", f"{index}.call.{position}")
    for position, activity in enumerate(forward.activities):
        yield "GPU stream", activity.event.lane, _gpu_bar(activity, f"{index}.gpu.{position}")


def _lane(
    group: Group,
    lane: tuple[str, str],
    placed: Iterable[_Placed],
    keys: Sequence[tuple[int, tuple[str, str]]],
) -> Lane:
    depths = 1 + max(bar.depth for g, other, bar in placed if (g, other) == (group, lane))
    if group == "GPU stream":
        return Lane(group, f"{group} {lane[1]}", depths)
    siblings = [key for key in keys if GROUPS[key[0]] == group]
    number = siblings.index((GROUPS.index(group), lane)) + 1
    label = group if len(siblings) == 1 else f"{group}, thread {number}"
    return Lane(group, label, depths)


def _host_bar(host: HostEvent, kind: Literal["op", "call"], key: str) -> Bar:
    event = host.event
    facts = [("called by", _chain(host.caused_by))] if host.caused_by else []
    if kind == "op" and (shapes := event.args.get("Input Dims")):
        facts.insert(0, ("input shapes", _shapes(shapes)))
    return Bar(
        lane=0,
        depth=max(host.depth, 0),
        start_ns=event.start_ns,
        dur_ns=event.dur_ns,
        busy_ns=event.dur_ns,
        label=event.name.removeprefix("aten::"),
        role=host.role,
        kind=kind,
        key=key,
        facts=(("name", event.name), *facts),
    )


def _gpu_bar(activity: Activity, key: str) -> Bar:
    event = activity.event
    kind: Kind = "kernel"
    if event.category == "memcpy" or event.category == "memset":
        kind = event.category
    return Bar(
        lane=0,
        depth=0,
        start_ns=event.start_ns,
        dur_ns=event.dur_ns,
        busy_ns=event.dur_ns,
        label=decode(event.name).short,
        role=activity.role,
        kind=kind,
        key=key,
        facts=(("name", event.name), *_gpu_facts(activity)),
    )


def _gpu_facts(activity: Activity) -> Iterator[Fact]:
    args = activity.event.args
    if activity.launch:
        delay_ns = activity.event.start_ns - activity.launch.start_ns
        yield "launched by", f"{activity.launch.name}, {delay_ns / 1000:,.1f} µs before it starts"
    for key, name in (("registers per thread", "registers per thread"), ("grid", "grid")):
        if key in args:
            yield name, _dims(args[key])
    if "block" in args:
        yield "block", f"{_dims(args['block'])} threads"
    if "shared memory" in args:
        yield "shared memory per block", _bytes(args["shared memory"])
    if "bytes" in args:
        yield "bytes", _bytes(args["bytes"])
    occupancy = activity.occupancy
    if occupancy:
        limiters = " and ".join(occupancy.limiters).replace("_", " ")
        yield "occupancy, theoretical", f"{occupancy.theoretical_pct:.4g} %, limited by {limiters}"
        if occupancy.reported_pct is not None:
            yield "occupancy, Kineto", f"{occupancy.reported_pct:g} %"
        if occupancy.why_reported_differs:
            yield "why they differ", occupancy.why_reported_differs
    if activity.caused_by:
        yield "caused by", _chain(activity.caused_by)


def _chain(names: Sequence[str]) -> str:
    return " › ".join(names)


def _dims(value: object) -> str:
    return " × ".join(f"{v:,}" for v in value) if isinstance(value, list) else str(value)


def _bytes(value: object) -> str:
    return f"{value:,} B" if isinstance(value, int) else str(value)


def _shapes(value: object) -> str:
    shapes = [str(shape) for shape in value if shape] if isinstance(value, list) else []
    return " ".join(shapes) or "scalar"


def _place(bar: Bar) -> tuple[int, int, int]:
    return bar.lane, bar.depth, bar.start_ns


def _joined(row: Iterable[Bar], width_ns: float) -> Iterator[Bar]:
    waiting: list[Bar] = []
    for bar in row:
        narrow = bar.dur_ns < width_ns
        near = not waiting or bar.start_ns - max(b.end_ns for b in waiting) <= width_ns
        if waiting and not (narrow and near):
            yield _join(waiting)
            waiting = []
        if narrow:
            waiting.append(bar)
        else:
            yield bar
    if waiting:
        yield _join(waiting)


def _join(bars: Sequence[Bar]) -> Bar:
    """From the first start to the last end; the role is that of all, or other."""
    if len(bars) == 1:
        return bars[0]
    start_ns, end_ns = bars[0].start_ns, max(bar.end_ns for bar in bars)
    busy_ns = union_ns((bar.start_ns, bar.end_ns) for bar in bars)
    roles = {bar.role for bar in bars}
    names = ", ".join(dict.fromkeys(bar.label for bar in bars))
    return replace(
        bars[0],
        start_ns=start_ns,
        dur_ns=end_ns - start_ns,
        busy_ns=busy_ns,
        label=f"{len(bars)} events",
        role=roles.pop() if len(roles) == 1 else "other",
        facts=(
            ("name", f"{len(bars)} events, each too narrow to draw here"),
            ("covered", f"{busy_ns / 1000:,.3f} µs of {(end_ns - start_ns) / 1000:,.3f} µs"),
            ("among them", names if len(names) <= 200 else f"{names[:200]}…"),
        ),
        count=len(bars),
    )
