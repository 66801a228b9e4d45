"""Occupancy against published cases, Nsight Compute, the traces' own integers and an oracle.

The oracle places warps one at a time on four sub-partitions and knows nothing of the formula.
"""

import csv
import gzip
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiling.occupancy import (
    LIMITS,
    DeviceLimits,
    Footprint,
    Occupancy,
    block_limits,
    kernel_occupancy,
    kineto_reported_pct,
    launch_footprint,
    limits_for,
    next_step,
    occupancy,
    occupancy_curve,
)

DATA = Path(__file__).parent / "data"
NONE = None  # a resource that sets no limit, "∞" in published tables
SKIP = -1  # a limit that the source does not give

# number, capability, registers, threads, shared memory, limits (registers, shared memory, warps,
# blocks), resident blocks, occupancy %, limiters, Kineto's integer for a large grid; and source.
CASES = [
    ("1", "7.0", 37, 128, 0, (12, NONE, 16, 32), 12, 75, "registers", 75),  # Best Practices Guide
    ("2", "7.0", 37, 320, 0, (4, NONE, 6, 32), 4, 62.5, "registers", 63),  # same
    ("3a", "7.0", 64, 512, 0, (2, SKIP, 4, 32), 2, 50, "registers", 50),  # Programming Guide
    ("3b", "7.2", 64, 512, 0, (2, SKIP, 4, 32), 2, 50, "registers", 50),
    ("3c", "8.0", 64, 512, 0, (2, SKIP, 4, 32), 2, 50, "registers", 50),
    ("3d", "9.0", 64, 512, 0, (2, SKIP, 4, 32), 2, 50, "registers", 50),
    ("3e", "10.0", 64, 512, 0, (2, SKIP, 4, 32), 2, 50, "registers", 50),
    ("3f", "10.3", 64, 512, 0, (2, SKIP, 4, 32), 2, 50, "registers", 50),
    ("4a", "7.0", 65, 512, 0, (1, SKIP, 4, 32), 1, 25, "registers", 25),
    ("4b", "9.0", 65, 512, 0, (1, SKIP, 4, 32), 1, 25, "registers", 25),
    ("5", "8.6", 37, 1024, 8192, (1, 11, 1, 16), 1, 200 / 3, "warps|registers", 67),  # A6000
    ("6", "8.0", 255, 128, 49152, (2, 3, 16, 32), 2, 12.5, "registers", 13),  # A100, shown 13
    ("7", "8.0", 255, 128, 65536, (2, 2, 16, 32), 2, 12.5, "registers|shared_memory", 0),
    ("9", "9.0", 255, 256, 133120, (1, 1, 8, 32), 1, 12.5, "registers|shared_memory", 0),  # H20
    ("10", "9.0", 31, 1024, 12288, (2, 17, 2, 32), 2, 100, "warps|registers", 100),  # H100
    ("11", "12.0", 40, 128, 0, (12, 100, 12, 24), 12, 100, "warps|registers", 100),  # RTX 5060
    ("12", "7.5", 24, 256, 0, (10, NONE, 4, 16), 4, 100, "warps", 100),  # T4
    ("13", "7.5", 29, 256, 0, (8, NONE, 4, 16), 4, 100, "warps", 100),  # T4
    ("14", "8.6", 111, 128, 67584, (4, 1, 12, 16), 1, 100 / 12, "shared_memory", 0),  # Triton
    ("15", "8.0", 16, 256, 0, (16, 164, 8, 32), 8, 100, "warps", 100),  # A100
    ("16", "8.0", 26, 256, 0, (8, 164, 8, 32), 8, 100, "warps|registers", 100),  # A100
    ("17", "8.0", 46, 512, 2048, (2, 54, 4, 32), 2, 50, "registers", 50),  # A800
    ("18", "8.9", 56, 1024, 0, (1, 100, 1, 24), 1, 200 / 3, "warps|registers", 67),  # RTX 4060
    ("19", "8.6", 57, 256, 16384, (4, 5, 6, 16), 4, 200 / 3, "registers", 67),  # A10G class
    ("20", "8.6", 16, 256, 4096, (16, 20, 6, 16), 6, 100, "warps", 100),  # RTX 3090
    ("21", "8.9", 36, 256, 2048, (6, 33, 6, 24), 6, 100, "warps|registers", 100),  # 142 SMs
    ("23", "8.9", 128, 256, 32768, (2, 3, 6, 24), 2, 100 / 3, "registers", 33),  # 4060 class
    ("24", "8.9", 128, 256, 65536, (2, 1, 6, 24), 1, 50 / 3, "shared_memory", 0),  # same
    ("25", "7.0", 21, 128, 0, (21, NONE, 16, 32), 16, 100, "warps", 100),  # V100
    ("26", "10.0", 255, 128, 98400, (2, 2, 16, 32), 2, 12.5, "registers|shared_memory", 0),  # B200
    ("28a", "9.0", 69, 128, 0, (7, SKIP, 16, 32), 7, 43.75, "registers", 44),  # H200
    ("28b", "9.0", 40, 128, 0, (12, SKIP, 16, 32), 12, 75, "registers", 75),
    ("30", "9.0", 168, 384, 231424, (1, 1, 5, 32), 1, 18.75, "registers|shared_memory", 0),  # xmma
    ("31", "9.0", 100, 128, 98304, (4, 2, 16, 32), 2, 12.5, "shared_memory", 0),  # cutlass_80
    ("32", "10.0", 168, 256, 213656, (1, 1, 8, 32), 1, 12.5, "registers|shared_memory", 0),  # nvjet
    ("33", "10.0", 128, 512, 42160, (1, 5, 4, 32), 1, 25, "registers", 25),  # 5 by its small grid
    ("34", "8.0", 96, 544, 87568, (1, 1, 3, 32), 1, 26.5625, "registers|shared_memory", 0),  # NCCL
    ("35", "9.0", 168, 384, 232448, (1, 1, 5, 32), 1, 18.75, "registers|shared_memory", 0),  # cuDNN
    ("36", "10.0", 128, 512, 232448, (1, 1, 4, 32), 1, 25, "registers|shared_memory", 0),  # cuDNN
    ("37a", "8.0", 16, 32, 0, (128, SKIP, 64, 32), 32, 50, "blocks", 50),
    ("37b", "8.6", 16, 32, 0, (128, SKIP, 48, 16), 16, 100 / 3, "blocks", 33),
    ("38", "12.0", 255, 128, 40960, (2, 2, 12, 24), 2, 50 / 3, "registers|shared_memory", 17),
    ("39", "8.0", 129, 512, 0, (0, SKIP, 4, 32), 0, 0, "registers", 0),  # cannot launch
    ("39b", "8.0", 128, 512, 0, (1, SKIP, 4, 32), 1, 25, "registers", 25),
    ("40", "9.0", 8, 32, 12288, (256, 17, 64, 32), 17, 26.5625, "shared_memory", 27),
]

