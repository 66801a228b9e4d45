"""Counts, times, causes and roles: of recorded H200 traces by literals and by an oracle that joins
differently, and of hand-built traces for what goes wrong in the field."""

import gzip
import json
from bisect import bisect_right
from collections import Counter
from decimal import Decimal
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiling.analysis import Analysis, Region, analyse, is_launch, union_ns
from profiling.roles import Role, role_of, step_of
from profiling.trace import Device, load_trace
from tests.traces import (
    A100,
    H200,
    Raw,
    annotation,
    event,
    kernel,
    launch,
    memcpy,
    memset,
    op,
    trace,
)

# Recorded traces

# kernels, memcpys, memsets per forward; GPU busy µs; activities that belong to no forward.
MEASURED = {
    "8_16_1024_64_naive": (5, 1, 1, 1064.6, 2),
    "8_16_1024_64_inplace": (5, 0, 1, 938.2, 2),
    "8_16_1024_64_naive_compiled": (3, 0, 1, 325.5, 0),
    "8_16_1024_64_sdpa_math": (20, 0, 0, 2622.2, 9),
    "8_16_1024_64_sdpa_efficient": (1, 0, 0, 178.1, 0),
    "8_16_1024_64_sdpa_flash": (1, 0, 0, 94.7, 0),
    "8_16_1024_64_sdpa_cudnn": (1, 0, 1, 57.2, 0),
    "8_16_1024_64_sdpa_auto": (1, 0, 1, 58.0, 0),
    "8_16_1024_64_flex": (1, 0, 0, 80.5, 0),
    "1_8_128_64_naive": (5, 1, 0, 12.5, 0),
    "1_8_128_64_inplace": (5, 0, 0, 11.6, 0),
    "1_8_128_64_naive_compiled": (3, 0, 0, 7.2, 0),
    "1_8_128_64_sdpa_math": (20, 0, 0, 37.0, 0),
    "1_8_128_64_sdpa_efficient": (1, 0, 0, 7.1, 0),
    "1_8_128_64_sdpa_flash": (1, 0, 0, 5.5, 0),
    "1_8_128_64_sdpa_cudnn": (1, 0, 1, 5.0, 0),
    "1_8_128_64_sdpa_auto": (1, 0, 1, 4.9, 0),
    "1_8_128_64_flex": (1, 0, 0, 8.6, 0),
}

# The role of every GPU activity of a forward, in order; kinds other than kernel are named.
ROLES_IN_ORDER = {
    "8_16_1024_64_naive": "memset:qk qk scale memcpy:mask mask softmax pv",
    "8_16_1024_64_inplace": "memset:qk qk scale mask softmax pv",
    "8_16_1024_64_naive_compiled": "memset:qk qk softmax pv",
    "1_8_128_64_naive": "qk scale memcpy:mask mask softmax pv",
    "1_8_128_64_inplace": "qk scale mask softmax pv",
    "1_8_128_64_naive_compiled": "qk softmax pv",
    "sdpa_math": "cast cast cast scale mask mask mask mask mask scale qk mask "
    "softmax softmax softmax softmax softmax cast pv cast",
    "sdpa_efficient": "attention",
    "sdpa_flash": "attention",
    "sdpa_cudnn": "memset:attention attention",
    "sdpa_auto": "memset:attention attention",
    "flex": "attention",
}


def name_of(path: Path) -> str:
    return path.name.removesuffix(".json.gz")


def counts(analysis: Analysis) -> tuple[float | None, float | None, float | None]:
    per = analysis.per_forward
    return per.kernels, per.memcpys, per.memsets


def test_every_recorded_trace_is_known(h200_traces: dict[str, Path]) -> None:
    assert h200_traces.keys() == MEASURED.keys()


def test_counts_and_busy_time_of_recorded_traces(h200_trace: Path) -> None:
    analysis = analyse(load_trace(h200_trace))
    kernels, memcpys, memsets, busy_us, unattributed = MEASURED[name_of(h200_trace)]
    assert counts(analysis) == (kernels, memcpys, memsets)
    assert analysis.per_forward.gpu_busy_us == pytest.approx(busy_us, abs=0.05)
    assert analysis.unattributed_activities == unattributed
    assert analysis.launches_without_kernel == 0
    assert analysis.complete
    assert analysis.region == Region("annotation", "attn_fwd", 3)
    assert analysis.device == Device("NVIDIA H200", "9.0", 132)
    assert analysis.warnings == ()


