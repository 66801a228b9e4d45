"""Bars against the raw JSON of recorded traces."""

import gzip
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiling.analysis import analyse
from profiling.timeline import Bar, Lane, Timeline, fitted, merged, timeline
from profiling.trace import load_trace
from tests.traces import annotation, kernel, launch, op, trace

GPU = ("kernel", "gpu_memcpy", "gpu_memset")


def raw_forwards(path: Path) -> list[dict[str, list[dict[str, Any]]]]:
    """Per annotated forward the raw events inside it, GPU ones by the correlation of their call."""
    with gzip.open(path) as file:
        events = [e for e in json.load(file)["traceEvents"] if e.get("ph") == "X"]
    marks = [e for e in events if e.get("cat") == "user_annotation" and e.get("name") == "attn_fwd"]
    forwards = []
    for mark in sorted(marks, key=lambda e: e["ts"]):
        start, end = mark["ts"], mark["ts"] + mark["dur"]

        def inside(*categories: str, start: float = start, end: float = end) -> list[Any]:
            return [e for e in events if e.get("cat") in categories and start <= e["ts"] < end]

        calls = inside("cuda_runtime", "cuda_driver")
        correlations = {call["args"]["correlation"] for call in calls}
        gpu = [
            e
            for e in events
            if e.get("cat") in GPU and e["args"].get("correlation") in correlations
        ]
        # torch.compile marks its regions with annotations of their own.
        ops = [event for event in inside("cpu_op", "user_annotation") if event is not mark]
        forwards.append({"mark": [mark], "op": ops, "call": calls, "gpu": gpu})
    return forwards


def durations_ns(events: Sequence[dict[str, Any]]) -> Counter[int]:
    return Counter(round(event["dur"] * 1000) for event in events)


def starts_ns(events: Sequence[dict[str, Any]], mark: dict[str, Any]) -> list[int]:
    return sorted(round(e["ts"] * 1000) - round(mark["ts"] * 1000) for e in events)


def of(one: Timeline, group: str) -> list[Bar]:
    return [bar for bar in one.bars if one.lanes[bar.lane].group == group]


@pytest.mark.parametrize("forward", [0, 1, 2])
def test_bars_are_the_events_of_the_forward(h200_trace: Path, forward: int) -> None:
    raw = raw_forwards(h200_trace)[forward]
    one = timeline(analyse(load_trace(h200_trace)), forward)
    for group, kind in (("CPU ops", "op"), ("launch calls", "call"), ("GPU stream", "gpu")):
        bars = of(one, group)
        assert Counter(bar.dur_ns for bar in bars) == durations_ns(raw[kind])
        assert sorted(bar.start_ns for bar in bars) == starts_ns(raw[kind], raw["mark"][0])
        assert all(bar.busy_ns == bar.dur_ns and bar.count == 1 for bar in bars)


def test_all_forwards_count_from_the_first(h200_traces: dict[str, Path]) -> None:
    path = h200_traces["8_16_1024_64_naive"]
    raw = raw_forwards(path)
    one = timeline(analyse(load_trace(path)), None)
    gpu = [event for forward in raw for event in forward["gpu"]]
    assert len(of(one, "GPU stream")) == len(gpu) == 3 * 7
    assert sorted(b.start_ns for b in of(one, "GPU stream")) == starts_ns(gpu, raw[0]["mark"][0])


def test_lanes_of_naive(h200_traces: dict[str, Path]) -> None:
    one = timeline(analyse(load_trace(h200_traces["8_16_1024_64_naive"])), 1)
    assert [lane.label for lane in one.lanes] == ["CPU ops", "launch calls", "GPU stream 7"]
    roles = [bar.role for bar in of(one, "GPU stream")]
    assert roles == ["qk", "qk", "scale", "mask", "mask", "softmax", "pv"]
    kinds = [bar.kind for bar in of(one, "GPU stream")]
    assert kinds == ["memset", "kernel", "kernel", "memcpy", "kernel", "kernel", "kernel"]


def test_inner_ops_lie_below_and_within_outer_ones(h200_trace: Path) -> None:
    one = timeline(analyse(load_trace(h200_trace)), 1)
    ops = of(one, "CPU ops")
    for bar in ops:
        if bar.depth:
            assert any(
                outer.depth == bar.depth - 1
                and outer.start_ns <= bar.start_ns
                and bar.end_ns <= outer.end_ns
                for outer in ops
            )