# capability, registers, threads, shared memory, grid, SMs: waves as Nsight Compute printed them.
WAVES = [
    ("12.0", 40, 128, 0, 32, 26, 0.10),
    ("7.5", 24, 256, 0, 4, 40, 0.03),
    ("7.5", 29, 256, 0, 128, 40, 0.80),
    ("8.6", 111, 128, 67584, 64, 84, 0.76),
    ("8.0", 16, 256, 0, 196, 108, 0.23),
    ("8.0", 26, 256, 0, 3456, 108, 4.00),
    ("8.6", 57, 256, 16384, 774, 80, 2.42),
    ("8.6", 16, 256, 4096, 23989, 82, 48.76),
    ("8.9", 36, 256, 2048, 4096, 142, 4.81),
    ("7.0", 21, 128, 0, 512, 80, 0.40),
]

# The same kind of launch: machine-wide and busy-SM estimates (percent).
ESTIMATES = [
    ("7.0", 21, 128, 0, 512, 80, 40.0, 40.0),
    ("8.6", 16, 32, 0, 1, 38, 0.05, 2.08),
    ("8.6", 111, 128, 67584, 64, 84, 6.35, 8.33),
    ("8.0", 16, 256, 0, 196, 108, 22.7, 22.7),
    ("12.0", 40, 128, 0, 32, 26, 10.3, 10.3),
    ("7.5", 29, 256, 0, 128, 40, 80.0, 80.0),
    ("8.6", 57, 256, 16384, 774, 80, 66.7, 66.7),
]

