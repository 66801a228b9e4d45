"""The occupancy curves: where they step, and where the launch is marked."""

from typing import Any

import pytest

from profiling.figures_occupancy import occupancy_figure
from profiling.launch import Launch
from profiling.occupancy import Footprint, limits_for, occupancy
from profiling.occupancy_card import occupancy_card_html


def launch(registers: int, block: int, shared_memory: int = 0, device: str = "9.0") -> Launch:
    limits = limits_for(device)
    assert limits is not None
    return Launch(Footprint(registers, block, shared_memory), limits, None, None)


def traces(of: Launch) -> dict[str, dict[str, Any]]:
    return {trace["uid"]: trace for trace in occupancy_figure(of)["data"]}


def drawn_at(line: dict[str, Any], value: int) -> float:
    """What plotly's "vh" shape shows: each point's height reaches back to the point before it."""
    points = zip(line["customdata"], line["y"], strict=True)
    return next(float(pct) for end, pct in points if value <= end)


def test_the_marked_point_is_the_occupancy_by_hand() -> None:
    # 37 registers round to 40: 12 warps per sub-partition, 48 per SM, 4 blocks of 10: 40 of 64.
    drawn = traces(launch(37, 320))
    for vary, now in (("registers", 37), ("shared_memory", 0), ("block", 320)):
        mark = drawn[f"{vary}-now"]
        assert (mark["customdata"], mark["y"]) == ([now], [62.5])
        assert mark["text"][0].endswith(": 62.5 %")
        assert drawn_at(drawn[vary], now) == 62.5


def test_registers_step_at_multiples_of_eight() -> None:
    line = traces(launch(37, 320))["registers"]
    assert drawn_at(line, 32) == 93.75 and drawn_at(line, 33) == drawn_at(line, 40) == 62.5
    assert drawn_at(line, 41) == 62.5 and drawn_at(line, 49) == 46.875
    assert all(value % 8 == 0 for value in line["customdata"][1:-1])
    assert (line["customdata"][0], line["customdata"][-1]) == (1, 255)


def test_shared_memory_steps_where_the_limits_say() -> None:
    """228 KiB per SM, 1 KiB of each block reserved: two blocks of 113 KiB fit, and one beyond."""
    line = traces(launch(32, 128))["shared_memory"]
    assert drawn_at(line, 113 * 1024) == 12.5 and drawn_at(line, 113 * 1024 + 1) == 6.25
    assert line["x"][-1] == 227


@pytest.mark.parametrize("device", ["7.5", "8.0", "8.6", "9.0", "12.0"])
@pytest.mark.parametrize("shared_memory", [0, 1000, 49_153])
def test_every_value_is_drawn_at_its_own_occupancy(device: str, shared_memory: int) -> None:
    of = launch(72, 160, shared_memory, device)
    drawn = traces(of)
    for registers in range(1, 256):
        own = occupancy(Footprint(registers, 160, shared_memory), of.limits).theoretical_pct
        assert drawn_at(drawn["registers"], registers) == own
    for block in range(1, 1025):
        own = occupancy(Footprint(72, block, shared_memory), of.limits).theoretical_pct
        assert drawn_at(drawn["block"], block) == own
    for size in range(0, of.limits.shared_memory_per_block_optin_bytes, 101):
        own = occupancy(Footprint(72, 160, size), of.limits).theoretical_pct
        assert drawn_at(drawn["shared_memory"], size) == own


def test_a_launch_beyond_the_limit_is_still_on_the_axis() -> None:
    of = launch(32, 128, 300_000)
    line, mark = (traces(of)[uid] for uid in ("shared_memory", "shared_memory-now"))
    assert drawn_at(line, 300_000) == 0 and mark["y"] == [0]
    assert occupancy_figure(of)["layout"]["xaxis2"]["range"][1] > mark["x"][0]


def test_panels_lie_side_by_side() -> None:
    layout = occupancy_figure(launch(37, 320))["layout"]
    domains = [layout[axis]["domain"] for axis in ("xaxis", "xaxis2", "xaxis3")]
    assert all(left[1] < right[0] for left, right in zip(domains, domains[1:], strict=False))
    assert domains[-1][1] == pytest.approx(1)


def test_the_card_tells_all_and_escapes_the_name() -> None:
    shown = occupancy_card_html(launch(37, 320), "gemm<float>")
    assert "gemm&lt;float&gt;" in shown and "62.5 %" in shown
    assert "4 blocks per SM, 40 of 64 warps per SM." in shown
    assert "limited by registers" in shown and "not always faster" in shown
    limits = limits_for("9.0")
    assert limits is not None
    full = occupancy_card_html(Launch(Footprint(37, 320, 0), limits, 66, 132))
    assert "machine-wide 7.81 %, on busy SMs at most 15.62 %" in full
