"""A kernel launch as numbers typed by hand: read in one place for the command line and the page."""

from dataclasses import dataclass

from attention.spec import SpecError, check_whole_number, whole_number
from profiling.occupancy import LIMITS, DeviceLimits, Footprint, Occupancy, limits_for, occupancy

# The largest grid that CUDA launches, x times y times z; no GPU of today has 1,024 SMs.
_GRID = (1, (2**31 - 1) * 65_535**2)
_SM_COUNT = (1, 1024)


@dataclass(frozen=True, slots=True)
class Launch:
    """A footprint on a device; `grid_blocks` and `sm_count` are None where they are not given."""

    footprint: Footprint
    limits: DeviceLimits
    grid_blocks: int | None
    sm_count: int | None

    @property
    def occupancy(self) -> Occupancy:
        return occupancy(
            self.footprint, self.limits, grid_blocks=self.grid_blocks, sm_count=self.sm_count
        )


def read_launch(
    *,
    registers: object,
    block: object,
    shared_memory: object,
    compute_capability: object,
    grid: object = None,
    sm_count: object = None,
) -> Launch:
    """The launch that the texts mean, or a SpecError with one sentence.

    `registers` per thread, `block` and `grid` in threads and blocks, `shared_memory` in bytes per
    block.
    """
    limits = limits_for(str(compute_capability))
    if limits is None:
        known = ", ".join(row.compute_capability for row in LIMITS)
        raise SpecError(
            f"compute capability must be one of {known}; got {str(compute_capability)[:20]!r}."
        )
    blocks = (
        None if grid is None else check_whole_number("grid", whole_number("grid", grid), *_GRID)
    )
    sms = (
        None
        if sm_count is None
        else check_whole_number("sm-count", whole_number("sm-count", sm_count), *_SM_COUNT)
    )
    sizes = (
        whole_number("registers", registers),
        whole_number("block", block),
        whole_number("shared-memory", shared_memory),
    )
    try:
        footprint = Footprint(*sizes)
    except ValueError as error:
        raise SpecError(f"{error}.") from error
    return Launch(footprint, limits, blocks, sms)