LARGE_GRID = 1_000_000

footprints = st.builds(
    Footprint, st.integers(1, 255), st.integers(1, 1024), st.integers(0, 256 * 1024)
)
devices = st.sampled_from(LIMITS)


def device(compute_capability: str) -> DeviceLimits:
    limits = limits_for(compute_capability)
    assert limits is not None
    return limits


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"row{case[0]}")
def test_worked_cases(case: tuple[Any, ...]) -> None:
    _, capability, registers, threads, shared_memory, limits, blocks, pct, limiters, _ = case
    result = occupancy(Footprint(registers, threads, shared_memory), device(capability))
    found = result.block_limits
    for expected, actual in zip(
        limits, (found.registers, found.shared_memory, found.warps, found.blocks), strict=True
    ):
        assert expected in (actual, SKIP)
    assert result.blocks_per_sm == blocks
    assert result.warps_per_sm == blocks * -(-threads // 32)
    assert result.theoretical_pct == pytest.approx(pct)
    assert result.limiters == tuple(limiters.split("|"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"row{case[0]}")
def test_worked_cases_as_kineto_prints_them(case: tuple[Any, ...]) -> None:
    _, capability, registers, threads, shared_memory, *_, reported = case
    footprint = Footprint(registers, threads, shared_memory)
    assert kineto_reported_pct(footprint, device(capability), LARGE_GRID, 100) == reported


@pytest.mark.parametrize("grid", range(27, 33))
def test_a_small_grid_caps_what_kineto_prints(grid: int) -> None:
    assert kineto_reported_pct(Footprint(128, 512, 42_160), device("10.0"), grid, 148) == 5


@pytest.mark.parametrize("case", WAVES)
def test_waves(case: tuple[Any, ...]) -> None:
    capability, registers, threads, shared_memory, grid, sms, waves = case
    footprint = Footprint(registers, threads, shared_memory)
    result = occupancy(footprint, device(capability), grid_blocks=grid, sm_count=sms)
    assert result.waves == pytest.approx(waves, abs=0.00501)


@pytest.mark.parametrize("case", ESTIMATES)
def test_grid_aware_estimates(case: tuple[Any, ...]) -> None:
    capability, registers, threads, shared_memory, grid, sms, machine_wide, busy_sm = case
    footprint = Footprint(registers, threads, shared_memory)
    result = occupancy(footprint, device(capability), grid_blocks=grid, sm_count=sms)
    assert result.machine_wide_pct == pytest.approx(machine_wide, abs=0.05)
    assert result.busy_sm_pct == pytest.approx(busy_sm, abs=0.05)


def ncu_rows() -> list[dict[str, str]]:
    with (DATA / "ncu_h200_8x16x1024x64_bf16.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def volume(text: str) -> int:
    return math.prod(int(size) for size in text.split("x"))


@pytest.mark.parametrize("row", ncu_rows(), ids=lambda row: row["backend"])
def test_nsight_compute_on_an_h200(row: dict[str, str]) -> None:
    # That column holds the driver's 1 KiB already.
    shared_memory = int(row["shared_memory_per_block_incl_1KiB_reserved"]) - 1024
    registers, threads = int(row["registers_per_thread"]), volume(row["block"])
    result = occupancy(
        Footprint(registers, threads, shared_memory),
        device("9.0"),
        grid_blocks=volume(row["grid"]),
        sm_count=132,
    )
    assert result.theoretical_pct == float(row["theoretical_occupancy_pct"])
    assert result.waves == pytest.approx(float(row["waves_per_sm"]), abs=0.00501)
    assert result.block_limits.registers == int(row["blocks_limit_registers"])
    assert result.block_limits.warps == int(row["blocks_limit_warps"])
    assert result.block_limits.blocks == int(row["blocks_limit_blocks"])


def test_nsight_compute_table_is_whole() -> None:
    assert len(ncu_rows()) == 23


def traced_kernels() -> Iterator[tuple[str, dict[str, Any]]]:
    for path in sorted((DATA / "h200-traces").glob("*.json.gz")):
        for event in json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]:
            if event.get("cat") == "kernel":
                yield f"{path.name}: {event['name'][:60]}", event["args"]


def traced_occupancy(args: dict[str, Any]) -> Occupancy:
    footprint = launch_footprint(args["registers per thread"], args["block"], args["shared memory"])
    result = kernel_occupancy(
        footprint,
        device("9.0"),
        grid=args["grid"],
        sm_count=132,
        reported_pct=args["est. achieved occupancy %"],
    )
    assert result is not None
    return result


def test_replay_of_every_traced_kernel() -> None:
    replayed, mismatches = 0, []
    for label, args in traced_kernels():
        footprint = launch_footprint(
            args["registers per thread"], args["block"], args["shared memory"]
        )
        assert footprint is not None
        predicted = kineto_reported_pct(footprint, device("9.0"), math.prod(args["grid"]), 132)
        replayed += 1
        if predicted != args["est. achieved occupancy %"]:
            mismatches.append((label, predicted))
    assert mismatches == []
    assert replayed > 200


def test_every_traced_zero_is_explained_and_nothing_else_is() -> None:
    for label, args in traced_kernels():
        why = traced_occupancy(args).why_reported_differs
        if args["est. achieved occupancy %"]:
            assert why is None, label
        elif args["shared memory"] > 49_152:
            assert why is not None and f"{args['shared memory']:,} B of shared memory" in why
        else:
            assert why is not None and "132 SMs" in why, label


def reported(footprint: Footprint, pct: float, grid: int | None = None) -> str | None:
    sm_count = 108 if grid else None
    result = occupancy(
        footprint, device("8.0"), grid_blocks=grid, sm_count=sm_count, reported_pct=pct
    )
    assert result.reported_pct == pct
    return result.why_reported_differs


FLASH_64 = Footprint(255, 128, 49_152)
FLASH_128 = Footprint(255, 128, 65_536)


def test_why_shared_memory_beyond_48_kib_reads_zero() -> None:
    assert reported(FLASH_128, 0, 1024) == (
        "The profiler shows 0 % because this kernel uses 65,536 B of shared memory per block: its "
        "estimate assumes the default limit of 49,152 B, and the library opted in to more. "
        "Recomputed from the same record: 12.5 %."
    )
    why = reported(FLASH_128, 0, 8)
    assert why is not None and why.endswith("12.5 %, or 0.46 % averaged over all SMs.")


def test_why_a_tiny_grid_reads_zero() -> None:
    assert reported(FLASH_64, 0, 8) == (
        "The grid is tiny: 8 blocks on 108 SMs average 0.46 % over the GPU, which the profiler "
        "rounds down to 0 %. The kernel's own limits allow 12.5 %."
    )


@pytest.mark.parametrize("pct", [-100, -99])
def test_why_an_unknown_device_reads_negative(pct: int) -> None:
    assert reported(FLASH_128, pct, 1024) == (
        f"The profiler shows {pct} because its occupancy calculator does not know this device. "
        "Recomputed from the same record: 12.5 %."
    )


@pytest.mark.parametrize("pct", [12, 13, 12.5, 12.0])
def test_rounding_is_no_difference(pct: float) -> None:
    assert reported(FLASH_64, pct, 1024) is None
    assert reported(FLASH_64, pct) is None


def test_a_profiler_that_honours_the_opt_in_agrees() -> None:
    assert reported(FLASH_128, 13, 1024) is None


def test_why_counting_threads_reads_less() -> None:
    why = reported(Footprint(32, 33, 0), 52, LARGE_GRID)
    assert why is not None and "whole warps, 2 for this block of 33 threads" in why


def test_an_unexplained_difference_names_both_numbers() -> None:
    why = reported(FLASH_64, 40, 1024)
    assert why is not None and "40 %" in why and "12.5 %" in why and "no known cause" in why


def test_without_a_grid_a_lower_value_may_be_the_grid() -> None:
    why = reported(FLASH_64, 5)
    assert why is not None and "a small grid may be the reason" in why


def test_grid_or_sm_count_unknown_gives_no_estimate() -> None:
    for known in ({"grid_blocks": 10}, {"sm_count": 108}):
        result = occupancy(FLASH_64, device("8.0"), **known)
        assert (result.machine_wide_pct, result.busy_sm_pct, result.waves) == (None, None, None)


@pytest.mark.parametrize("known", [{"grid_blocks": 0}, {"sm_count": -1}])
def test_impossible_grids_are_refused(known: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="must be 1 or more, or None"):
        occupancy(FLASH_64, device("8.0"), **known)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ((256, 128, 0), "registers_per_thread must be 0 .unknown. to 255, got 256"),
        ((-1, 128, 0), "registers_per_thread must be .* got -1"),
        ((32, 0, 0), "threads_per_block must be 1 to 1024, got 0"),
        ((32, 1025, 0), "threads_per_block must be 1 to 1024, got 1025"),
        ((32, 128, -4), "shared_memory_bytes must be 0 or more, got -4"),
    ],
)
def test_impossible_footprints_are_refused(values: tuple[int, int, int], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        Footprint(*values)


@pytest.mark.parametrize(
    "record",
    [
        (None, [128, 1, 1], 0),
        (32, None, 0),
        (32, [], 0),
        (32, "128", 0),
        (32, [128, 1, 0], 0),
        (32, [1024, 2, 1], 0),
        (256, [128, 1, 1], 0),
        (32, [128, 1, 1], "inf"),
        (32, [128, 1, 1], float("nan")),
        (32.5, [128, 1, 1], 0),
        (True, [128, 1, 1], 0),
        (32, [10**400, 1, 1], 0),
    ],
)
def test_malformed_records_are_unknown(record: tuple[object, object, object]) -> None:
    footprint = launch_footprint(*record)
    assert footprint is None
    assert kernel_occupancy(footprint, device("9.0")) is None


def test_an_unknown_device_is_unknown() -> None:
    assert limits_for("6.1") is None
    assert limits_for("") is None
    assert kernel_occupancy(FLASH_64, limits_for("99.0")) is None


def test_odd_grids_leave_the_theoretical_value() -> None:
    for grid in (None, "inf", [0, 1, 1], [10**400, 1, 1]):
        result = kernel_occupancy(FLASH_64, device("8.0"), grid=grid, sm_count=0, reported_pct="x")
        assert result is not None
        assert result.theoretical_pct == 12.5
        assert result.machine_wide_pct is None
        assert result.reported_pct is None


junk = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.lists(st.integers())
)


