"""Which side a forward waits for: the host that launches its work, or the GPU that does it."""

from dataclasses import dataclass
from statistics import median
from typing import Literal

from profiling.analysis import Analysis
from profiling.outcome import Unprofiled
from profiling.wording import activities, counted, microseconds, share

Bound = Literal["host", "gpu", "unclear"]

# Inside one run, clock drift moves GPU times by 5 to 12 %, and the host's p10 and p90 stay about as
# close to its median; where the two sides are nearer than this, a repetition can swap them.
CLEAR_FACTOR = 1.2
# The profiler lengthened the host time of a forward 2.0 to 4.8 times on an H200 with torch 2.11.
# Twice the most that was seen: only a host that is slower even after this is called the bottleneck.
WORST_PROFILER_TAX = 10.0
# A whole trace in which the GPU rests less than this cannot be waiting for the host.
_BUSY_GPU_IDLE_SHARE = 0.05


@dataclass(frozen=True, slots=True)
class Verdict:
    """What bounds a forward, and the numbers it rests on.

    `profiler_tax` is profiled over unprofiled host time; None without both.
    """

    bound: Bound
    evidence: str
    profiler_tax: float | None = None


def verdict(analysis: Analysis, unprofiled: Unprofiled | None = None) -> Verdict:
    """From unprofiled times where there are any, else from what the trace alone can prove."""
    if unprofiled is None:
        return _from_trace(analysis)
    tax = _profiler_tax(analysis, unprofiled)
    bound, evidence = _from_unprofiled(analysis, unprofiled)
    return Verdict(bound, f"{evidence}{_tax_text(analysis, unprofiled, tax)}", tax)


def _from_unprofiled(analysis: Analysis, unprofiled: Unprofiled) -> tuple[Bound, str]:
    host = unprofiled.cpu_time_us
    if unprofiled.gpu_graph_us is not None:
        gpu_us, how = unprofiled.gpu_graph_us, "replayed as a CUDA graph"
    elif analysis.complete and analysis.per_forward.gpu_busy_us:
        # Kernel durations hardly change under the profiler; a launch gap counts in CUDA events.
        gpu_us, how = analysis.per_forward.gpu_busy_us, "its kernels in the trace"
    elif unprofiled.gpu_time_us is not None:
        return _from_events(host.median, unprofiled.gpu_time_us.median)
    else:
        return (
            "unclear",
            f"No GPU: the forward takes {microseconds(host.median)} on the CPU itself.",
        )
    measured = (
        f"The host needs {microseconds(host.median)} to enqueue one forward (p10 {host.p10:,.1f}, "
        f"p90 {host.p90:,.1f}, without the profiler), the GPU {microseconds(gpu_us)} to run it "
        f"({how}): "
    )
    if host.median >= CLEAR_FACTOR * gpu_us:
        return "host", f"{measured}the GPU waits for a host that is {_times(host.median, gpu_us)}."
    if gpu_us >= CLEAR_FACTOR * host.median:
        return (
            "gpu",
            f"{measured}the host runs ahead of a GPU that is {_times(gpu_us, host.median)}.",
        )
    return "unclear", f"{measured}closer than a factor {CLEAR_FACTOR:g}, so either can be ahead."


def _from_events(host_us: float, events_us: float) -> tuple[Bound, str]:
    """Events around an idle GPU contain its waiting for launches: they can prove one side only."""
    measured = (
        f"The host needs {microseconds(host_us)} to enqueue one forward without the profiler, "
        f"{microseconds(events_us)} pass between CUDA events around it: "
    )
    if events_us >= CLEAR_FACTOR * host_us:
        return "gpu", f"{measured}the GPU still works when the host is done."
    return (
        "unclear",
        f"{measured}that includes waiting for launches, so it does not tell who waits.",
    )


