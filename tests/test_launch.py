"""Hand-typed launches: what is read, and the one sentence that refuses the rest."""

from typing import Any

import pytest

from attention.spec import SpecError
from profiling.cli import main
from profiling.launch import read_launch
from profiling.occupancy import Footprint
from profiling.panels.calculator import DEFAULTS, Typed

TYPED = {"registers": "37", "block": "320", "shared_memory": "0", "compute_capability": "9.0"}
WRONG = [
    ({"registers": "many"}, "registers must be a whole number; got 'many'."),
    ({"registers": ""}, "registers must be a whole number; got ''."),
    ({"registers": "256"}, "registers_per_thread must be 0 (unknown) to 255, got 256."),
    ({"registers": "nan"}, "registers must be a whole number; got 'nan'."),
    ({"block": "0"}, "threads_per_block must be 1 to 1024, got 0."),
    ({"block": "2.5"}, "block must be a whole number; got '2.5'."),
    ({"shared_memory": "x"}, "shared-memory must be a whole number; got 'x'."),
    ({"grid": "0"}, "grid must be a whole number from 1 to "),
    ({"grid": "many"}, "grid must be a whole number; got 'many'."),
    ({"sm_count": "2000"}, "sm-count must be a whole number from 1 to 1,024; got 2000."),
    ({"compute_capability": "6.1"}, "compute capability must be one of 7.0, "),
]


def test_texts_are_read() -> None:
    launch = read_launch(**TYPED, grid=" 1_056 ", sm_count="132.0")
    assert launch.footprint == Footprint(37, 320, 0)
    assert (launch.grid_blocks, launch.sm_count) == (1056, 132)
    # Eight blocks for each SM, of which four fit at once.
    assert launch.occupancy.blocks_per_sm == 4 and launch.occupancy.waves == 2


def test_what_is_not_given_stays_unknown() -> None:
    launch = read_launch(**TYPED)
    assert (launch.grid_blocks, launch.sm_count) == (None, None)
    assert launch.occupancy.waves is None


@pytest.mark.parametrize(("change", "sentence"), WRONG)
def test_the_command_line_and_the_page_refuse_alike(
    change: dict[str, str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    typed: dict[str, Any] = TYPED | change
    with pytest.raises(SpecError) as page:
        Typed(**typed).read()
    said = str(page.value)
    assert said.startswith(sentence) and said.endswith(".") and "\n" not in said
    options = [
        text for name, value in typed.items() for text in (f"--{name.replace('_', '-')}", value)
    ]
    assert main(["occupancy", *options]) == 2
    assert said in capsys.readouterr().err


def test_a_blank_grid_on_the_page_is_none() -> None:
    launch = DEFAULTS._replace(grid="  ", sm_count="").read()
    assert (launch.grid_blocks, launch.sm_count) == (None, None)
    assert launch.occupancy.theoretical_pct == 18.75