def test_every_recorded_forward_has_the_same_counts(h200_trace: Path) -> None:
    analysis = analyse(load_trace(h200_trace))
    kinds = [Counter(a.event.category for a in f.activities) for f in analysis.forwards]
    assert kinds[1:] == kinds[:-1]


def test_counts_and_busy_time_agree_with_arrows_and_a_sweep(h200_trace: Path) -> None:
    analysis = analyse(load_trace(h200_trace))
    oracle = per_forward_by_arrows(h200_trace)
    assert counts(analysis) == tuple(
        fmean(kinds[kind] for kinds, _ in oracle) for kind in ("kernel", "gpu_memcpy", "gpu_memset")
    )
    assert [union_ns(spans_of(f)) for f in analysis.forwards] == [busy for _, busy in oracle]


def spans_of(forward: Any) -> list[tuple[int, int]]:
    return [(a.event.start_ns, a.event.end_ns) for a in forward.activities]


def per_forward_by_arrows(path: Path) -> list[tuple[Counter[str], int]]:
    """Kinds and busy ns of each forward, by flow arrows and a sweep."""
    raw = json.loads(gzip.decompress(path.read_bytes()), parse_float=Decimal)["traceEvents"]
    slices = [e for e in raw if e.get("ph") == "X"]
    windows = sorted(
        (e["ts"], e["ts"] + e["dur"])
        for e in slices
        if e["name"] == "attn_fwd" and e["cat"] == "user_annotation"
    )
    tails = {e["id"]: e["ts"] for e in raw if e.get("ph") == "s" and e["cat"] == "ac2g"}
    heads = {
        (e["pid"], e["tid"], e["ts"]): e["id"]
        for e in raw
        if e.get("ph") == "f" and e["cat"] == "ac2g"
    }
    forwards: list[list[Raw]] = [[] for _ in windows]
    for gpu in slices:
        if gpu["cat"] not in ("kernel", "gpu_memcpy", "gpu_memset"):
            continue
        launched = tails.get(heads.get((gpu["pid"], gpu["tid"], gpu["ts"])))
        if launched is not None:
            index = bisect_right(windows, (launched, Decimal("inf"))) - 1
            if index >= 0 and launched < windows[index][1]:
                forwards[index].append(gpu)
    return [(Counter(e["cat"] for e in gpu), sweep_ns(gpu)) for gpu in forwards]


def sweep_ns(events: list[Raw]) -> int:
    edges = sorted(
        edge for e in events for edge in ((e["ts"], 1), (e["ts"] + e["dur"], -1)) if e["dur"]
    )
    busy, running = Decimal(0), 0
    for (at, step), (following, _) in zip(edges, edges[1:], strict=False):
        running += step
        busy += (following - at) if running else 0
    return int(busy * 1000)


def test_the_role_of_every_recorded_activity(h200_trace: Path) -> None:
    name = name_of(h200_trace)
    expected = ROLES_IN_ORDER.get(name) or ROLES_IN_ORDER[name.split("_64_")[1]]
    for forward in analyse(load_trace(h200_trace)).forwards:
        roles = [
            a.role if a.event.category == "kernel" else f"{a.event.category}:{a.role}"
            for a in forward.activities
        ]
        assert " ".join(roles) == expected


def test_the_hidden_copy_is_caused_by_masked_fill(h200_traces: dict[str, Path]) -> None:
    analysis = analyse(load_trace(h200_traces["8_16_1024_64_naive"]))
    (copy,) = [row for row in analysis.kernels if row.kind == "memcpy"]
    assert copy.caused_by == ("attn_fwd", "aten::masked_fill", "aten::clone", "aten::copy_")
    assert (copy.launch_api, copy.role) == ("cudaMemcpyAsync", "mask")
    assert copy.bytes == 8 * 16 * 1024 * 1024 * 2


def test_the_causes_of_a_recorded_matrix_product(h200_traces: dict[str, Path]) -> None:
    analysis = analyse(load_trace(h200_traces["8_16_1024_64_naive"]))
    (product,) = [row for row in analysis.kernels if row.kind == "kernel" and row.role == "qk"]
    assert product.caused_by == ("attn_fwd", "aten::matmul", "aten::bmm")
    assert product.launch_api == "cuLaunchKernelEx"
    assert (product.library, product.uses_tensor_cores) == ("cuBLASLt", True)
    assert product.count_per_forward == 1


