"""Which run each run on the board is compared with."""

from collections.abc import Sequence

from profiling.outcome import Outcome, RunResult


def reference(run: RunResult, outcomes: Sequence[Outcome], baseline: int | None) -> RunResult:
    """The chosen `baseline`, else the first finished run of the same device and problem."""
    chosen = outcomes[baseline] if baseline is not None else None
    if isinstance(chosen, RunResult):
        return chosen
    finished = (outcome for outcome in outcomes if isinstance(outcome, RunResult))
    return next(other for other in finished if not foreign(run, other))


def foreign(run: RunResult, baseline: RunResult) -> str:
    """What keeps the two from being compared like with like, or nothing."""
    if run.environment.badge != baseline.environment.badge:
        return "another device"
    return "another problem" if run.config.spec != baseline.config.spec else ""