@given(junk, junk, junk, junk, junk, junk)
def test_no_record_raises(
    registers: object, block: object, shared: object, grid: object, sms: object, pct: object
) -> None:
    footprint = launch_footprint(registers, block, shared) or FLASH_64
    assert kernel_occupancy(footprint, LIMITS[0], grid=grid, sm_count=sms, reported_pct=pct)


def test_zero_registers_mean_unknown() -> None:
    result = occupancy(Footprint(0, 128, 0), device("9.0"))
    assert result.block_limits.registers is None
    assert result.caveat is not None and "unknown" in result.caveat


def test_what_cannot_launch_says_so() -> None:
    registers = occupancy(Footprint(129, 512, 0), device("8.0"), grid_blocks=10, sm_count=108)
    assert registers.caveat is not None and "129 registers" in registers.caveat
    assert (registers.theoretical_pct, registers.machine_wide_pct, registers.waves) == (0, 0, None)
    memory = occupancy(Footprint(32, 128, 163 * 1024 + 1), device("8.0"))
    assert memory.limiters == ("shared_memory",)
    assert memory.caveat is not None and "at most 166,912 B" in memory.caveat
    assert occupancy(Footprint(32, 128, 163 * 1024), device("8.0")).caveat is None


@pytest.mark.parametrize("limits", LIMITS, ids=lambda limits: limits.compute_capability)
def test_one_byte_beyond_the_default_reads_zero(limits: DeviceLimits) -> None:
    within, beyond = Footprint(32, 128, 49_152), Footprint(32, 128, 49_153)
    assert kineto_reported_pct(within, limits, LARGE_GRID, 100) > 0
    assert kineto_reported_pct(beyond, limits, LARGE_GRID, 100) == 0
    assert occupancy(beyond, limits).theoretical_pct > 0


