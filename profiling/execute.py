"""Execute one run from its settings to a result; what cannot run here ends in a reason."""

import re
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import perf_counter

import torch

from attention.costs import flop_count, largest_seq_len, peak_bytes, score_bytes
from attention.inputs import make_inputs
from attention.reference import check
from attention.variants import find_backend, find_variant, pinned, why_not
from profiling import capture
from profiling.analysis import Analysis, analyse
from profiling.completeness import Completeness, completeness
from profiling.config import STAGES, RunConfig
from profiling.environment import first_line, probe
from profiling.outcome import Environment, Failed, Outcome, RunResult, Skipped
from profiling.trace import parse_trace

# A run on the CPU takes some fifteen forwards; more than this for one is no longer interactive.
_CPU_FORWARD_LIMIT_S = 10.0
# Elementwise passes over the scores in an unfused forward, and a careful bandwidth for them.
_CPU_PASSES = 8
_CPU_BYTES_PER_S = 2e9

_NO_KERNEL = ("No available kernel", "No viable backend")
_OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "not enough memory")

OnStage = Callable[[str], None]


def execute(config: RunConfig, on_stage: OnStage = lambda stage: None) -> Outcome:
    """Run `config` in this process. Never raises for what a person can ask for."""
    environment = probe(config.device)
    if config.device == "cuda" and environment.gpu is None:
        return Skipped(config, environment, f"No CUDA GPU to run on. {environment.no_gpu_reason}")
    device_type = "cuda" if environment.gpu else "cpu"
    reason = _why_not_here(config, device_type)
    if reason is not None:
        return Skipped(config, environment, reason)
    try:
        return _measure(config, environment, device_type, on_stage)
    except _CannotRunHere as refusal:
        return Skipped(config, environment, str(refusal))
    except (RuntimeError, MemoryError) as error:
        return Failed(config, environment, failure_text(config, error))


class _CannotRunHere(Exception):
    pass


def _why_not_here(config: RunConfig, device_type: str) -> str | None:
    backend = find_backend(config.backend) if config.backend else None
    return (
        why_not(backend, device_type)
        or _too_large(config, device_type)
        or (_too_slow(config) if device_type == "cpu" else None)
    )


def _too_large(config: RunConfig, device_type: str) -> str | None:
    free = _free_bytes(device_type)
    needed = peak_bytes(config.spec, config.variant, config.backend)
    if free is None or needed <= free:
        return None
    longest = largest_seq_len(config.spec, config.variant, config.backend, free)
    where = "GPU" if device_type == "cuda" else "machine"
    advice = (
        f"with these settings seq_len up to {longest:,} fits"
        if longest
        else "a smaller batch or fewer heads would fit"
    )
    return (
        f"{config.label} at {config.spec.shape_text} needs about {gib(needed)}, but "
        f"{gib(free)} are free on this {where}; {advice}."
    )


def _free_bytes(device_type: str) -> int | None:
    if device_type == "cuda":
        torch.cuda.empty_cache()
        free, _ = torch.cuda.mem_get_info()
        return free
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    available = {key: rest for key, _, rest in (line.partition(":") for line in lines)}
    return int(available["MemAvailable"].split()[0]) * 1024


def _too_slow(config: RunConfig) -> str | None:
    spec = config.spec
    estimate_s = flop_count(spec) / _cpu_flop_per_s(spec.dtype)
    estimate_s += _CPU_PASSES * score_bytes(spec, config.variant, config.backend) / _CPU_BYTES_PER_S
    if estimate_s <= _CPU_FORWARD_LIMIT_S:
        return None
    return (
        f"{config.label} at {spec.shape_text} would take about {estimate_s:,.0f} s per forward on "
        f"this CPU (at most {_CPU_FORWARD_LIMIT_S:.0f} s are allowed); choose a smaller seq_len or "
        "batch, or open a recorded run."
    )


def _cpu_flop_per_s(dtype: str) -> float:
    """Measured with one small matrix product: CPUs differ a hundredfold in bfloat16."""
    square = torch.ones(512, 512, dtype=getattr(torch, dtype))
    square @ square
    start = perf_counter()
    square @ square
    return 2 * 512**3 / (perf_counter() - start)


