"""How many warps of a kernel fit on a streaming multiprocessor (SM), and what limits them.

Kineto does not measure occupancy. It computes it from the launch record, always with the default
limit of 48 KiB of shared memory per block, so that every kernel whose library opted in to more
reads 0 %. Here the same record is computed again with the limits of the device, and the profiler's
number is explained where it differs.

Sources: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability";
cuda_occupancy.h (CUDA Toolkit); libkineto DeviceProperties.cpp for what Kineto prints.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from profiling.wording import percent

# The same on every compute capability from 7.0 to 12.1 (CUDA C++ Programming Guide, as above).
WARP_SIZE = 32
MAX_THREADS_PER_BLOCK = 1024
MAX_REGISTERS_PER_THREAD = 255
SUB_PARTITIONS_PER_SM = 4
REGISTERS_PER_SUB_PARTITION = 16_384
REGISTER_UNIT_PER_WARP = 256
DEFAULT_SHARED_MEMORY_PER_BLOCK_BYTES = 49_152

KIB = 1024
# nvcc hands out registers in eights: 256 per warp / 32 threads.
REGISTER_STEP = REGISTER_UNIT_PER_WARP // WARP_SIZE

Vary = Literal["registers", "shared_memory", "block"]


@dataclass(frozen=True, slots=True)
class DeviceLimits:
    """Per-SM and per-block limits of one compute capability; sizes in bytes."""

    compute_capability: str
    max_warps_per_sm: int
    max_blocks_per_sm: int
    shared_memory_per_sm_bytes: int
    shared_memory_per_block_optin_bytes: int
    reserved_shared_memory_bytes: int  # taken by the driver for each resident block
    shared_memory_unit_bytes: int  # allocation granularity
    example_gpus: str

    @property
    def max_threads_per_sm(self) -> int:
        return self.max_warps_per_sm * WARP_SIZE


# CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"; the reserve and
# the allocation unit are those of cuda_occupancy.h.
LIMITS: tuple[DeviceLimits, ...] = (
    DeviceLimits("7.0", 64, 32, 96 * KIB, 96 * KIB, 0, 256, "V100"),
    DeviceLimits("7.2", 64, 32, 96 * KIB, 96 * KIB, 0, 256, "Xavier"),
    DeviceLimits("7.5", 32, 16, 64 * KIB, 64 * KIB, 0, 256, "T4"),
    DeviceLimits("8.0", 64, 32, 164 * KIB, 163 * KIB, 1024, 128, "A100"),
    DeviceLimits("8.6", 48, 16, 100 * KIB, 99 * KIB, 1024, 128, "A10G, RTX 3090"),
    DeviceLimits("8.7", 48, 16, 164 * KIB, 163 * KIB, 1024, 128, "Orin"),
    DeviceLimits("8.9", 48, 24, 100 * KIB, 99 * KIB, 1024, 128, "L4, L40S, RTX 4090"),
    DeviceLimits("9.0", 64, 32, 228 * KIB, 227 * KIB, 1024, 128, "H100, H200"),
    DeviceLimits("10.0", 64, 32, 228 * KIB, 227 * KIB, 1024, 128, "B200"),
    DeviceLimits("10.3", 64, 32, 228 * KIB, 227 * KIB, 1024, 128, "B300"),
    DeviceLimits("11.0", 48, 24, 228 * KIB, 227 * KIB, 1024, 128, "Thor"),
    DeviceLimits("12.0", 48, 24, 100 * KIB, 99 * KIB, 1024, 128, "RTX 50, RTX PRO Blackwell"),
    DeviceLimits("12.1", 48, 24, 100 * KIB, 99 * KIB, 1024, 128, "GB10"),
)


@dataclass(frozen=True, slots=True)
class Footprint:
    """What one block of a kernel takes; shared memory is static + dynamic, without the reserve.

    0 registers means unknown: some recorders leave the field empty, and no kernel runs with none.
    """

    registers_per_thread: int
    threads_per_block: int
    shared_memory_bytes: int

    def __post_init__(self) -> None:
        if not 0 <= self.registers_per_thread <= MAX_REGISTERS_PER_THREAD:
            raise ValueError(
                f"registers_per_thread must be 0 (unknown) to {MAX_REGISTERS_PER_THREAD}, "
                f"got {self.registers_per_thread}"
            )
        if not 1 <= self.threads_per_block <= MAX_THREADS_PER_BLOCK:
            raise ValueError(
                f"threads_per_block must be 1 to {MAX_THREADS_PER_BLOCK}, "
                f"got {self.threads_per_block}"
            )
        if self.shared_memory_bytes < 0:
            raise ValueError(
                f"shared_memory_bytes must be 0 or more, got {self.shared_memory_bytes}"
            )

    @property
    def warps_per_block(self) -> int:
        return -(-self.threads_per_block // WARP_SIZE)


@dataclass(frozen=True, slots=True)
class BlockLimits:
    """Resident blocks per SM that each resource alone allows; None is no limit."""

    warps: int
    registers: int | None
    shared_memory: int | None
    blocks: int

    def _named(self) -> tuple[tuple[str, int | None], ...]:
        return (
            ("warps", self.warps),
            ("registers", self.registers),
            ("shared_memory", self.shared_memory),
            ("blocks", self.blocks),
        )

    @property
    def blocks_per_sm(self) -> int:
        return min(limit for _, limit in self._named() if limit is not None)

    @property
    def limiters(self) -> tuple[str, ...]:
        """Every resource that binds, ties included: relieving one of two changes nothing."""
        return tuple(name for name, limit in self._named() if limit == self.blocks_per_sm)


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Occupancy in percent of the SM's warps, unrounded; None where the inputs do not tell.

    `machine_wide_pct` averages over all SMs, idle ones included, which is what Kineto intends.
    `busy_sm_pct` looks only at SMs that got a block: an upper bound of what Nsight Compute calls
    achieved, not a prediction. `waves` is the grid over the blocks resident at once.
    """

    reported_pct: float | None
    theoretical_pct: float
    machine_wide_pct: float | None
    busy_sm_pct: float | None
    limiters: tuple[str, ...]
    blocks_per_sm: int
    waves: float | None
    why_reported_differs: str | None
    block_limits: BlockLimits
    warps_per_sm: int
    caveat: str | None  # unknown registers, or a footprint that cannot launch