def test_limits_table() -> None:
    names = " ".join(row.compute_capability for row in LIMITS)
    assert names == "7.0 7.2 7.5 8.0 8.6 8.7 8.9 9.0 10.0 10.3 11.0 12.0 12.1"
    for row in LIMITS:
        assert row.max_threads_per_sm in (1024, 1536, 2048)
        spare = row.shared_memory_per_sm_bytes - row.shared_memory_per_block_optin_bytes
        assert spare == row.reserved_shared_memory_bytes
        assert row.shared_memory_per_sm_bytes % row.shared_memory_unit_bytes == 0


def blocks_placed_one_warp_at_a_time(footprint: Footprint, limits: DeviceLimits) -> int:
    """Fill one SM like hardware would: whole blocks, each warp where most registers are free."""
    if footprint.shared_memory_bytes > limits.shared_memory_per_block_optin_bytes:
        return 0
    free_registers = [16_384] * 4
    free_warps, free_slots = limits.max_warps_per_sm, limits.max_blocks_per_sm
    free_units = limits.shared_memory_per_sm_bytes // limits.shared_memory_unit_bytes
    warps = math.ceil(footprint.threads_per_block / 32)
    registers = math.ceil(footprint.registers_per_thread / 8) * 8 * 32
    bytes_per_block = footprint.shared_memory_bytes + limits.reserved_shared_memory_bytes
    units = math.ceil(bytes_per_block / limits.shared_memory_unit_bytes)
    placed = 0
    while free_slots and free_warps >= warps and free_units >= units:
        for _ in range(warps):
            roomiest = free_registers.index(max(free_registers))
            if free_registers[roomiest] < registers:
                return placed
            free_registers[roomiest] -= registers
        free_slots, free_warps, free_units = free_slots - 1, free_warps - warps, free_units - units
        placed += 1
    return placed