def test_rows_add_up_to_the_forward(h200_trace: Path) -> None:
    analysis = analyse(load_trace(h200_trace))
    rows = analysis.kernels
    assert sum(row.share_pct for row in rows) == pytest.approx(100)
    summed_us = sum(row.mean_us * row.count_per_forward for row in rows)
    assert summed_us >= (analysis.per_forward.gpu_busy_us or 0) - 1e-6
    assert sum(row.count_per_forward for row in rows if row.kind == "kernel") == (
        analysis.per_forward.kernels
    )


def test_recorded_times_are_consistent(h200_trace: Path) -> None:
    analysis = analyse(load_trace(h200_trace))
    per, host = analysis.per_forward, analysis.host
    assert per.gpu_span_us and per.cpu_time_us and per.launch_api_us
    assert host.python_us is not None and host.ops_us is not None and host.launch_api_us
    assert per.gpu_busy_us is not None and 0 < per.gpu_busy_us <= per.gpu_span_us
    assert per.gpu_idle_us == pytest.approx(per.gpu_span_us - per.gpu_busy_us)
    assert host.python_us + host.ops_us + host.launch_api_us == pytest.approx(per.cpu_time_us)
    assert host.launch_api_us == per.launch_api_us


def test_occupancy_of_recorded_flash_and_cudnn(h200_traces: dict[str, Path]) -> None:
    flash = analyse(load_trace(h200_traces["8_16_1024_64_sdpa_flash"])).occupancy
    cudnn = analyse(load_trace(h200_traces["8_16_1024_64_sdpa_cudnn"])).occupancy
    assert flash and cudnn
    assert (flash.theoretical_pct, flash.reported_pct) == (12.5, 13)
    assert (cudnn.theoretical_pct, cudnn.reported_pct) == (18.75, 0)
    assert "flash_fwd" in flash.dominant_kernel


def test_the_occupancy_of_a_run_is_weighted_by_time(h200_traces: dict[str, Path]) -> None:
    analysis = analyse(load_trace(h200_traces["8_16_1024_64_naive"]))
    summary = analysis.occupancy
    assert summary
    known = [(r.mean_us, r.occupancy.theoretical_pct) for r in analysis.kernels if r.occupancy]
    weighted = sum(us * pct for us, pct in known) / sum(us for us, _ in known)
    assert summary.theoretical_pct == pytest.approx(weighted)
    assert summary.lowest_pct == min(pct for _, pct in known) < summary.theoretical_pct
    assert summary.highest_pct == max(pct for _, pct in known) > summary.theoretical_pct


# What belongs to a forward


def test_attributes_by_the_launch_call_not_by_the_time_on_the_gpu() -> None:
    analysis = analyse(
        trace(
            launch(1, 5),
            annotation(10, 10),
            launch(2, 12),
            annotation(30, 10),
            launch(3, 32),
            kernel(1, 14, 4, "warm-up"),
            kernel(2, 35, 4, "first"),
            kernel(3, 50, 4, "second"),
        )
    )
    names = [[a.event.name for a in f.activities] for f in analysis.forwards]
    assert names == [["first"], ["second"]]
    assert counts(analysis) == (1, 0, 0)
    assert analysis.unattributed_activities == 1


@pytest.mark.parametrize("correlation", [None, -1, 0, 99])
def test_a_kernel_without_a_launch_record_is_counted_apart(correlation: int | None) -> None:
    analysis = analyse(
        trace(annotation(0, 10), launch(1, 2), kernel(1, 5, 2), kernel(correlation, 1, 2))
    )
    assert counts(analysis) == (1, 0, 0)
    assert analysis.unattributed_activities == 1


def test_a_launch_at_the_end_of_a_forward_belongs_to_the_next() -> None:
    analysis = analyse(
        trace(annotation(0, 10), annotation(10, 10), launch(1, 10), kernel(1, 11, 2))
    )
    assert [len(f.activities) for f in analysis.forwards] == [0, 1]


def test_launches_without_a_kernel_make_a_trace_incomplete() -> None:
    analysis = analyse(
        trace(
            annotation(0, 10),
            launch(1, 1),
            launch(2, 2, name="cuLaunchKernelEx"),
            launch(3, 3, name="cudaMemcpyAsync"),
            launch(4, 4, name="cudaStreamSynchronize"),
            launch(5, 5, name="cudaLaunchHostFunc"),
            kernel(1, 12, 2),
            launch(6, 20),
        )
    )
    assert analysis.launches_without_kernel == 2
    assert not analysis.complete