def _from_trace(analysis: Analysis) -> Verdict:
    per_forward = analysis.per_forward
    busy_us, host_us = per_forward.gpu_busy_us, per_forward.cpu_time_us
    unusable = _why_unusable(analysis)
    if unusable is not None or busy_us is None:
        return Verdict("unclear", unusable or "The trace holds no GPU work.")
    inflated = "the profiler lengthens host time, by how much is not known without a run without it"
    if host_us is None:
        idle = (per_forward.gpu_idle_us or 0) / (per_forward.gpu_span_us or 1)
        if idle <= _BUSY_GPU_IDLE_SHARE and sum(len(f.activities) for f in analysis.forwards) > 1:
            return Verdict(
                "gpu", f"{_gaps(analysis)} Even with the profiler's load the host keeps up."
            )
        return Verdict("unclear", f"{_gaps(analysis)} But {inflated}.")
    measured = (
        f"Under the profiler the host takes {microseconds(host_us)} for one forward, the GPU is "
        f"busy for {microseconds(busy_us)}. {_gaps(analysis)} "
    )
    if busy_us >= CLEAR_FACTOR * host_us:
        return Verdict(
            "gpu",
            f"{measured}Without the profiler the host is only faster, so the GPU is the limit.",
        )
    if host_us >= WORST_PROFILER_TAX * CLEAR_FACTOR * busy_us:
        return Verdict(
            "host",
            f"{measured}The profiler lengthens host time, but hardly {WORST_PROFILER_TAX:g} times, "
            "and even then the host is the slower side.",
        )
    return Verdict("unclear", f"{measured}But {inflated}.")


def _why_unusable(analysis: Analysis) -> str | None:
    if not analysis.forwards:
        return "The trace holds no forward."
    if analysis.per_forward.gpu_busy_us is None:
        return "No GPU: the work runs on the CPU itself, so there is nothing to wait for."
    if not analysis.complete:
        missing = analysis.launches_without_kernel
        launches = counted(missing, "launch", "launches")
        return f"The trace misses the kernels of {launches}, so GPU time is not known."
    if not any(forward.activities for forward in analysis.forwards):
        return "The forwards ran nothing on the GPU."
    if any("GraphLaunch" in c.event.name for f in analysis.forwards for c in f.calls):
        return (
            "Work was launched as a CUDA graph: one call stands for many kernels, so that host "
            "time and gaps in the trace do not tell who waits."
        )
    return None


def _gaps(analysis: Analysis) -> str:
    """How idle the GPU was between its activities, and how long work stood in the queue."""
    per_forward = analysis.per_forward
    span_us, idle_us = per_forward.gpu_span_us or 0.0, per_forward.gpu_idle_us or 0.0
    delays_us = [
        max(0, a.event.start_ns - a.launch.end_ns) / 1000
        for f in analysis.forwards
        for a in f.activities
        if a.launch is not None
    ]
    count = sum(len(forward.activities) for forward in analysis.forwards) / len(analysis.forwards)
    idle = (
        f"Between the first and last of {activities(count)} the GPU idles "
        f"{share(idle_us, span_us)} of {microseconds(span_us)}"
        if count > 1
        else "There is one GPU activity, hence no gap to read"
    )
    queued = (
        f"; work starts {microseconds(median(delays_us))} (median) after its launch call returns"
    )
    return f"{idle}{queued if delays_us else ''}."


def _profiler_tax(analysis: Analysis, unprofiled: Unprofiled) -> float | None:
    profiled_us = analysis.per_forward.cpu_time_us
    if profiled_us is None or unprofiled.cpu_time_us.median <= 0:
        return None
    return profiled_us / unprofiled.cpu_time_us.median


def _tax_text(analysis: Analysis, unprofiled: Unprofiled, tax: float | None) -> str:
    profiled_us = analysis.per_forward.cpu_time_us
    if tax is None or profiled_us is None:
        return ""
    return (
        f" The profiler itself made the host {tax:.1f} times slower ({microseconds(profiled_us)} "
        "under it)."
    )


def _times(slower_us: float, faster_us: float) -> str:
    return f"{slower_us / faster_us:.1f} times slower" if faster_us else "slower"
