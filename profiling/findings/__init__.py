"""What the numbers of a run mean: short rules, each with its evidence and advice.

A rule is a function from a Subject to findings, listed in RULES; one for two runs is listed in
COMPARISONS. A rule that lacks its evidence says nothing.
"""

from profiling.findings.comparison import (
    different_gpu,
    different_problem,
    fused,
    gpu_time_changed,
    host_time_changed,
    role_changed,
)
from profiling.findings.finding import (
    SEVERITIES,
    Comparison,
    Finding,
    Rule,
    Severity,
    Subject,
    subject_of,
)
from profiling.findings.kernels import (
    backend_fell_back,
    backend_that_ran,
    cuda_core_matmul,
    driver_launch,
    low_occupancy_is_fine,
    occupancy_misreported,
    split_kv,
)
from profiling.findings.memory import (
    fp32_upcast,
    hidden_copy,
    mask_rebuilt,
    safe_softmax,
    scores_materialised,
)
from profiling.findings.run import first_call_cost, host_bound, incomplete_capture, step_outlier

__all__ = [
    "COMPARISONS",
    "RULES",
    "SEVERITIES",
    "Finding",
    "Severity",
    "Subject",
    "backend_that_ran",
    "compare",
    "find",
    "subject_of",
]

RULES: tuple[Rule, ...] = (
    incomplete_capture,
    backend_fell_back,
    host_bound,
    hidden_copy,
    scores_materialised,
    cuda_core_matmul,
    fp32_upcast,
    safe_softmax,
    mask_rebuilt,
    first_call_cost,
    step_outlier,
    split_kv,
    low_occupancy_is_fine,
    occupancy_misreported,
    driver_launch,
)

COMPARISONS: tuple[Comparison, ...] = (
    different_gpu,
    different_problem,
    fused,
    role_changed,
    gpu_time_changed,
    host_time_changed,
)


def find(subject: Subject) -> tuple[Finding, ...]:
    """What there is to say of one run, problems first."""
    return _ordered([finding for rule in RULES for finding in rule(subject)])


def compare(run: Subject, baseline: Subject) -> tuple[Finding, ...]:
    """What `run` does otherwise than `baseline`, warnings first."""
    return _ordered([finding for rule in COMPARISONS for finding in rule(run, baseline)])


def _ordered(findings: list[Finding]) -> tuple[Finding, ...]:
    return tuple(sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity)))