@pytest.mark.parametrize(
    "name",
    [
        "cudaLaunchKernel",
        "cudaLaunchKernelExC",
        "cudaLaunchCooperativeKernel",
        "cuLaunchKernel",
        "cuLaunchKernelEx",
        "cudaGraphLaunch",
        "cuGraphLaunch",
        "hipLaunchKernel",
        "hipExtModuleLaunchKernel",
        "hipModuleLaunchKernel",
        "hipGraphLaunch",
        "cudaMemcpyAsync",
        "cudaMemcpy2DAsync",
        "cuMemcpyHtoDAsync_v2",
        "cudaMemsetAsync",
        "hipMemcpyWithStream",
    ],
)
def test_calls_that_put_work_on_a_gpu(name: str) -> None:
    (call,) = trace(launch(1, 1, name=name)).events
    assert is_launch(call)


@pytest.mark.parametrize(
    "name",
    ["cudaLaunchHostFunc", "cudaMalloc", "cudaDeviceSynchronize", "cudaOccupancyMaxActiveBlocks"],
)
def test_calls_that_put_no_work_on_a_gpu(name: str) -> None:
    (call,) = trace(launch(1, 1, name=name)).events
    assert not is_launch(call)


def test_all_kernels_of_a_graph_launch_belong_to_it() -> None:
    analysis = analyse(
        trace(
            annotation(0, 10),
            launch(1, 2, name="cudaGraphLaunch"),
            *(kernel(1, 20 + 3 * i, 2) for i in range(100)),
        )
    )
    assert counts(analysis) == (100, 0, 0)
    assert analysis.complete


def test_launches_from_another_thread_of_the_process_belong_to_the_forward() -> None:
    analysis = analyse(
        trace(
            annotation(0, 10, tid=1),
            op("autograd::engine", 1, 8, tid=2),
            op("aten::mm", 2, 4, tid=2),
            launch(1, 3, tid=2),
            launch(2, 3, pid=55, tid=2),
            kernel(1, 5, 2),
            kernel(2, 6, 2, "of another process"),
        )
    )
    (row,) = analysis.kernels
    assert row.caused_by == ("attn_fwd", "autograd::engine", "aten::mm")
    assert analysis.unattributed_activities == 1


def test_a_forward_inside_a_forward_counts_once() -> None:
    analysis = analyse(
        trace(annotation(0, 10), annotation(2, 5), launch(1, 3), kernel(1, 5, 2), annotation(20, 5))
    )
    assert analysis.region.count == 2
    assert [len(f.activities) for f in analysis.forwards] == [1, 0]


def test_each_of_thousands_of_forwards_is_counted() -> None:
    events: list[Raw] = []
    for i in range(2000):
        at = 100 * i
        events += [annotation(at, 50), *(launch(10 * i + j + 1, at + j) for j in range(10))]
        events += [kernel(10 * i + j + 1, at + 3 * j, 2) for j in range(10)]
    analysis = analyse(trace(*events))
    assert counts(analysis) == (10, 0, 0)


# Which region


def steps(*numbers: int, category: str = "user_annotation") -> list[Raw]:
    events: list[Raw] = []
    for n in numbers:
        at = 100 * n
        events += [
            event(category, f"ProfilerStep#{n}", at, 50),
            op("aten::mm", at + 1, 5),
            launch(n, at + 2),
            kernel(n, at + 20, 10),
        ]
    return events


def test_without_the_annotation_each_profiler_step_is_a_forward() -> None:
    analysis = analyse(trace(*steps(1, 2, 3)))
    assert analysis.region == Region("profiler_step", "ProfilerStep", 3)
    assert counts(analysis) == (1, 0, 0)
    (row,) = analysis.kernels
    assert (row.count_per_forward, row.caused_by) == (1, ("ProfilerStep", "aten::mm"))


def test_old_traces_record_annotations_among_the_operators() -> None:
    analysis = analyse(trace(*steps(1, 2, category="Operator")))
    assert analysis.region == Region("profiler_step", "ProfilerStep", 2)
    assert [row.name for row in analysis.ops] == ["aten::mm"]