@dataclass(frozen=True, slots=True)
class Reduction:
    """One resource brought down to `value` (registers or bytes), and what that gives."""

    value: int
    blocks_per_sm: int
    theoretical_pct: float


@dataclass(frozen=True, slots=True)
class NextStep:
    """Smallest reduction of one resource alone that fits another block; None if it cannot help."""

    registers: Reduction | None
    shared_memory: Reduction | None
    sentence: str


def limits_for(compute_capability: str) -> DeviceLimits | None:
    """The limits of "9.0" and the like, or None: an unknown device gets no guess."""
    return next((row for row in LIMITS if row.compute_capability == compute_capability), None)


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def registers_per_warp(footprint: Footprint) -> int:
    """What a warp is given: whole allocation units."""
    return _round_up(footprint.registers_per_thread * WARP_SIZE, REGISTER_UNIT_PER_WARP)


def warps_by_registers(footprint: Footprint) -> int | None:
    """Warps per SM that its registers hold, blocks left aside; None is no limit.

    A warp takes all its registers from one of the SM's four sub-partitions.
    """
    if footprint.registers_per_thread == 0:
        return None
    return SUB_PARTITIONS_PER_SM * (REGISTERS_PER_SUB_PARTITION // registers_per_warp(footprint))


def allocated_shared_memory_bytes(shared_memory_bytes: int, limits: DeviceLimits) -> int:
    """What a resident block takes: the driver's reserve included, in whole allocation units."""
    reserve = limits.reserved_shared_memory_bytes
    return _round_up(shared_memory_bytes + reserve, limits.shared_memory_unit_bytes)


def _blocks_by_registers(footprint: Footprint) -> int | None:
    """Whole blocks of the warps that the registers hold.

    65,536 / (registers * threads) would be too generous: 37 registers and 320 threads give 4
    blocks, not 5. cuda_occupancy.h, register limit.
    """
    warps = warps_by_registers(footprint)
    return None if warps is None else warps // footprint.warps_per_block


def _blocks_by_shared_memory(
    shared_memory_bytes: int, limits: DeviceLimits, block_limit_bytes: int
) -> int | None:
    """cuda_occupancy.h, shared memory limit; the reserve counts for each resident block."""
    allocated = allocated_shared_memory_bytes(shared_memory_bytes, limits)
    if allocated > block_limit_bytes + limits.reserved_shared_memory_bytes:
        return 0
    return limits.shared_memory_per_sm_bytes // allocated if allocated else None


def _block_limits(
    footprint: Footprint, limits: DeviceLimits, block_limit_bytes: int
) -> BlockLimits:
    return BlockLimits(
        warps=limits.max_warps_per_sm // footprint.warps_per_block,
        registers=_blocks_by_registers(footprint),
        shared_memory=_blocks_by_shared_memory(
            footprint.shared_memory_bytes, limits, block_limit_bytes
        ),
        blocks=limits.max_blocks_per_sm,
    )


def block_limits(footprint: Footprint, limits: DeviceLimits) -> BlockLimits:
    """Resident blocks per SM by resource, with shared memory up to the opt-in limit."""
    return _block_limits(footprint, limits, limits.shared_memory_per_block_optin_bytes)


def kineto_reported_pct(
    footprint: Footprint, limits: DeviceLimits, grid_blocks: int, sm_count: int
) -> int:
    """What Kineto prints as "est. achieved occupancy %" (libkineto DeviceProperties.cpp).

    It keeps the default shared memory limit for every kernel and counts threads, not warps.
    """
    resident = _block_limits(footprint, limits, DEFAULT_SHARED_MEMORY_PER_BLOCK_BYTES).blocks_per_sm
    threads_per_sm = min(resident, grid_blocks / sm_count) * footprint.threads_per_block
    return _half_up(100 * threads_per_sm / limits.max_threads_per_sm)


def _half_up(value: float) -> int:
    # torch 2.11 adds a half and truncates, later versions round half away from zero: the same
    # for what is never negative, and unlike Python's round, which would turn 12.5 into 12.
    return int(value + 0.5)


def occupancy(
    footprint: Footprint,
    limits: DeviceLimits,
    *,
    grid_blocks: int | None = None,
    sm_count: int | None = None,
    reported_pct: float | None = None,
) -> Occupancy:
    """Occupancy of one launch; the grid-aware figures need the grid and the SM count."""
    _require_positive("grid_blocks", grid_blocks)
    _require_positive("sm_count", sm_count)
    by_resource = block_limits(footprint, limits)
    resident = by_resource.blocks_per_sm
    pct_per_block = 100 * footprint.warps_per_block / limits.max_warps_per_sm
    share = grid_blocks / sm_count if grid_blocks and sm_count else None
    estimate = Occupancy(
        reported_pct=reported_pct,
        theoretical_pct=resident * pct_per_block,
        machine_wide_pct=None if share is None else min(resident, share) * pct_per_block,
        busy_sm_pct=None if share is None else min(resident, max(1.0, share)) * pct_per_block,
        limiters=by_resource.limiters,
        blocks_per_sm=resident,
        waves=share / resident if share is not None and resident else None,
        why_reported_differs=None,
        block_limits=by_resource,
        warps_per_sm=resident * footprint.warps_per_block,
        caveat=_caveat(footprint, limits, by_resource),
    )
    why = _why_reported_differs(footprint, limits, estimate, grid_blocks, sm_count)
    return replace(estimate, why_reported_differs=why)


def _require_positive(name: str, value: int | None) -> None:
    if value is not None and value < 1:
        raise ValueError(f"{name} must be 1 or more, or None when unknown, got {value}")


def _caveat(footprint: Footprint, limits: DeviceLimits, by_resource: BlockLimits) -> str | None:
    if by_resource.registers == 0:
        return (
            f"Cannot launch: {footprint.threads_per_block} threads with "
            f"{footprint.registers_per_thread} registers each need more than the "
            "65,536 registers of a block."
        )
    if by_resource.shared_memory == 0:
        return (
            f"Cannot launch on compute capability {limits.compute_capability}: "
            f"{footprint.shared_memory_bytes:,} B of shared memory per block, at most "
            f"{limits.shared_memory_per_block_optin_bytes:,} B are allowed."
        )
    if footprint.registers_per_thread == 0:
        return "Registers per thread are unknown (0): the true occupancy may be lower."
    return None


def _why_reported_differs(
    footprint: Footprint,
    limits: DeviceLimits,
    estimate: Occupancy,
    grid_blocks: int | None,
    sm_count: int | None,
) -> str | None:
    reported = estimate.reported_pct
    if reported is None:
        return None
    if reported < 0:
        return (
            f"The profiler shows {reported:g} because its occupancy calculator does not know "
            f"this device. {_recomputed(estimate)}"
        )
    if reported == 0 and footprint.shared_memory_bytes > DEFAULT_SHARED_MEMORY_PER_BLOCK_BYTES:
        return (
            f"The profiler shows 0 % because this kernel uses {footprint.shared_memory_bytes:,} B "
            "of shared memory per block: its estimate assumes the default limit of "
            f"{DEFAULT_SHARED_MEMORY_PER_BLOCK_BYTES:,} B, and the library opted in to more. "
            f"{_recomputed(estimate)}"
        )
    if grid_blocks is None or sm_count is None or estimate.machine_wide_pct is None:
        return _why_without_grid(estimate, reported)
    if reported == 0 and _half_up(estimate.machine_wide_pct) == 0:
        return (
            f"The grid is tiny: {_count(grid_blocks, 'block')} on {_count(sm_count, 'SM')} "
            f"average {percent(estimate.machine_wide_pct)} over the GPU, which the profiler rounds "
            f"down to 0 %. The kernel's own limits allow {percent(estimate.theoretical_pct)}."
        )
    predicted = kineto_reported_pct(footprint, limits, grid_blocks, sm_count)
    return _why_beyond_rounding(footprint, estimate, estimate.machine_wide_pct, predicted)


def _why_without_grid(estimate: Occupancy, reported: float) -> str | None:
    if abs(reported - _half_up(estimate.theoretical_pct)) <= 1:
        return None
    return (
        f"The profiler shows {reported:g} %, the kernel's own limits allow "
        f"{percent(estimate.theoretical_pct)}; the grid or the number of SMs is unknown, so a "
        "small grid may be the reason."
    )


def _why_beyond_rounding(
    footprint: Footprint, estimate: Occupancy, machine_wide_pct: float, predicted_pct: int
) -> str | None:
    """Within 1 the two agree: the profiler's integer was rounded, and from threads."""
    reported = estimate.reported_pct
    if reported is None or abs(reported - _half_up(machine_wide_pct)) <= 1:
        return None
    if reported == predicted_pct and footprint.threads_per_block % WARP_SIZE:
        return (
            f"The profiler shows {reported:g} % because it counts threads; the hardware allocates "
            f"whole warps, {footprint.warps_per_block} for this block of "
            f"{footprint.threads_per_block} threads. {_recomputed(estimate)}"
        )
    return (
        f"The profiler shows {reported:g} %, but the same record gives "
        f"{percent(machine_wide_pct)} averaged over the GPU; no known cause explains the "
        "difference."
    )


def _recomputed(estimate: Occupancy) -> str:
    text = f"Recomputed from the same record: {percent(estimate.theoretical_pct)}"
    if estimate.machine_wide_pct is None or estimate.machine_wide_pct == estimate.theoretical_pct:
        return f"{text}."
    return f"{text}, or {percent(estimate.machine_wide_pct)} averaged over all SMs."


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def launch_footprint(
    registers_per_thread: object, block: object, shared_memory_bytes: object
) -> Footprint | None:
    """The footprint of a trace record, or None where a value is missing or impossible.

    `block` is [x, y, z] in threads, as traces have it.
    """
    registers = _whole(registers_per_thread)
    threads = _product(block)
    shared_memory = _whole(shared_memory_bytes)
    if registers is None or threads is None or shared_memory is None:
        return None
    try:
        return Footprint(registers, threads, shared_memory)
    except ValueError:
        return None


def kernel_occupancy(
    footprint: Footprint | None,
    limits: DeviceLimits | None,
    *,
    grid: object = None,
    sm_count: object = None,
    reported_pct: object = None,
) -> Occupancy | None:
    """Occupancy of a recorded kernel: odd values count as unknown, never as an exception.

    None when the footprint (see `launch_footprint`) or the device is unknown. `grid` is [x, y, z]
    in blocks.
    """
    if footprint is None or limits is None:
        return None
    return occupancy(
        footprint,
        limits,
        grid_blocks=_product(grid),
        sm_count=_positive(_whole(sm_count)),
        reported_pct=_number(reported_pct),
    )


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    # A trace is a stranger's file: what no 64-bit counter can hold is no count. NaN fails as well.
    return value if abs(value) < 2**63 else None


def _whole(value: object) -> int | None:
    number = _number(value)
    return int(number) if number is not None and number == int(number) else None


def _positive(value: int | None) -> int | None:
    return value if value is not None and value > 0 else None


def _product(sizes: object) -> int | None:
    if not isinstance(sizes, Sequence) or isinstance(sizes, str | bytes) or not sizes:
        return None
    total = 1
    for size in sizes:
        whole = _positive(_whole(size))
        if whole is None:
            return None
        total *= whole
    return total


def next_step(footprint: Footprint, limits: DeviceLimits) -> NextStep:
    """What to reduce for one more resident block; found by searching the formula."""
    current = block_limits(footprint, limits)
    registers = _first_gain(_fewer_registers(footprint), limits, current.blocks_per_sm)
    shared_memory = _first_gain(
        _less_shared_memory(footprint, limits, current.blocks_per_sm), limits, current.blocks_per_sm
    )
    by_registers = (
        _reduction(registers, registers.registers_per_thread, limits) if registers else None
    )
    by_memory = (
        _reduction(shared_memory, shared_memory.shared_memory_bytes, limits)
        if shared_memory
        else None
    )
    return NextStep(by_registers, by_memory, _advice(current.limiters, by_registers, by_memory))


def _first_gain(
    candidates: Iterable[Footprint], limits: DeviceLimits, blocks_per_sm: int
) -> Footprint | None:
    gains = (c for c in candidates if block_limits(c, limits).blocks_per_sm > blocks_per_sm)
    return next(gains, None)


def _fewer_registers(footprint: Footprint) -> list[Footprint]:
    below = _round_up(footprint.registers_per_thread, REGISTER_STEP) - REGISTER_STEP
    return [
        replace(footprint, registers_per_thread=registers)
        for registers in range(below, 0, -REGISTER_STEP)
    ]


def _less_shared_memory(
    footprint: Footprint, limits: DeviceLimits, blocks_per_sm: int
) -> list[Footprint]:
    """The largest size of which one block more fits, if it is less than now."""
    per_block = min(
        limits.shared_memory_per_sm_bytes // (blocks_per_sm + 1),
        limits.shared_memory_per_block_optin_bytes + limits.reserved_shared_memory_bytes,
    )
    unit = limits.shared_memory_unit_bytes
    size = per_block // unit * unit - limits.reserved_shared_memory_bytes
    if not 0 <= size < footprint.shared_memory_bytes:
        return []
    return [replace(footprint, shared_memory_bytes=size)]


def _reduction(footprint: Footprint, value: int, limits: DeviceLimits) -> Reduction:
    reached = occupancy(footprint, limits)
    return Reduction(value, reached.blocks_per_sm, reached.theoretical_pct)


def _advice(
    limiters: tuple[str, ...], registers: Reduction | None, shared_memory: Reduction | None
) -> str:
    if registers is None and shared_memory is None:
        names = " and ".join(name.replace("_", " ") for name in limiters)
        verb = "bind together" if len(limiters) > 1 else "bind"
        return f"{names.capitalize()} {verb}: less of one resource alone fits no further block."
    steps = []
    if registers is not None:
        steps.append(f"{registers.value} registers per thread ({_gain(registers)})")
    if shared_memory is not None:
        steps.append(f"{shared_memory.value:,} B of shared memory ({_gain(shared_memory)})")
    return f"Next step: {' or '.join(steps)}."


def _gain(step: Reduction) -> str:
    return f"{_count(step.blocks_per_sm, 'block')} per SM, {percent(step.theoretical_pct)}"


def occupancy_curve(
    footprint: Footprint, limits: DeviceLimits, vary: Vary
) -> list[tuple[int, float]]:
    """(value, theoretical %) while one input varies: registers, bytes, or threads per block."""
    if vary == "registers":
        values = [*range(REGISTER_STEP, 256, REGISTER_STEP), MAX_REGISTERS_PER_THREAD]
        points = [replace(footprint, registers_per_thread=value) for value in values]
    elif vary == "shared_memory":
        end = limits.shared_memory_per_block_optin_bytes
        values = list(range(0, end + 1, limits.shared_memory_unit_bytes))
        points = [replace(footprint, shared_memory_bytes=value) for value in values]
    elif vary == "block":
        values = list(range(WARP_SIZE, MAX_THREADS_PER_BLOCK + 1, WARP_SIZE))
        points = [replace(footprint, threads_per_block=value) for value in values]
    else:
        raise ValueError(f"vary must be registers, shared_memory or block, got {vary!r}")
    curve = (occupancy(point, limits).theoretical_pct for point in points)
    return list(zip(values, curve, strict=True))
