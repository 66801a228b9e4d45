"""What may stand on the board."""

import pytest

from profiling.board import MAX_RUNS, OPENING, Board, BoardFull, Entry, opening_labels
from profiling.outcome import Report
from tests.runs import H200, cpu_run, flash, math, naive, skipped

REPORT = Report(H200, (naive(), math(), flash()))


def recorded(*labels: str) -> Board:
    return Board().with_recorded(REPORT, labels)


def labels(board: Board) -> list[str]:
    return [outcome.config.label for outcome in board.outcomes]


def test_runs_are_added_at_the_end_up_to_six() -> None:
    board = recorded("naive", "sdpa:flash")
    for _ in range(MAX_RUNS - 2):
        board = board.added(skipped())
    assert labels(board) == ["naive", "sdpa:flash", *["sdpa:cudnn"] * 4]
    with pytest.raises(BoardFull, match="holds 6 runs"):
        board.added(cpu_run())


def test_recorded_runs_are_exchanged_and_own_runs_stay() -> None:
    board = recorded("naive", "sdpa:flash").added(cpu_run())
    board = board.with_recorded(REPORT, ["sdpa:math"])
    assert labels(board) == ["sdpa:math", "naive"]
    assert board.recorded_labels() == ["sdpa:math"]


def test_too_many_recorded_runs_are_refused() -> None:
    board = Board(tuple(Entry(skipped(), recorded=False) for _ in range(4)))
    with pytest.raises(BoardFull, match="at most 2 recorded"):
        board.with_recorded(REPORT, ["naive", "sdpa:math", "sdpa:flash"])


def test_baseline_follows_its_run() -> None:
    board = recorded("naive", "sdpa:math", "sdpa:flash").compared_with(2)
    assert board.removed(0).baseline == 1
    assert board.removed(2).baseline is None
    assert board.compared_with(2).baseline is None
    assert board.with_recorded(REPORT, ["sdpa:flash"]).baseline == 0
    assert board.with_recorded(REPORT, ["naive"]).baseline is None


@pytest.mark.parametrize("index", [-1, 3, 99])
def test_an_index_from_a_stranger_changes_nothing(index: int) -> None:
    board = recorded("naive", "sdpa:math", "sdpa:flash")
    assert board.removed(index) == board
    assert board.compared_with(index) == board


def test_a_run_without_numbers_is_no_baseline() -> None:
    board = recorded("naive").added(skipped())
    assert board.compared_with(1).baseline is None


def test_drawn_forward_stays_within_what_is_recorded() -> None:
    assert recorded("naive").drawing(7).drawn_forward == 2
    assert Board().drawn_forward == 0


def test_opening_leaves_room_and_keeps_the_choice() -> None:
    available = ["naive", "naive_inplace", "sdpa:auto", "sdpa:math", "sdpa:flash", "sdpa:cudnn"]
    assert len(OPENING) < MAX_RUNS
    assert opening_labels(Board(), available) == list(OPENING)
    assert opening_labels(recorded("sdpa:math"), available) == ["sdpa:math"]
    full = Board(tuple(Entry(skipped(), recorded=False) for _ in range(5)))
    assert opening_labels(full, available) == ["naive"]