@given(footprints, devices)
def test_agrees_with_placing_warps_one_at_a_time(
    footprint: Footprint, limits: DeviceLimits
) -> None:
    placed = blocks_placed_one_warp_at_a_time(footprint, limits)
    assert block_limits(footprint, limits).blocks_per_sm == placed


@pytest.mark.parametrize("compute_capability", ["7.5", "8.6", "9.0"])
def test_agrees_with_placing_warps_for_every_register_count(compute_capability: str) -> None:
    limits = device(compute_capability)
    for registers in range(1, 256):
        for warps in range(1, 33):
            footprint = Footprint(registers, 32 * warps, 0)
            placed = blocks_placed_one_warp_at_a_time(footprint, limits)
            assert block_limits(footprint, limits).blocks_per_sm == placed


@given(footprints, devices, st.integers(1, 10**7), st.integers(1, 200))
def test_percentages_are_bounded_and_ordered(
    footprint: Footprint, limits: DeviceLimits, grid: int, sms: int
) -> None:
    result = occupancy(footprint, limits, grid_blocks=grid, sm_count=sms)
    assert result.machine_wide_pct is not None and result.busy_sm_pct is not None
    assert 0 <= result.machine_wide_pct <= result.busy_sm_pct <= result.theoretical_pct <= 100


