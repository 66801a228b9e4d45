"""How far an output is from the float64 reference."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Numerics:
    """Absolute errors of the output over `coverage_pct` of its rows; NaN and Inf over all of it."""

    max_abs_error: float
    mean_abs_error: float
    nan_count: int
    inf_count: int
    tolerance: float
    coverage_pct: float

    @property
    def ok(self) -> bool:
        return not self.nan_count and not self.inf_count and self.max_abs_error <= self.tolerance
