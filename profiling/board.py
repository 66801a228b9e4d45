"""The board: which runs stand on the page, and how they are looked at. Pure values, no gradio."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from attention.spec import AttentionSpec
from profiling.outcome import Outcome, Report, RunResult

MAX_RUNS = 6
# What the page opens with; one place stays free for the visitor's first run.
OPENING = ("naive", "naive_inplace", "sdpa:math", "sdpa:flash", "sdpa:cudnn")


class BoardFull(ValueError):
    """No place for another run; the message is one sentence."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One run on the board; `recorded` ones were not made in this session."""

    outcome: Outcome
    recorded: bool


@dataclass(frozen=True, slots=True)
class Board:
    """`baseline` indexes entries; None compares each run with the first of its own GPU and problem.

    `forward` is the index of the forward that is drawn, None for all. `published` shows the
    article's figures in the comparison.
    """

    entries: tuple[Entry, ...] = ()
    baseline: int | None = None
    forward: int | None = 1
    published: bool = False

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        return tuple(entry.outcome for entry in self.entries)

    @property
    def finished(self) -> tuple[RunResult, ...]:
        return tuple(outcome for outcome in self.outcomes if isinstance(outcome, RunResult))

    @property
    def forwards(self) -> int:
        """The most forwards that any run has recorded."""
        return max((len(run.analysis.forwards) for run in self.finished), default=0)

    @property
    def drawn_forward(self) -> int:
        """`forward` within what was recorded."""
        return max(0, min(self.forward or 0, self.forwards - 1))

    def has_problem(self, spec: AttentionSpec) -> bool:
        """Some finished run is of this problem."""
        return any(run.config.spec == spec for run in self.finished)

    def recorded_labels(self) -> list[str]:
        return [entry.outcome.config.label for entry in self.entries if entry.recorded]

    def check_room(self) -> None:
        """Raise BoardFull where the next run would have no place."""
        if len(self.entries) >= MAX_RUNS:
            raise BoardFull(
                f"The board holds {MAX_RUNS} runs; remove one of them before adding another."
            )

    def added(self, outcome: Outcome) -> "Board":
        """A run of this session at the end of the board."""
        self.check_room()
        return replace(self, entries=(*self.entries, Entry(outcome, recorded=False)))

    def removed(self, index: int) -> "Board":
        """Without entry `index`; an index that does not exist removes nothing."""
        if not 0 <= index < len(self.entries):
            return self
        entries = self.entries[:index] + self.entries[index + 1 :]
        baseline = self.baseline
        if baseline is not None and baseline >= index:
            baseline = None if baseline == index else baseline - 1
        return replace(self, entries=entries, baseline=baseline)

    def compared_with(self, index: int) -> "Board":
        """With entry `index` as the baseline; the same once more returns to the automatic one."""
        if not 0 <= index < len(self.entries):
            return self
        if not isinstance(self.entries[index].outcome, RunResult):
            return self
        return replace(self, baseline=None if self.baseline == index else index)

    def drawing(self, forward: int | None) -> "Board":
        return replace(self, forward=forward)

    def with_published(self, published: bool) -> "Board":
        return replace(self, published=published)

    def with_recorded(self, report: Report, labels: Sequence[str]) -> "Board":
        """Those of `report` named in `labels` in place of all recorded runs so far."""
        wanted = tuple(
            Entry(outcome, recorded=True)
            for outcome in report.outcomes
            if outcome.config.label in labels
        )
        own = tuple(entry for entry in self.entries if not entry.recorded)
        if len(wanted) + len(own) > MAX_RUNS:
            raise BoardFull(
                f"The board holds {MAX_RUNS} runs, {len(own)} of them made here; choose at most "
                f"{MAX_RUNS - len(own)} recorded ones, or remove some first."
            )
        entries = wanted + own
        compared = self.entries[self.baseline] if self.baseline is not None else None
        baseline = entries.index(compared) if compared in entries else None
        return replace(self, entries=entries, baseline=baseline)


def opening_labels(board: Board, available: Sequence[str]) -> list[str]:
    """What to open of another recorded problem: the same runs, or as many as there is room for."""
    own = len(board.entries) - len(board.recorded_labels())
    wanted = board.recorded_labels() or OPENING[: MAX_RUNS - own]
    return [label for label in available if label in wanted]


def problem(report: Report) -> AttentionSpec:
    """The problem that all outcomes of a recorded report share."""
    return report.outcomes[0].config.spec