def test_another_annotation_can_be_named(h200_traces: dict[str, Path]) -> None:
    analysis = analyse(trace(annotation(0, 9, "mine"), launch(1, 2), kernel(1, 5, 2)), "mine")
    assert analysis.region == Region("annotation", "mine", 1)
    absent = analyse(load_trace(h200_traces["8_16_1024_64_naive"]), "absent")
    assert absent.region == Region("profiler_step", "ProfilerStep", 3)
    assert counts(absent) == (5, 1, 1)


def test_the_name_of_the_region_gives_no_role() -> None:
    marked = trace(
        annotation(0, 9, "flash_attn_benchmark"),
        op("aten::mul", 1, 4),
        launch(1, 2),
        kernel(1, 5, 2),
    )
    (row,) = analyse(marked, "flash_attn_benchmark").kernels
    assert row.role == "scale"


def test_without_any_annotation_the_whole_trace_is_one_forward() -> None:
    analysis = analyse(
        trace(
            op("aten::matmul", 1, 8),
            op("aten::bmm", 2, 6),
            launch(1, 3),
            kernel(1, 9, 2),
            kernel(None, 20, 3, "unlinked"),
        )
    )
    assert analysis.region == Region("whole_trace", "whole trace", 1)
    assert counts(analysis) == (2, 0, 0)
    assert analysis.unattributed_activities == 0
    assert analysis.per_forward.gpu_busy_us == 5
    assert analysis.kernels[0].caused_by == ("whole trace", "aten::matmul", "aten::bmm")
    assert analysis.kernels[1].caused_by == ()


def test_a_whole_trace_has_no_host_time() -> None:
    analysis = analyse(trace(op("aten::mm", 1, 8), launch(1, 3), kernel(1, 900, 2)))
    assert analysis.per_forward.cpu_time_us is None
    assert analysis.host.python_us is None


def test_an_empty_trace_gives_no_numbers() -> None:
    analysis = analyse(trace())
    assert analysis.region == Region("whole_trace", "whole trace", 0)
    assert counts(analysis) == (None, None, None)
    assert (analysis.per_forward.cpu_time_us, analysis.host.ops_us) == (None, None)
    assert (analysis.forwards, analysis.kernels, analysis.ops) == ((), (), ())


# Times


def test_busy_is_a_union_and_idle_the_rest_of_the_span() -> None:
    analysis = analyse(
        trace(
            annotation(0, 10),
            *(launch(i, i) for i in range(1, 5)),
            kernel(1, 100, 10),
            kernel(2, 105, 10),
            memset(3, 106, 2),
            memcpy(4, 120, 5),
        )
    )
    per = analysis.per_forward
    assert counts(analysis) == (2, 1, 1)
    assert (per.gpu_busy_us, per.gpu_span_us, per.gpu_idle_us) == (20, 25, 5)


def test_times_are_means_over_the_forwards() -> None:
    analysis = analyse(
        trace(
            annotation(0, 10),
            launch(1, 1, 2),
            kernel(1, 4, 3),
            annotation(20, 30),
            launch(2, 21, 4),
            kernel(2, 25, 5),
        )
    )
    per = analysis.per_forward
    assert (per.gpu_busy_us, per.cpu_time_us, per.launch_api_us) == (4, 20, 3)


def test_host_time_splits_into_python_ops_and_launch_calls() -> None:
    analysis = analyse(
        trace(
            annotation(0, 100),
            annotation(5, 60, "user's own"),
            op("aten::mm", 10, 30),
            launch(1, 12, 8),
            launch(2, 30, 5, name="cudaMalloc"),
            kernel(1, 50, 5),
        )
    )
    host = analysis.host
    assert (host.python_us, host.ops_us, host.launch_api_us) == (70, 22, 8)


def test_a_launch_call_counts_only_as_far_as_the_forward_lasts() -> None:
    analysis = analyse(trace(annotation(0, 10), launch(1, 8, 100), kernel(1, 120, 5)))
    host = analysis.host
    assert (host.python_us, host.ops_us, host.launch_api_us) == (8, 0, 2)
    assert analysis.per_forward.launch_api_us == 2