def _measure(
    config: RunConfig, environment: Environment, device_type: str, on_stage: OnStage
) -> Outcome:
    variant = find_variant(config.variant)
    backend = find_backend(config.backend) if config.backend else None
    on_stage(STAGES[0])
    inputs = make_inputs(config.spec, device_type, with_mask=variant.needs_mask)
    forward = partial(variant.forward, inputs)
    with torch.no_grad(), pinned(backend):
        on_stage(STAGES[1])
        first_call = _first_call(forward, config, device_type)
        on_stage(STAGES[2])
        numerics = check(inputs, forward())
        if not numerics.ok:
            return Failed(
                config,
                environment,
                "The output is wrong, so no times are shown: maximum error "
                f"{numerics.max_abs_error:.3g} against float64 (allowed {numerics.tolerance:.3g}), "
                f"{numerics.nan_count:,} NaN, {numerics.inf_count:,} Inf.",
            )
        on_stage(STAGES[3])
        unprofiled = capture.time_forward(forward, device_type, first_call)
        peak = capture.peak_memory_bytes(forward, device_type)
        on_stage(STAGES[4])
        trace, analysis, checked = _record(forward, device_type, config)
    return RunResult(
        config=config,
        environment=environment,
        trace=trace,
        analysis=analysis,
        completeness=checked,
        unprofiled=unprofiled,
        peak_memory_bytes=peak,
        numerics=numerics,
    )


def _first_call(
    forward: Callable[[], object], config: RunConfig, device_type: str
) -> tuple[float | None, str | None]:
    """The first forward, where SDPA tells in warnings why a backend refuses."""
    key = (device_type, config.label, config.spec)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            return capture.time_first_call(forward, key, device_type)
        except RuntimeError as error:
            if not str(error).startswith(_NO_KERNEL):
                raise
            texts = [str(warning.message) for warning in caught]
            raise _CannotRunHere(refusal_text(config, texts)) from error


def refusal_text(config: RunConfig, warning_texts: list[str]) -> str:
    """PyTorch's own reasons for refusing the pinned backend, as one sentence or more.

    Each backend that is merely switched off warns too; only what is said of the pinned one counts.
    """
    reasons = [clean_warning(text) for text in warning_texts]
    telling = [
        text
        for text in reasons
        if "kernel not used because" not in text and "has been runtime disabled" not in text
    ]
    said = " ".join(dict.fromkeys(telling)) or "PyTorch gave no reason."
    return f"The {config.backend} backend refuses {config.spec.shape_text}: {said}"


def clean_warning(text: str) -> str:
    """A C++ warning without the source position that torch appends."""
    return first_line(re.sub(r"\s*\(Triggered internally at .*\)\s*$", "", text, flags=re.DOTALL))


def _record(
    forward: Callable[[], object], device_type: str, config: RunConfig
) -> tuple[bytes, Analysis, Completeness]:
    """A recording that misses kernels is made once more; then it stands, marked as incomplete."""
    for _ in range(2):
        data = capture.record_trace(
            forward, device_type, config.forwards, synchronise=config.synchronise
        )
        trace = parse_trace(data)
        analysis = analyse(trace)
        checked = completeness(
            trace,
            analysis,
            expected_forwards=config.forwards,
            ran_on_gpu=device_type == "cuda",
        )
        if checked.complete:
            break
    return data, analysis, checked


def failure_text(config: RunConfig, error: Exception) -> str:
    """One sentence for what went wrong, with what to change where that is known."""
    text = str(error)
    if isinstance(error, MemoryError) or any(part in text for part in _OUT_OF_MEMORY):
        return (
            f"{config.label} at {config.spec.shape_text} ran out of memory; choose a smaller batch "
            "or seq_len, or a fused backend."
        )
    return f"{config.label} failed: {first_line(text) if text.strip() else type(error).__name__}"


def gib(size: int) -> str:
    """Such as "17.2 GiB"."""
    return f"{size / 2**30:,.1f} GiB"