def test_facts_of_a_kernel(h200_traces: dict[str, Path]) -> None:
    one = timeline(analyse(load_trace(h200_traces["8_16_1024_64_sdpa_flash"])), 1)
    facts = dict(of(one, "GPU stream")[0].facts)
    assert "flash_fwd_kernel" in facts["name"]
    assert facts["launched by"].startswith("cudaLaunchKernel, ")
    assert facts["registers per thread"] == "255"
    assert facts["shared memory per block"] == "49,152 B"
    assert facts["block"] == "128 × 1 × 1 threads"
    assert facts["occupancy, theoretical"] == "12.5 %, limited by registers"
    assert facts["occupancy, Kineto"] == "13 %"
    assert facts["caused by"].startswith("attn_fwd › aten::scaled_dot_product_attention › ")


def test_facts_say_why_kineto_reads_zero(h200_traces: dict[str, Path]) -> None:
    one = timeline(analyse(load_trace(h200_traces["8_16_1024_64_sdpa_cudnn"])), 1)
    facts = dict(of(one, "GPU stream")[-1].facts)
    assert facts["occupancy, Kineto"] == "0 %"
    assert facts["occupancy, theoretical"].startswith("18.75 %")
    assert "49,152 B" in facts["why they differ"]


def test_a_copy_tells_its_bytes(h200_traces: dict[str, Path]) -> None:
    one = timeline(analyse(load_trace(h200_traces["8_16_1024_64_naive"])), 1)
    copy = next(bar for bar in one.bars if bar.kind == "memcpy")
    assert dict(copy.facts)["bytes"] == "268,435,456 B"


def test_threads_and_streams_have_lanes_of_their_own() -> None:
    events = (
        annotation(0, 100),
        op("aten::softmax", 10, 50),
        launch(1, 12),
        launch(2, 20, tid=101),
        kernel(1, 30, 5),
        kernel(2, 40, 5) | {"tid": 13},
    )
    one = timeline(analyse(trace(*events)), 0)
    assert [lane.label for lane in one.lanes] == [
        "CPU ops",
        "launch calls, thread 1",
        "launch calls, thread 2",
        "GPU stream 13",
        "GPU stream 7",
    ]


def test_nothing_recorded_is_an_empty_timeline() -> None:
    assert timeline(analyse(trace()), 1) == Timeline((), ())


def test_a_forward_beyond_the_last_takes_the_last(h200_traces: dict[str, Path]) -> None:
    analysis = analyse(load_trace(h200_traces["8_16_1024_64_naive"]))
    assert timeline(analysis, 7) == timeline(analysis, 2)


def row(*spans: tuple[int, int]) -> Timeline:
    bars = tuple(
        Bar(0, 0, start, dur, dur, "op", "qk", "op", f"0.op.{i}", (("name", "op"),))
        for i, (start, dur) in enumerate(spans)
    )
    return Timeline((Lane("CPU ops", "CPU ops", 1),), bars)


def test_joined_bars_span_what_they_cover() -> None:
    one = merged(row((0, 4), (6, 3), (9, 2), (40, 30), (100, 5)), width_ns=10)
    assert [(b.start_ns, b.dur_ns, b.busy_ns, b.count) for b in one.bars] == [
        (0, 11, 9, 3),
        (40, 30, 30, 1),
        (100, 5, 5, 1),
    ]
    assert one.bars[0].label == "3 events"
    assert dict(one.bars[0].facts)["covered"] == "0.009 µs of 0.011 µs"
    assert one.merged_events == 3


@given(
    st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 200)), min_size=1, max_size=60),
    st.integers(0, 500),
)
def test_joining_loses_no_event_and_stretches_none(
    spans: list[tuple[int, int]], width_ns: int
) -> None:
    plain = row(*sorted(spans))
    one = merged(plain, width_ns)
    assert sum(bar.count for bar in one.bars) == len(spans)
    assert min(bar.start_ns for bar in one.bars) == min(start for start, _ in spans)
    assert one.end_ns == plain.end_ns
    assert all(bar.busy_ns <= bar.dur_ns for bar in one.bars)


def test_bars_are_joined_only_beyond_the_budget() -> None:
    many = row(*((i * 10, 5) for i in range(3000)))
    assert fitted([many], max_bars=3000) == [many]
    fewer = fitted([many, row((0, 30_000))], max_bars=500)
    assert sum(len(one.bars) for one in fewer) <= 500
    assert sum(bar.count for one in fewer for bar in one.bars) == 3001
    assert fewer[1].bars[0].dur_ns == 30_000