def test_a_trace_without_a_gpu_has_no_gpu_numbers() -> None:
    analysis = analyse(trace(annotation(0, 10), op("aten::mm", 1, 5), deviceProperties=[]))
    per = analysis.per_forward
    assert counts(analysis) == (None, None, None)
    assert (per.gpu_busy_us, per.gpu_span_us, per.gpu_idle_us) == (None, None, None)
    assert (per.launch_api_us, analysis.host.launch_api_us) == (None, None)
    assert (per.cpu_time_us, analysis.host.ops_us) == (10, 5)
    assert analysis.device.name == "CPU"
    assert analysis.occupancy is None
    assert analysis.complete


def test_lost_gpu_records_leave_zeros_not_nothing() -> None:
    analysis = analyse(trace(annotation(0, 10), launch(1, 2)))
    assert counts(analysis) == (0, 0, 0)
    assert analysis.per_forward.gpu_busy_us == 0


SPANS = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 10)).map(lambda s: (s[0], s[0] + s[1]))
)


@given(SPANS)
def test_the_union_covers_each_nanosecond_once(spans: list[tuple[int, int]]) -> None:
    assert union_ns(spans) == len({ns for start, end in spans for ns in range(start, end)})


# Nesting and causes


def test_ops_are_nested_by_enclosure() -> None:
    (forward,) = analyse(
        trace(annotation(0, 20), op("a", 1, 10), op("b", 2, 4), op("c", 3, 1), op("d", 7, 2))
    ).forwards
    assert [(o.event.name, o.depth) for o in forward.ops] == [
        ("a", 0),
        ("b", 1),
        ("c", 2),
        ("d", 1),
    ]
    assert forward.ops[2].caused_by == ("attn_fwd", "a", "b")


def test_partial_overlap_makes_no_parent() -> None:
    (forward,) = analyse(trace(annotation(0, 20), op("a", 1, 6), op("b", 4, 8))).forwards
    assert [o.caused_by for o in forward.ops] == [("attn_fwd",), ("attn_fwd",)]
    assert [o.depth for o in forward.ops] == [0, 0]


def test_ops_of_the_same_interval_nest_in_file_order() -> None:
    (forward,) = analyse(trace(annotation(0, 9), op("a", 1, 6), op("b", 1, 6))).forwards
    assert [(o.event.name, o.depth) for o in forward.ops] == [("a", 0), ("b", 1)]


def test_depth_counts_from_the_outermost_op_in_every_kind_of_region() -> None:
    (forward,) = analyse(trace(op("a", 1, 6), op("b", 2, 3))).forwards
    assert [(o.event.name, o.depth) for o in forward.ops] == [("a", 0), ("b", 1)]


def test_ops_before_the_region_are_no_part_of_it() -> None:
    (forward,) = analyse(trace(op("outer", 0, 30), annotation(5, 10), op("a", 6, 2))).forwards
    assert [o.event.name for o in forward.ops] == ["a"]
    assert forward.ops[0].caused_by == ("attn_fwd",)


def test_an_op_keeps_only_the_time_that_is_its_own() -> None:
    analysis = analyse(
        trace(annotation(0, 20), op("a", 1, 10), op("b", 2, 4), op("b", 7, 2), op("c", 3, 1))
    )
    own = {row.name: (row.count_per_forward, row.total_us, row.self_us) for row in analysis.ops}
    assert own == {"a": (1, 10, 4), "b": (2, 6, 5), "c": (1, 1, 1)}


