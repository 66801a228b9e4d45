"""What a rule reads and what it says."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from profiling.analysis import Analysis, KernelRow
from profiling.completeness import Completeness
from profiling.config import RunConfig
from profiling.outcome import RunResult, Unprofiled
from profiling.verdict import Verdict, verdict

_WHOLE_ATTENTION = ("aten::scaled_dot_product_attention", "aten::_scaled_dot_product")

Severity = Literal["info", "warning", "problem"]
SEVERITIES: tuple[Severity, ...] = ("problem", "warning", "info")


@dataclass(frozen=True, slots=True)
class Finding:
    """One explained surprise. `try_instead` is the label of a run that shows the way out."""

    rule: str
    severity: Severity
    title: str
    evidence: str
    advice: str
    try_instead: str | None = None


@dataclass(frozen=True, eq=False)
class Subject:
    """One run as the rules see it; a trace from elsewhere has no `config` and no `unprofiled`."""

    analysis: Analysis
    completeness: Completeness
    config: RunConfig | None = None
    unprofiled: Unprofiled | None = None

    @cached_property
    def verdict(self) -> Verdict:
        return verdict(self.analysis, self.unprofiled)

    @property
    def busy_us(self) -> float:
        """GPU busy per forward; 0 where nothing ran on a GPU."""
        return self.analysis.per_forward.gpu_busy_us or 0.0


def subject_of(run: RunResult) -> Subject:
    """A finished run, with its settings and its times without the profiler."""
    return Subject(run.analysis, run.completeness, run.config, run.unprofiled)


Rule = Callable[[Subject], Iterable[Finding]]
Comparison = Callable[[Subject, Subject], Iterable[Finding]]


def us_per_forward(rows: Iterable[KernelRow]) -> float:
    """GPU time of these rows in one forward."""
    return sum(row.mean_us * row.count_per_forward for row in rows)


def telling_op(chain: Iterable[str]) -> str:
    """The outermost op that is not the attention as a whole; "" where there is none."""
    ops = (op for op in chain if op.startswith("aten::") and not op.startswith(_WHOLE_ATTENTION))
    return next(ops, "")


def count_per_forward(rows: Iterable[KernelRow]) -> float:
    return sum(row.count_per_forward for row in rows)
