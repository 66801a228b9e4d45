"""Rules on two runs: what disappeared, what came instead, and what it is worth.

Runs are matched by role, never by kernel name: the same step has another kernel on another GPU.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from profiling.analysis import KernelRow
from profiling.findings.finding import (
    Finding,
    Subject,
    count_per_forward,
    telling_op,
    us_per_forward,
)
from profiling.roles import ROLES, Role
from profiling.wording import counted, listed, microseconds, share

# Clock drift moves kernel times by 5 to 12 % between runs; below 1 % of a forward all is noise.
_GPU_FACTOR = 1.12
_SMALLEST_SHARE = 0.01
# Host times drift more: see profiling.verdict.
_HOST_FACTOR = 1.2

_ROLE_LABELS: dict[Role, str] = {"qk": "QKᵀ", "pv": "PV", "other": "other work"}


@dataclass(frozen=True, slots=True)
class _Step:
    """What one role costs in one forward, and the ops that tell it."""

    kernels: float
    memcpys: float
    us: float
    ops: tuple[str, ...]

    @property
    def text(self) -> str:
        parts = [
            counted(self.kernels, "kernel") if self.kernels else "",
            counted(self.memcpys, "memcpy") if self.memcpys else "",
            microseconds(self.us) if self.us else "nothing",
        ]
        return ", ".join(filter(None, parts))


def different_gpu(run: Subject, baseline: Subject) -> Iterator[Finding]:
    """Deltas across GPUs are not deltas of the code."""
    here, there = run.analysis.device.name, baseline.analysis.device.name
    if here == there or here is None or there is None:
        return
    yield Finding(
        rule="different_gpu",
        severity="warning",
        title="The two runs are from different devices",
        evidence=f"{_label(run, 'run')} ran on {here}, {_label(baseline, 'baseline')} on {there}.",
        advice="Read the differences as those of the devices; pick a baseline from the same one.",
    )


def different_problem(run: Subject, baseline: Subject) -> Iterator[Finding]:
    """Times of two shapes or types are not to be subtracted."""
    if run.config is None or baseline.config is None or run.config.spec == baseline.config.spec:
        return
    yield Finding(
        rule="different_problem",
        severity="warning",
        title="The two runs solve different problems",
        evidence=f"{run.config.spec.shape_text} against {baseline.config.spec.shape_text}.",
        advice="Pick a baseline with the same shape, type and mask.",
    )


def fused(run: Subject, baseline: Subject) -> Iterator[Finding]:
    """Separate steps that became one attention kernel, or the other way round."""
    here, there = _steps(run), _steps(baseline)
    if ("attention" in here) == ("attention" in there):
        return
    is_fused = "attention" in here
    whole, parts = (run, baseline) if is_fused else (baseline, run)
    steps = _steps(parts)
    names = listed([_ROLE_LABELS.get(role, role) for role in steps])
    one, many = _total(whole), _total(parts)
    verb = "became" if is_fused else "stand where there was"
    yield Finding(
        rule="fused",
        severity="info" if is_fused else "warning",
        title="The steps are fused" if is_fused else "The steps are no longer fused",
        evidence=(
            f"{names} ({many.text}) {verb} attention alone ({one.text}). GPU busy per forward: "
            f"{_gap(run, baseline)}."
        ),
        advice=(
            "The scores no longer pass through memory; the rest is up to the kernel."
            if is_fused
            else "Pin a fused backend; if it refuses, its reason is shown with the skipped run."
        ),
    )


def role_changed(run: Subject, baseline: Subject) -> Iterator[Finding]:
    """One step that lost or gained kernels or copies, or takes another time."""
    here, there = _steps(run), _steps(baseline)
    if ("attention" in here) != ("attention" in there):
        return
    nothing = _Step(0.0, 0.0, 0.0, ())
    for role in ROLES:
        new, old = here.get(role, nothing), there.get(role, nothing)
        if _is_change(new, old, baseline.busy_us):
            yield _role_changed(run, baseline, role, new, old)


def _is_change(new: _Step, old: _Step, busy_us: float) -> bool:
    if abs(new.us - old.us) < _SMALLEST_SHARE * busy_us:
        return False
    if (new.kernels, new.memcpys) != (old.kernels, old.memcpys):
        return True
    return max(new.us, old.us) >= _GPU_FACTOR * min(new.us, old.us)


def _role_changed(run: Subject, baseline: Subject, role: Role, new: _Step, old: _Step) -> Finding:
    saved_us = old.us - new.us
    fewer = (old.kernels - new.kernels, old.memcpys - new.memcpys)
    # Fewer kernels that take longer, or the like, do not fit into a title: see the evidence.
    same_way = all(count * saved_us >= 0 for count in fewer)
    counts = [
        counted(abs(count), noun)
        for count, noun in zip(fewer, ("kernel", "memcpy"), strict=True)
        if count and same_way
    ]
    what = ", ".join([*counts, microseconds(abs(saved_us))])
    amount = f"{what} ({share(abs(saved_us), baseline.busy_us)})"
    label = _ROLE_LABELS.get(role, role)
    # One op took the place of another: then it is the one to name.
    renamed = (
        role != "attention" and len(new.ops) == 1 and bool(old.ops) and new.ops[0] not in old.ops
    )
    if renamed:
        verb = "removed" if saved_us > 0 else "added"
        title = f"{new.ops[0].removeprefix('aten::')} {verb} {amount} per forward"
    else:
        title = f"{label}: {amount} {'less' if saved_us > 0 else 'more'} per forward"
    return Finding(
        rule="role_changed",
        severity="info" if saved_us > 0 else "warning",
        title=title,
        evidence=(
            f"{label}: {old.text} in {_label(baseline, 'the baseline')}, {new.text} in "
            f"{_label(run, 'the run')}."
        ),
        advice=(
            "Keep this form of the step."
            if saved_us > 0
            else f"Look at {label} in the timeline of {_label(run, 'the run')}."
        ),
    )


def gpu_time_changed(run: Subject, baseline: Subject) -> Iterator[Finding]:
    """The whole forward on the GPU."""
    low, high = sorted((run.busy_us, baseline.busy_us))
    if low <= 0 or high < _GPU_FACTOR * low:
        return
    faster = run.busy_us < baseline.busy_us
    yield Finding(
        rule="gpu_time_changed",
        severity="info" if faster else "warning",
        title=f"GPU time per forward: {_change(run.busy_us, baseline.busy_us)}",
        evidence=f"GPU busy per forward: {_gap(run, baseline)}.",
        advice=(
            "Check the host next: below its time per forward, a faster GPU no longer shows."
            if faster
            else "See which role grew."
        ),
    )


def host_time_changed(run: Subject, baseline: Subject) -> Iterator[Finding]:
    """Time to enqueue a forward, measured without the profiler in both runs."""
    if run.unprofiled is None or baseline.unprofiled is None:
        return
    new_us, old_us = run.unprofiled.cpu_time_us.median, baseline.unprofiled.cpu_time_us.median
    low, high = sorted((new_us, old_us))
    if low <= 0 or high < _HOST_FACTOR * low:
        return
    faster = new_us < old_us
    yield Finding(
        rule="host_time_changed",
        severity="info" if faster else "warning",
        title=f"Host time per forward: {_change(new_us, old_us)}",
        evidence=(
            f"{microseconds(new_us)} in {_label(run, 'the run')}, {microseconds(old_us)} in "
            f"{_label(baseline, 'the baseline')} to enqueue one forward, without the profiler."
        ),
        advice="It counts where the GPU waits for the host; see the verdict of each run.",
    )


def _gap(run: Subject, baseline: Subject) -> str:
    change = _change(run.busy_us, baseline.busy_us)
    return f"{microseconds(run.busy_us)} against {microseconds(baseline.busy_us)}, {change}"


def _change(new: float, old: float) -> str:
    """Such as "11.9 % less", "27.7 times as much", "91.1 % less (by a factor 11.2)"."""
    if new >= 2 * old > 0:
        return f"{new / old:.1f} times as much"
    factor = f" (by a factor {old / new:.1f})" if old >= 2 * new > 0 else ""
    return f"{share(abs(new - old), old)} {'less' if new < old else 'more'}{factor}"


def _steps(subject: Subject) -> dict[Role, _Step]:
    rows: dict[Role, list[KernelRow]] = {}
    for row in subject.analysis.kernels:
        rows.setdefault(row.role, []).append(row)
    return {role: _step(rows[role]) for role in ROLES if role in rows}


def _total(subject: Subject) -> _Step:
    return _step(list(subject.analysis.kernels))


def _step(rows: list[KernelRow]) -> _Step:
    ops = (telling_op(row.caused_by) for row in rows)
    return _Step(
        kernels=count_per_forward(row for row in rows if row.kind == "kernel"),
        memcpys=count_per_forward(row for row in rows if row.kind == "memcpy"),
        us=us_per_forward(rows),
        ops=tuple(dict.fromkeys(filter(None, ops))),
    )


def _label(subject: Subject, otherwise: str) -> str:
    return subject.config.label if subject.config else otherwise