@given(footprints, devices, st.integers(1, 255), st.integers(0, 256 * 1024))
def test_more_of_a_resource_never_raises_occupancy(
    footprint: Footprint, limits: DeviceLimits, registers: int, shared_memory: int
) -> None:
    more = Footprint(
        max(registers, footprint.registers_per_thread),
        footprint.threads_per_block,
        max(shared_memory, footprint.shared_memory_bytes),
    )
    assert occupancy(more, limits).theoretical_pct <= occupancy(footprint, limits).theoretical_pct


@given(footprints, devices)
def test_every_tied_limiter_is_listed(footprint: Footprint, limits: DeviceLimits) -> None:
    result = occupancy(footprint, limits)
    found = result.block_limits
    by_name = {
        "warps": found.warps,
        "registers": found.registers,
        "shared_memory": found.shared_memory,
        "blocks": found.blocks,
    }
    binding = {name for name, limit in by_name.items() if limit == result.blocks_per_sm}
    assert binding == set(result.limiters) != set()


@given(footprints, devices)
def test_next_step_is_the_smallest_that_helps(footprint: Footprint, limits: DeviceLimits) -> None:
    now = block_limits(footprint, limits).blocks_per_sm
    registers, threads, memory = (
        footprint.registers_per_thread,
        footprint.threads_per_block,
        footprint.shared_memory_bytes,
    )

    def gains(candidate: Footprint) -> bool:
        return block_limits(candidate, limits).blocks_per_sm > now

    step = next_step(footprint, limits)
    if step.registers is None:
        assert not gains(Footprint(1, threads, memory))
    else:
        assert step.registers.value < registers and step.registers.value % 8 == 0
        assert step.registers.blocks_per_sm > now
        larger = step.registers.value + 8
        assert larger >= registers or not gains(Footprint(larger, threads, memory))
    if step.shared_memory is None:
        assert not gains(Footprint(registers, threads, 0))
    else:
        assert step.shared_memory.value < memory
        assert step.shared_memory.blocks_per_sm > now
        assert not gains(Footprint(registers, threads, step.shared_memory.value + 1))


def test_next_step_in_words() -> None:
    tied = next_step(FLASH_128, device("8.0"))
    assert (tied.registers, tied.shared_memory) == (None, None)
    assert tied.sentence == (
        "Registers and shared memory bind together: less of one resource alone fits no further "
        "block."
    )
    step = next_step(FLASH_64, device("8.0"))
    assert step.shared_memory is None and step.registers is not None
    assert (step.registers.value, step.registers.blocks_per_sm) == (168, 3)
    assert step.sentence == "Next step: 168 registers per thread (3 blocks per SM, 18.75 %)."


def test_occupancy_curves() -> None:
    limits = device("9.0")
    registers = occupancy_curve(Footprint(32, 128, 0), limits, "registers")
    assert registers[0] == (8, 100.0) and registers[-1] == (255, 12.5)
    memory = occupancy_curve(Footprint(32, 128, 0), limits, "shared_memory")
    assert memory[0] == (0, 100.0) and memory[-1] == (232_448, 6.25)
    block = occupancy_curve(Footprint(168, 128, 0), limits, "block")
    assert dict(block)[384] == 18.75 and dict(block)[416] == 0
    with pytest.raises(ValueError, match="got 'warps'"):
        occupancy_curve(Footprint(32, 128, 0), limits, "warps")  # type: ignore[arg-type]