def test_rows_keep_apart_what_differs_in_cause_or_footprint() -> None:
    analysis = analyse(
        trace(
            annotation(0, 20),
            op("aten::mul", 1, 4),
            launch(1, 2),
            launch(2, 3),
            op("aten::softmax", 6, 4),
            launch(3, 7),
            *(kernel(i, 30 + i, 1, block=[128, 1, 1], grid=[i // 2 + 1, 1, 1]) for i in (1, 2, 3)),
        )
    )
    assert [(r.role, r.grid) for r in analysis.kernels] == [
        ("scale", (1, 1, 1)),
        ("scale", (2, 1, 1)),
        ("softmax", (2, 1, 1)),
    ]


# Devices and occupancy

FOOTPRINT: Raw = {
    "registers_per_thread": 255,
    "shared_memory": 65536,
    "block": [128, 1, 1],
    "grid": [1056, 1, 1],
}


def on_device(
    index: int, *devices: Raw, args: Raw = FOOTPRINT, category: str = "kernel"
) -> Analysis:
    work = kernel(1, 5, 2, device=index, category=category, **args)
    return analyse(trace(annotation(0, 10), launch(1, 1), work, deviceProperties=list(devices)))


def test_the_device_is_the_one_that_the_kernels_ran_on() -> None:
    analysis = on_device(1, H200, A100)
    assert analysis.device == Device("A100", "8.0", 108)
    (row,) = analysis.kernels
    assert row.occupancy and row.occupancy.limiters == ("registers", "shared_memory")


def test_each_kernel_gets_the_occupancy_of_its_own_device() -> None:
    analysis = analyse(
        trace(
            annotation(0, 10),
            launch(1, 1),
            launch(2, 2),
            kernel(1, 5, 2, "first", device=0, **FOOTPRINT),
            kernel(2, 6, 2, "second", device=1, **FOOTPRINT),
            deviceProperties=[H200, A100],
        )
    )
    waves = [row.occupancy.waves for row in analysis.kernels if row.occupancy]
    assert waves == [pytest.approx(1056 / (132 * 2)), pytest.approx(1056 / (108 * 2))]


def test_a_device_that_the_trace_does_not_describe_gets_no_guess() -> None:
    analysis = on_device(3, H200)
    assert analysis.device == Device(None, None, None)
    assert analysis.kernels[0].occupancy is None


@pytest.mark.parametrize(
    "odd",
    [
        {"registers_per_thread": None},
        {"registers_per_thread": "many"},
        {"shared_memory": [1]},
        {"shared_memory": -1},
        {"block": [4096, 1, 1]},
        {"block": [0, 1, 1]},
        {"block": None},
        {"block": "128"},
    ],
)
def test_a_footprint_that_cannot_be_has_no_occupancy(odd: Raw) -> None:
    analysis = on_device(0, H200, args={**FOOTPRINT, **odd})
    assert counts(analysis) == (1, 0, 0)
    assert analysis.kernels[0].occupancy is None
    assert analysis.occupancy is None


@pytest.mark.parametrize("grid", [None, [0, 1, 1], "big", [[1]]])
def test_an_odd_grid_leaves_the_theoretical_occupancy(grid: Any) -> None:
    (row,) = on_device(0, H200, args={**FOOTPRINT, "grid": grid}).kernels
    assert row.occupancy and row.occupancy.theoretical_pct == 12.5
    assert row.occupancy.machine_wide_pct is None


def test_copies_have_no_occupancy() -> None:
    (row,) = on_device(0, H200, category="gpu_memcpy").kernels
    assert row.occupancy is None


def test_an_unknown_device_has_no_occupancy() -> None:
    amd = {"id": 0, "name": "AMD", "computeMajor": 9, "computeMinor": 4, "numSms": 304}
    (row,) = on_device(0, amd).kernels
    assert row.occupancy is None


# Roles


@pytest.mark.parametrize(
    ("chain", "step"),
    [
        (("aten::matmul", "aten::bmm"), "matmul"),
        (("aten::masked_fill", "aten::clone", "aten::copy_"), "mask"),
        (("aten::_safe_softmax", "aten::where"), "softmax"),
        (("aten::where", "aten::scalar_tensor", "aten::fill_"), "mask"),
        (("aten::to", "aten::_to_copy", "aten::copy_"), "cast"),
        (("aten::contiguous", "aten::clone"), "copy"),
        (("aten::scaled_dot_product_attention", "aten::mul"), "scale"),
        (("aten::_scaled_dot_product_flash_attention",), "attention"),
        (("aten::relu",), None),
        ((), None),
    ],
)
def test_the_outermost_telling_op_names_the_step(chain: tuple[str, ...], step: str | None) -> None:
    assert step_of(chain) == step


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("void pytorch_flash::flash_fwd_kernel<…>", "attention"),
        ("triton_per_fused__softmax_0", "softmax"),
        ("Memcpy DtoD (Device -> Device)", None),
    ],
)
def test_without_a_telling_op_the_kernel_name_decides(name: str, step: str | None) -> None:
    assert step_of((), name) == step


@pytest.mark.parametrize(("at_ns", "role"), [(5, "qk"), (10, "pv"), (15, "pv")])
def test_a_matrix_product_is_qk_before_the_softmax_and_pv_after(at_ns: int, role: Role) -> None:
    assert role_of("matmul", at_ns, softmax_ns=10) == role


def test_a_matrix_product_without_softmax_is_neither() -> None:
    assert role_of("matmul", 5, softmax_ns=None) == "other"
    assert role_of(None, 5, softmax_ns=None) == "other"
