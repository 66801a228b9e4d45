"""Joining Nsight Compute's launches with a trace, and the comparison drawn from them."""

import json
from pathlib import Path
from typing import Any

import pytest

from profiling.trace import parse_trace
from tests.bench.occupancy_against_ncu import (
    GROUPS,
    join,
    main,
    mismatches,
    pair,
    read_kineto,
    read_ncu,
    read_table,
    report,
    split_at_markers,
    write_table,
)

DATA = Path(__file__).parent / "data"
H200: dict[str, Any] = {"gpu": "NVIDIA H200", "sm_count": 132, "compute_capability": "9.0"}

# name, block, grid, registers, dynamic shared bytes, theoretical %, achieved %, profiler's %
Kernel = tuple[str, int, int, int, int, float, float, int]
MARK: Kernel = ("void at::cuda::<unnamed>::spin_kernel(long)", 1, 1, 16, 0, 50.0, 1.56, 0)
FLASH: Kernel = ("void flash::f<64, 128>(P)", 128, 1024, 255, 65536, 12.5, 11.9, 0)
FILL: Kernel = ("void at::native::fill_kernel(int)", 128, 1, 16, 0, 100.0, 6.0, 0)

HEADER = (
    '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size",'
    '"Grid Size","Device","CC","gpu__time_duration.sum","launch__registers_per_thread",'
    '"launch__occupancy_limit_registers","launch__shared_mem_per_block_driver",'
    '"launch__shared_mem_per_block_dynamic","launch__shared_mem_per_block_static",'
    '"sm__maximum_warps_per_active_cycle_pct",'
    '"sm__warps_active.avg.pct_of_peak_sustained_active"\n'
    '"","","","","","","","","","","","ns","register/thread","block","byte/block","byte/block",'
    '"byte/block","%","%"\n'
)


def ncu_csv(kernels: list[Kernel]) -> str:
    rows = [
        f'"{index}","7","python3","host","{name}","1","7","({block}, 1, 1)","({grid}, 1, 1)","0",'
        f'"9.0","12,345","{registers}","2","1,024","{shared:,}","0","{theory}","{achieved}"\n'
        for index, (name, block, grid, registers, shared, theory, achieved, _) in enumerate(kernels)
    ]
    return "==PROF== Connected to process 7\n" + HEADER + "".join(rows)


def trace_bytes(kernels: list[Kernel]) -> bytes:
    events = [
        {
            "ph": "X",
            "cat": "kernel",
            "name": name.replace("<unnamed>", "(anonymous namespace)"),
            "ts": 10 * index,
            "dur": 5,
            "args": {
                "block": [block, 1, 1],
                "grid": [grid, 1, 1],
                "registers per thread": registers,
                "shared memory": shared,
                "est. achieved occupancy %": reported,
            },
        }
        for index, (name, block, grid, registers, shared, _, _, reported) in enumerate(kernels)
    ]
    memset = {"ph": "X", "cat": "gpu_memset", "name": "Memset (Device)", "ts": 11, "dur": 1}
    return json.dumps({"traceEvents": [*events, memset]}).encode()


def cases(*names: str) -> dict[str, Any]:
    ran = [
        {"name": name, "variant": name, "dtype": "bfloat16", "shape": "1x8x128x64", "causal": True}
        for name in names
    ]
    return {"environment": H200, "cases": ran}


def test_launches_are_joined_case_by_case(tmp_path: Path) -> None:
    kernels = [MARK, FLASH, MARK, FILL, FLASH, MARK]
    warm_up = [FILL, MARK]
    both = cases("flash", "math")
    traced = parse_trace(trace_bytes([*warm_up[:1], *kernels]))
    rows, notes = join(ncu_csv(kernels), both, traced, both)
    assert notes == []
    assert [(row.case, row.registers_per_thread) for row in rows] == [
        ("flash", 255),
        ("math", 16),
        ("math", 255),
    ]
    flash = rows[0]
    assert (flash.shared_memory_bytes, flash.driver_shared_memory_bytes) == (65536, 1024)
    assert (flash.kineto_reported_pct, flash.duration_us) == (0, 12.345)
    assert (flash.blocks_limit_registers, flash.blocks_limit_warps) == (2, None)

    write_table(tmp_path / "table.csv", rows, H200)
    checked = read_table(tmp_path / "table.csv", "7.0", 1)
    assert [row.group for row in checked] == [GROUPS[0], GROUPS[1], GROUPS[0]]
    assert mismatches(checked) == []
    assert [round(row.our_error, 2) for row in checked] == [0.6, 0.25, 0.6]
    assert "3 launches of 2 distinct kernels" in report(checked, every_row=True)


def test_a_launch_that_one_tool_lacks_stays_unjoined() -> None:
    ncu = read_ncu(ncu_csv([FILL, FLASH]))
    kineto = read_kineto(parse_trace(trace_bytes([FLASH])))
    assert [other is not None for _, other in pair(ncu, kineto)] == [False, True]
    both = cases("math")
    trace = parse_trace(trace_bytes([MARK, FLASH, MARK]))
    rows, notes = join(ncu_csv([MARK, FILL, FLASH, MARK]), both, trace, both)
    assert [row.kineto_reported_pct for row in rows] == [None, 0]
    assert notes == ["math: 2 by ncu, 1 in the trace, 1 joined"]


def test_cases_are_matched_by_name_where_the_passes_differ() -> None:
    ncu = ncu_csv([MARK, FLASH, MARK, FILL, MARK])
    rows, notes = join(
        ncu, cases("a", "b"), parse_trace(trace_bytes([MARK, FILL, MARK])), cases("b")
    )
    assert [(row.case, row.kineto_reported_pct) for row in rows] == [("a", None), ("b", 0)]
    assert notes == ["a: 1 by ncu, 0 in the trace, 0 joined"]


def test_a_record_that_was_cut_off_gives_what_is_whole() -> None:
    trace = parse_trace(trace_bytes([MARK, FLASH, MARK, FILL, MARK]))
    both = cases("a", "b")
    rows, notes = join(ncu_csv([MARK, FLASH, MARK, FILL]), both, trace, both)
    assert [(row.case, row.kineto_reported_pct) for row in rows] == [("a", 0)]
    assert notes[0] == "ncu: 2 cases ran, 1 were found between markers"


def test_markers() -> None:
    assert split_at_markers(["w", "spin_kernel", "a", "spin_kernel", "spin_kernel"], str) == [
        ["a"],
        [],
    ]


def test_output_without_launches_is_empty() -> None:
    assert read_ncu("==ERROR== No kernels were profiled\n") == []


def test_compare_reads_the_recorded_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", str(DATA / "ncu_h200_8x16x1024x64_bf16.csv"), "--all"]) == 0
    text = capsys.readouterr().out
    assert "largest difference from ncu 0.0000 points" in text
    assert f"| {GROUPS[0]} | 1 | 1 | 4.65 | 4.65 | 14.10 | 14.10 | 1 | 0 |" in text
