"""Rules on the run as a whole: who waits, what the first call cost, whether all was recorded."""

from collections.abc import Iterator

from profiling.completeness import outlier_text
from profiling.findings.finding import Finding, Subject
from profiling.wording import microseconds

# A first call must stand out from noise, and be long enough for a person to care.
_FIRST_CALL_FACTOR = 10.0
_NOTICED_US = 1_000.0
_DISTURBING_US = 100_000.0


def host_bound(subject: Subject) -> Iterator[Finding]:
    """The GPU is faster than the host can feed it."""
    if subject.verdict.bound != "host":
        return
    yield Finding(
        rule="host_bound",
        severity="warning",
        title="The GPU waits for the host",
        evidence=subject.verdict.evidence,
        advice=(
            "A faster kernel changes nothing here. Launch less: a CUDA graph, torch.compile with "
            "mode='reduce-overhead', a fused backend, or a larger batch per call."
        ),
    )


def first_call_cost(subject: Subject) -> Iterator[Finding]:
    """The first call at a shape builds plans and loads kernels; later ones do not."""
    unprofiled = subject.unprofiled
    if unprofiled is None or unprofiled.first_call_us is None:
        return
    first_us = unprofiled.first_call_us
    steady = unprofiled.gpu_time_us or unprofiled.cpu_time_us
    if steady.median <= 0 or first_us < max(_NOTICED_US, _FIRST_CALL_FACTOR * steady.median):
        return
    yield Finding(
        rule="first_call_cost",
        severity="warning" if first_us >= _DISTURBING_US else "info",
        title=f"The first call takes {first_us / 1000:,.1f} ms",
        evidence=(
            f"{microseconds(first_us)} for the first call at this shape, "
            f"{microseconds(steady.median)} later on (median of {unprofiled.repeats}): "
            f"{first_us / steady.median:,.0f} times as long."
        ),
        advice=(
            "Call each shape once before you serve or measure, and keep the number of different "
            "shapes small, by padding for instance."
        ),
    )


def step_outlier(subject: Subject) -> Iterator[Finding]:
    """A forward that is not like the others."""
    outliers = subject.completeness.outliers
    if not outliers:
        return
    on_gpu = any(outlier.quantity == "gpu_busy" for outlier in outliers)
    advice = (
        "Take host times from the run without the profiler; GPU times are not affected."
        if not on_gpu and subject.busy_us
        else "Record again, with more forwards: if it comes back, look for a recompilation or for "
        "another program on this machine."
    )
    texts = "; ".join(outlier_text(outlier) for outlier in outliers)
    yield Finding(
        rule="step_outlier",
        severity="warning" if on_gpu else "info",
        title="One forward stands out" if len(outliers) == 1 else "Some forwards stand out",
        evidence=f"{texts[0].upper()}{texts[1:]}. Means include it.",
        advice=advice,
    )


def incomplete_capture(subject: Subject) -> Iterator[Finding]:
    """Kernels or forwards are missing: the numbers are too small."""
    if subject.completeness.complete:
        return
    failed = [check.sentence for check in subject.completeness.checks if check.status == "fail"]
    yield Finding(
        rule="incomplete_capture",
        severity="problem",
        title="The recording is incomplete",
        evidence=" ".join(failed),
        advice=(
            "Do not compare this run. Record it again, in a fresh process, and synchronise before "
            "the profiler stops."
        ),
    )
