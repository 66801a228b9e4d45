"""Numbers inside sentences, with their units."""


def counted(number: float, noun: str, plural: str | None = None) -> str:
    """Such as "1 launch", "20 kernels", "6.7 kernels"; `plural` where adding an s is wrong."""
    shown = f"{number:,.0f}" if number == round(number) else f"{number:,.1f}"
    return f"{shown} {noun if shown == '1' else plural or f'{noun}s'}"


def activities(number: float) -> str:
    """Such as "3 GPU activities"."""
    return counted(number, "GPU activity", "GPU activities")


def microseconds(value: float) -> str:
    """Such as "1,064.6 µs"."""
    return f"{value:,.1f} µs"


def size(number: int) -> str:
    """Exact bytes, and readable ones from a KiB on: "268,435,456 B (256 MiB)"."""
    for unit, factor in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if number >= factor:
            return f"{number:,} B ({number / factor:.4g} {unit})"
    return f"{number:,} B"


def share(part: float, whole: float) -> str:
    """Such as "12.0 %"; of nothing, nothing."""
    return f"{100 * part / whole:.1f} %" if whole else "0 %"


def listed(words: list[str]) -> str:
    """Such as "ones, tril and where"."""
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def percent(value: float) -> str:
    """Such as "18.75 %", "12.5 %"; what is not 0 never reads as 0."""
    if 0 < value < 0.005:
        return "less than 0.01 %"
    return f"{value:.2f}".rstrip("0").rstrip(".") + " %"
