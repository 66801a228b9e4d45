"""What a launch's occupancy is and what would raise it, as HTML."""

from collections.abc import Iterator
from html import escape

from profiling.kernel_tables import LIMITERS, limiters_text
from profiling.launch import Launch
from profiling.occupancy import BlockLimits, next_step
from profiling.wording import counted, percent

NOT_ALWAYS_FASTER = (
    "Higher occupancy is not always faster: it only helps to hide latency, and fewer registers or "
    "less shared memory can cost more than it gains."
)


def occupancy_card_html(launch: Launch, name: str = "") -> str:
    """The result under `name`, a kernel's, or under a general heading."""
    found = launch.occupancy
    sentences = "".join(f"<p>{escape(sentence)}</p>" for sentence in _sentences(launch))
    return (
        "<section class='occupancy-card' role='status'>"
        f"<h3>{escape(name or 'This launch')}</h3>"
        f"<p><b class='value'>{percent(found.theoretical_pct)}</b> theoretical occupancy, "
        f"limited by {limiters_text(found.limiters)}</p>"
        f"{_limits_table(found.block_limits)}{sentences}</section>"
    )


def wrong_html(sentence: str) -> str:
    """Why there is no result; spoken by screen readers when it appears."""
    return f"<p class='wrong' role='alert'>{escape(sentence)}</p>"


def _sentences(launch: Launch) -> Iterator[str]:
    found, limits = launch.occupancy, launch.limits
    if found.caveat:
        yield found.caveat
    yield (
        f"{counted(found.blocks_per_sm, 'block')} per SM, {found.warps_per_sm} of "
        f"{limits.max_warps_per_sm} warps per SM."
    )
    yield _grid_sentence(launch)
    yield next_step(launch.footprint, limits).sentence
    yield NOT_ALWAYS_FASTER


def _grid_sentence(launch: Launch) -> str:
    found = launch.occupancy
    if found.machine_wide_pct is None or found.busy_sm_pct is None:
        return "Give the grid and the number of SMs for the waves and the machine-wide occupancy."
    waves = "No waves" if found.waves is None else counted(found.waves, "wave")
    if found.waves is not None and found.waves < 0.05:
        waves = "Less than 0.1 waves"
    return (
        f"{waves}; machine-wide {percent(found.machine_wide_pct)}, on busy SMs at most "
        f"{percent(found.busy_sm_pct)}."
    )


def _limits_table(limits: BlockLimits) -> str:
    allowed = {
        "warps": limits.warps,
        "registers": limits.registers,
        "shared_memory": limits.shared_memory,
        "blocks": limits.blocks,
    }
    rows = "".join(
        _limit_row(LIMITERS[resource], blocks, resource in limits.limiters)
        for resource, blocks in allowed.items()
    )
    return (
        "<table class='kernels'><thead><tr><th scope='col'>Resource</th>"
        "<th scope='col'>Allows, blocks per SM</th></tr></thead>"
        f"<tbody>{rows}</tbody></table>"
    )


def _limit_row(resource: str, blocks: int | None, binds: bool) -> str:
    shown = "no limit" if blocks is None else f"{blocks:,}"
    marked = f"<b>{shown}, binds</b>" if binds else shown
    return f"<tr><th scope='row'>{resource}</th><td>{marked}</td></tr>"
