"""The timeline as a plotly figure: a plain dict, since go.Figure costs more than drawing does.

All runs share one x axis in microseconds; each has a y axis of its own, in units of one row of CPU
ops. Numbers are float64 typed arrays: plotly's JSON of float32 would lose the nanoseconds.
"""

import textwrap
from array import array
from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Literal

from profiling.roles import ROLES, Role
from profiling.timeline import Bar, Group, Timeline

Json = dict[str, Any]
Theme = Literal["light", "dark"]

# Okabe and Ito's colours, which stay apart for colour-blind readers, and two greys.
COLOURS: dict[Role, str] = {
    "qk": "#0072B2",
    "scale": "#56B4E9",
    "mask": "#E69F00",
    "softmax": "#009E73",
    "pv": "#CC79A7",
    "attention": "#D55E00",
    "copy": "#F0E442",
    "cast": "#7F7F7F",
    "other": "#B8B8B8",
}
ROLE_LABELS: dict[Role, str] = {
    "qk": "QKᵀ",
    "scale": "scale",
    "mask": "mask",
    "softmax": "softmax",
    "pv": "PV",
    "attention": "fused attention",
    "copy": "copy",
    "cast": "cast",
    "other": "other",
}
# What is no kernel carries a pattern beside its colour.
_PATTERNS = {"memcpy": "/", "memset": "x"}

# How much of the background is mixed into the role's colour.
_TINTS: dict[Group, float] = {"CPU ops": 0.62, "launch calls": 0.35, "GPU stream": 0.0}
_INK = {"light": "#1f2430", "dark": "#e6e8ee"}
_MUTED = "#5b6270"
_PAPER = {"light": "#ffffff", "dark": "#0f1117"}

_ROW_PX = 18
_GPU_ROWS = 1.7
_GAP_ROWS = 0.35
_TITLE_PX = 44
_AXIS_PX = 40
_HOVER_COLUMNS = 76
# A hairline around anything narrower would hide it.
_OUTLINED_SHARE = 0.004


@dataclass(frozen=True, slots=True)
class RunLanes:
    """One subplot: `title`, `badge` and `problem` on its first line, `headline` on the second."""

    title: str
    badge: str
    problem: str
    headline: str
    timeline: Timeline


def timeline_figure(
    runs: Sequence[RunLanes],
    view: str,
    x_title: str = "µs from the start of the forward",
    theme: Theme = "light",
) -> Json:
    """The runs below each other; zoom is kept from figure to figure while `view` stays the same."""
    heights = [_height_rows(run.timeline) * _ROW_PX for run in runs]
    total_px = sum(heights) + len(runs) * _TITLE_PX or 1
    layout: Json = {
        "height": round(total_px + _AXIS_PX),
        "margin": {"l": 96, "r": 12, "t": 0, "b": _AXIS_PX},
        "barmode": "overlay",
        "bargap": 0,
        "dragmode": "zoom",
        "hovermode": "closest",
        "hoverlabel": {"align": "left", "namelength": 0},
        "uirevision": view,
        "uniformtext": {"minsize": 10, "mode": "hide"},
        "font": {"size": 12, "color": _INK[theme]},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "legend": {"orientation": "h", "y": 1, "yanchor": "bottom", "groupclick": "togglegroup"},
        "annotations": [],
        "xaxis": _x_axis(runs, x_title),
        "meta": {
            "tints": _TINTS,
            "colours": COLOURS,
            "muted": _MUTED,
            "short_titles": [_title_text(run.title, run.badge, run.headline) for run in runs],
        },
    }
    data: list[Json] = []
    end_ns = max((run.timeline.end_ns for run in runs), default=0)
    top_px = 0.0
    shown: set[Role] = set()
    for number, (run, height_px) in enumerate(zip(runs, heights, strict=True), start=1):
        title_y = 1 - top_px / total_px
        top_px += _TITLE_PX
        domain = [max(0.0, 1 - (top_px + height_px) / total_px), 1 - top_px / total_px]
        top_px += height_px
        axis = "y" if number == 1 else f"y{number}"
        layout[f"yaxis{axis[1:]}"] = _y_axis(run.timeline, domain)
        layout["annotations"].append(_title(run, title_y))
        data += _traces(run, number, axis, shown, theme, end_ns * _OUTLINED_SHARE)
    return {"data": data, "layout": layout}


