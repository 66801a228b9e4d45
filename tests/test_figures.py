"""The figure as plotly gets it: lengths to the nanosecond, one axis, one colour per role."""

import base64
import struct
from pathlib import Path
from typing import Any

import pytest

from profiling.analysis import analyse
from profiling.figures import COLOURS, RunLanes, mixed, timeline_figure
from profiling.roles import ROLES
from profiling.timeline import Timeline, timeline
from profiling.trace import load_trace
from tests.test_timeline import durations_ns, raw_forwards


def decoded(array: dict[str, str]) -> list[float]:
    assert array["dtype"] == "f8"
    data = base64.b64decode(array["bdata"])
    return list(struct.unpack(f"<{len(data) // 8}d", data))


def lanes(path: Path, forward: int | None = 1) -> RunLanes:
    one = timeline(analyse(load_trace(path)), forward)
    return RunLanes("run <1>", "NVIDIA H200", "", "GPU 1 µs", one)


def gpu_lengths(trace: dict[str, Any]) -> list[int]:
    kept = zip(decoded(trace["x"]), trace["customdata"], strict=True)
    return [round(length * 1000) for length, (_, key) in kept if ".gpu." in key]


def test_drawn_lengths_are_the_durations(h200_trace: Path) -> None:
    """Every bar of the figure, in nanoseconds, against the raw trace."""
    raw = raw_forwards(h200_trace)[1]
    figure = timeline_figure([lanes(h200_trace)], view="")
    drawn = [round(x * 1000) for trace in figure["data"] for x in decoded(trace["x"])]
    events = [*raw["op"], *raw["call"], *raw["gpu"]]
    assert sorted(drawn) == sorted(durations_ns(events).elements())
    gpu = [ns for trace in figure["data"] for ns in gpu_lengths(trace)]
    assert sorted(gpu) == sorted(durations_ns(raw["gpu"]).elements())


def test_drawn_starts_are_those_of_the_events(h200_trace: Path) -> None:
    raw = raw_forwards(h200_trace)[1]
    figure = timeline_figure([lanes(h200_trace)], view="")
    starts = sorted(round(x * 1000) for trace in figure["data"] for x in decoded(trace["base"]))
    zero = round(raw["mark"][0]["ts"] * 1000)
    events = [*raw["op"], *raw["call"], *raw["gpu"]]
    assert starts == sorted(round(event["ts"] * 1000) - zero for event in events)


def test_runs_share_one_axis_and_do_not_overlap(h200_traces: dict[str, Path]) -> None:
    names = ("naive", "sdpa_math", "sdpa_flash")
    runs = [lanes(h200_traces[f"8_16_1024_64_{name}"]) for name in names]
    figure = timeline_figure(runs, view="")
    assert all("xaxis" not in trace for trace in figure["data"])
    axes = [figure["layout"][axis] for axis in ("yaxis", "yaxis2", "yaxis3")]
    domains = [axis["domain"] for axis in axes]
    assert all(above[0] > below[1] for above, below in zip(domains, domains[1:], strict=False))
    assert domains[-1][0] == pytest.approx(0)
    # A row of CPU ops is equally high in every run.
    heights = [(d[1] - d[0]) / a["range"][0] for d, a in zip(domains, axes, strict=True)]
    assert heights == pytest.approx([heights[0]] * 3)
    last_us = max(run.timeline.end_ns for run in runs) / 1000
    assert figure["layout"]["xaxis"]["range"][1] >= last_us


def test_a_role_has_one_colour_and_one_legend_entry(h200_traces: dict[str, Path]) -> None:
    runs = [lanes(h200_traces[f"8_16_1024_64_{name}"]) for name in ("naive", "inplace")]
    figure = timeline_figure(runs, view="")
    legend = [t["legendgroup"] for t in figure["data"] if t["showlegend"]]
    assert sorted(legend) == sorted(set(legend))
    for trace in figure["data"]:
        gpu = {
            colour
            for colour, (_, key) in zip(trace["marker"]["color"], trace["customdata"], strict=True)
            if ".gpu." in key
        }
        assert gpu <= {COLOURS[trace["legendgroup"]].lower()}
    assert len({t["uid"] for t in figure["data"]}) == len(figure["data"])


def test_colours_are_distinct_and_complete() -> None:
    assert set(COLOURS) == set(ROLES)
    assert len(set(COLOURS.values())) == len(ROLES)
    assert mixed("#000000", "#ffffff", 0.5) == "#808080"


def test_copies_and_memsets_carry_a_pattern(h200_traces: dict[str, Path]) -> None:
    figure = timeline_figure([lanes(h200_traces["8_16_1024_64_naive"])], view="")
    shapes = [
        shape for trace in figure["data"] for shape in trace["marker"]["pattern"]["shape"] if shape
    ]
    assert sorted(shapes) == ["/", "x"]


def test_text_from_a_trace_is_escaped(h200_trace: Path) -> None:
    figure = timeline_figure([lanes(h200_trace)], view="")
    assert "run &lt;1&gt;" in figure["layout"]["annotations"][0]["text"]
    for trace in figure["data"]:
        for hover in trace["hovertext"]:
            plain = hover.replace("<br>", "").replace("<b>", "").replace("</b>", "")
            assert "<" not in plain and ">" not in plain


def test_no_runs_and_an_empty_run_are_figures() -> None:
    assert timeline_figure([], view="")["data"] == []
    empty = RunLanes("x", "CPU", "", "", Timeline((), ()))
    assert timeline_figure([empty], view="")["data"] == []
