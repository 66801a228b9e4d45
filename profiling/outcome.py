"""What a run ends in: measured numbers, a reason why it cannot run here, or a failure."""

from dataclasses import dataclass

from attention.numerics import Numerics
from profiling.analysis import Analysis
from profiling.completeness import Completeness
from profiling.config import RunConfig


@dataclass(frozen=True, slots=True)
class Environment:
    """Where and with what a run happened; None for what there is not (no GPU: no CUDA, no driver).

    `no_gpu_reason` is a sentence when no CUDA GPU can be used.
    """

    gpu: str | None
    compute_capability: str | None
    sm_count: int | None
    gpu_memory_bytes: int | None
    cpu: str
    python: str
    torch: str
    cuda: str | None
    cudnn: str | None
    driver: str | None
    date: str
    no_gpu_reason: str | None

    @property
    def badge(self) -> str:
        """Short name of the device for people: "NVIDIA H200" or "CPU"."""
        return self.gpu or "CPU"


@dataclass(frozen=True, slots=True)
class Spread:
    """Median, 10th and 90th percentile in microseconds."""

    median: float
    p10: float
    p90: float


@dataclass(frozen=True, slots=True)
class Unprofiled:
    """Times without the profiler, in microseconds; each `_reason` says why a value is missing.

    cpu_time_us: enqueueing one forward while the GPU is idle (on a CPU: the whole forward).
    gpu_time_us: between two CUDA events around one forward. gpu_graph_us: CUDA-graph replay.
    """

    cpu_time_us: Spread
    gpu_time_us: Spread | None
    gpu_graph_us: float | None
    gpu_graph_reason: str | None
    first_call_us: float | None
    first_call_reason: str | None
    repeats: int


@dataclass(frozen=True, eq=False)
class RunResult:
    """A finished run. `trace` is the recorded Chrome trace, gzip-compressed; peak memory is what
    one forward allocates beyond its inputs at the worst moment (None on a CPU)."""

    config: RunConfig
    environment: Environment
    trace: bytes
    analysis: Analysis
    completeness: Completeness
    unprofiled: Unprofiled
    peak_memory_bytes: int | None
    numerics: Numerics


@dataclass(frozen=True, slots=True)
class Skipped:
    """This cannot run here, for `reason`: a result, not an error."""

    config: RunConfig
    environment: Environment
    reason: str


@dataclass(frozen=True, slots=True)
class Failed:
    """It was tried and went wrong; `message` is one sentence."""

    config: RunConfig
    environment: Environment
    message: str


Outcome = RunResult | Skipped | Failed


@dataclass(frozen=True, eq=False)
class Report:
    """Outcomes in the order in which they were asked for."""

    environment: Environment
    outcomes: tuple[Outcome, ...]


def status(outcome: Outcome) -> str:
    """The contract's word: ok, skipped or failed."""
    return {RunResult: "ok", Skipped: "skipped", Failed: "failed"}[type(outcome)]


def reason(outcome: Outcome) -> str | None:
    """Why there are no numbers, or None."""
    if isinstance(outcome, Skipped):
        return outcome.reason
    return outcome.message if isinstance(outcome, Failed) else None
