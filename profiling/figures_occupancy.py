"""Occupancy against registers, shared memory and block size, as one plotly figure: a plain dict."""

from typing import NamedTuple

from profiling.figures import COLOURS, Json
from profiling.launch import Launch
from profiling.occupancy import KIB, Vary, occupancy_curve
from profiling.wording import percent

_GAP = 0.06
# Room above 100 % for the label of the marked point.
_Y_RANGE = [0, 122]


class _Panel(NamedTuple):
    """`now` is the launch's own value; values are registers, bytes or threads over `unit`."""

    vary: Vary
    title: str
    now: int
    lowest: int
    unit: int
    tick: int | None


def occupancy_figure(launch: Launch) -> Json:
    """Three panels of theoretical occupancy in percent, side by side, the launch marked on each.

    Shared memory is drawn in KiB; `customdata` holds every value as typed: registers, bytes,
    threads.
    """
    data: list[Json] = []
    layout: Json = {
        "height": 260,
        "margin": {"l": 48, "r": 12, "t": 8, "b": 44},
        "showlegend": False,
        "dragmode": False,
        "hovermode": "closest",
        "font": {"size": 12},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
    }
    panels = _panels(launch)
    width = (1 - _GAP * (len(panels) - 1)) / len(panels)
    for index, panel in enumerate(panels):
        suffix = "" if index == 0 else str(index + 1)
        curve = _curve(launch, panel)
        axes = {"xaxis": f"x{suffix}", "yaxis": f"y{suffix}"}
        data += [_line(panel, curve) | axes, _mark(launch, panel, curve[-1][0]) | axes]
        left = index * (width + _GAP)
        layout[f"xaxis{suffix}"] = _x_axis(panel, curve[-1][0]) | {
            "domain": [left, left + width],
            "anchor": f"y{suffix}",
        }
        layout[f"yaxis{suffix}"] = _y_axis() | {"domain": [0, 1], "anchor": f"x{suffix}"}
    return {"data": data, "layout": layout}


def _panels(launch: Launch) -> tuple[_Panel, ...]:
    took = launch.footprint
    return (
        _Panel("registers", "Registers per thread", took.registers_per_thread, 1, 1, 64),
        _Panel(
            "shared_memory", "Shared memory per block, KiB", took.shared_memory_bytes, 0, KIB, None
        ),
        _Panel("block", "Threads per block", took.threads_per_block, 1, 1, 256),
    )


def _curve(launch: Launch, panel: _Panel) -> list[tuple[int, float]]:
    """Only the ends of steps: each holds from the point before it, exclusive, to itself.

    The hardware rounds every input up, hence a step belongs to the larger value.
    """
    every = occupancy_curve(launch.footprint, launch.limits, panel.vary)
    if panel.now > every[-1][0]:
        every.append((panel.now, launch.occupancy.theoretical_pct))
    ends = [here for here, after in zip(every, every[1:], strict=False) if here[1] != after[1]]
    return [(panel.lowest, every[0][1]), *ends, every[-1]]


def _line(panel: _Panel, curve: list[tuple[int, float]]) -> Json:
    return {
        "type": "scatter",
        "mode": "lines",
        "uid": panel.vary,
        "x": [value / panel.unit for value, _ in curve],
        "y": [pct for _, pct in curve],
        "customdata": [value for value, _ in curve],
        "line": {"shape": "vh", "width": 2},
        "hovertemplate": "up to %{customdata:,}: %{y:.4~g} %<extra></extra>",
    }


def _mark(launch: Launch, panel: _Panel, last: int) -> Json:
    pct = launch.occupancy.theoretical_pct
    unknown = " (unknown)" if panel.vary == "registers" and panel.now == 0 else ""
    label = f"{panel.now:,}{' B' if panel.vary == 'shared_memory' else ''}{unknown}: {percent(pct)}"
    return {
        "type": "scatter",
        "mode": "markers+text",
        "uid": f"{panel.vary}-now",
        "x": [panel.now / panel.unit],
        "y": [pct],
        "customdata": [panel.now],
        "text": [label],
        "textposition": "top left" if panel.now > 0.7 * last else "top right",
        "cliponaxis": False,
        "marker": {"size": 10, "color": COLOURS["attention"]},
        "hovertemplate": "this launch, %{text}<extra></extra>",
    }


def _x_axis(panel: _Panel, last: int) -> Json:
    end = last / panel.unit
    return {
        "title": {"text": panel.title, "standoff": 6, "font": {"size": 12}},
        "range": [-0.03 * end, 1.03 * end],
        "fixedrange": True,
        "zeroline": False,
        "dtick": panel.tick,
        "nticks": 5,
        "ticks": "outside",
        "ticklen": 4,
        "tickformat": ",~r",
    }


def _y_axis() -> Json:
    return {
        "range": _Y_RANGE,
        "tickvals": [0, 25, 50, 75, 100],
        "ticktext": ["0 %", "25 %", "50 %", "75 %", "100 %"],
        "fixedrange": True,
        "zeroline": False,
    }