def float64(values: Sequence[float]) -> Json:
    """plotly's typed-array form of `values`."""
    return {"dtype": "f8", "bdata": b64encode(array("d", values).tobytes()).decode()}


def mixed(colour: str, paper: str, share: float) -> str:
    """`colour` with `share` of `paper` mixed in, both as #rrggbb."""
    pairs = zip(_rgb(colour), _rgb(paper), strict=True)
    return "#" + "".join(f"{round(c + (p - c) * share):02x}" for c, p in pairs)


def _rgb(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def _ink_on(colour: str) -> str:
    red, green, blue = _rgb(colour)
    return _INK["light"] if 0.299 * red + 0.587 * green + 0.114 * blue > 140 else "#ffffff"


def _x_axis(runs: Sequence[RunLanes], title: str) -> Json:
    end_us = max((run.timeline.end_ns for run in runs), default=0) / 1000
    return {
        "title": {
            "text": escape(title),
            "standoff": 6,
            "font": {"size": 12},
        },
        "range": [-0.01 * end_us, 1.02 * end_us or 1],
        "anchor": f"y{len(runs)}" if len(runs) > 1 else "y",
        "side": "bottom",
        "zeroline": True,
        "zerolinewidth": 1,
        "ticks": "outside",
        "ticklen": 4,
        "hoverformat": ",.3f",
        "tickformat": ",~r",
        "exponentformat": "none",
    }


def _y_axis(timeline: Timeline, domain: list[float]) -> Json:
    tops = _lane_tops(timeline)
    middles = [
        top + depths * height / 2
        for top, (depths, height) in zip(tops, _lane_sizes(timeline), strict=True)
    ]
    return {
        "domain": domain,
        "range": [_height_rows(timeline), 0],
        "fixedrange": True,
        "tickmode": "array",
        "tickvals": middles,
        "ticktext": [lane.label for lane in timeline.lanes],
        "tickfont": {"size": 11},
        "ticks": "",
        "showgrid": False,
        "zeroline": False,
    }


def _lane_sizes(timeline: Timeline) -> list[tuple[int, float]]:
    """(depths, rows per depth) of each lane."""
    return [
        (lane.depths, _GPU_ROWS if lane.group == "GPU stream" else 1.0) for lane in timeline.lanes
    ]


def _lane_tops(timeline: Timeline) -> list[float]:
    tops, top = [], _GAP_ROWS / 2
    for depths, height in _lane_sizes(timeline):
        tops.append(top)
        top += depths * height + _GAP_ROWS
    return tops


def _height_rows(timeline: Timeline) -> float:
    return sum(depths * height + _GAP_ROWS for depths, height in _lane_sizes(timeline)) or 1.0


def _title(run: RunLanes, y: float) -> Json:
    return {
        "text": _title_text(
            run.title, ", ".join(filter(None, (run.badge, run.problem))), run.headline
        ),
        "xref": "paper",
        "yref": "paper",
        "x": 0,
        "xshift": -96,
        "y": y,
        "yshift": -6,
        "xanchor": "left",
        "yanchor": "top",
        "align": "left",
        "showarrow": False,
        "font": {"size": 13},
    }


def _title_text(title: str, badge: str, headline: str) -> str:
    return (
        f"<b>{escape(title)}</b>  <span style='color:{_MUTED}'>{escape(badge)}</span><br>"
        f"<span style='font-size:12px;color:{_MUTED}'>{escape(headline)}</span>"
    )


def _traces(
    run: RunLanes, number: int, axis: str, shown: set[Role], theme: Theme, outlined_ns: float
) -> Iterator[Json]:
    """One bar trace per role; `shown` holds the roles that already have an entry in the legend.

    GPU bars from `outlined_ns` on get a hairline, so that neighbours of one role stay apart.
    """
    tops, sizes = _lane_tops(run.timeline), _lane_sizes(run.timeline)
    for rank, role in enumerate(ROLES):
        bars = [bar for bar in run.timeline.bars if bar.role == role]
        if not bars:
            continue
        groups = [run.timeline.lanes[bar.lane].group for bar in bars]
        heights = [sizes[bar.lane][1] for bar in bars]
        centres = [
            tops[bar.lane] + (bar.depth + 0.5) * height
            for bar, height in zip(bars, heights, strict=True)
        ]
        colours = [mixed(COLOURS[role], _PAPER[theme], _TINTS[group]) for group in groups]
        yield {
            "type": "bar",
            "orientation": "h",
            "name": ROLE_LABELS[role],
            "legendgroup": role,
            "legendrank": rank,
            "showlegend": role not in shown,
            "uid": f"run{number}-{role}",
            "meta": {"role": role, "groups": groups},
            "yaxis": axis,
            "base": float64([bar.start_ns / 1000 for bar in bars]),
            "x": float64([bar.dur_ns / 1000 for bar in bars]),
            "y": float64(centres),
            "width": float64([height - 0.12 for height in heights]),
            "marker": {
                "color": colours,
                "line": {
                    "color": _PAPER[theme],
                    "width": [
                        0.7 if group == "GPU stream" and bar.dur_ns >= outlined_ns else 0
                        for group, bar in zip(groups, bars, strict=True)
                    ],
                },
                "pattern": {
                    "shape": [_PATTERNS.get(bar.kind, "") for bar in bars],
                    "solidity": 0.25,
                    "size": 6,
                    "bgcolor": COLOURS[role],
                    "fgcolor": _INK[theme],
                    "fillmode": "overlay",
                    "fgopacity": 0.55,
                },
            },
            "text": [_text(bar) for bar in bars],
            "textposition": "inside",
            "insidetextanchor": "middle",
            "textangle": 0,
            "insidetextfont": {"size": 10, "color": [_ink_on(colour) for colour in colours]},
            "customdata": [[bar.dur_ns / 1000, bar.key] for bar in bars],
            "hovertext": [_hover(bar) for bar in bars],
            "hovertemplate": "%{hovertext}<extra></extra>",
        }
        shown.add(role)


def _text(bar: Bar) -> str:
    """What stands on a bar that is wide enough: the role of a GPU activity, the name of an op."""
    if bar.count > 1 or bar.kind in ("op", "call"):
        return escape(bar.label)
    return ROLE_LABELS[bar.role] if bar.kind == "kernel" else _KIND_NAMES[bar.kind]


def _hover(bar: Bar) -> str:
    """Full name, then what is known of it, one fact per line."""
    facts = list(bar.facts)
    title = "<br>".join(f"<b>{line}</b>" for line in _wrapped(facts[0][1]))
    times = f"{bar.dur_ns / 1000:,.3f} µs, from {bar.start_ns / 1000:,.3f} µs"
    lines = [f"{_KIND_NAMES[bar.kind]}, role {ROLE_LABELS[bar.role]}", times]
    for name, value in facts[1:]:
        first, *rest = _wrapped(f"{name}: {value}")
        lines += [first, *(f"    {line}" for line in rest)]
    return "<br>".join([title, *lines])


_KIND_NAMES = {
    "op": "CPU op",
    "call": "CUDA call",
    "kernel": "kernel",
    "memcpy": "copy",
    "memset": "memset",
}


def _wrapped(text: str) -> list[str]:
    lines = textwrap.wrap(text, _HOVER_COLUMNS, break_on_hyphens=False) or [""]
    return [escape(line) for line in lines]
