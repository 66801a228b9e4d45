"""What the README says is what the code does."""

import re
from pathlib import Path

from attention.variants import BACKENDS, VARIANTS
from profiling.outcome import RunResult
from profiling.store import recorded_reports
from tests.bench.occupancy_against_ncu import mismatches, read_table, report

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
NCU = ROOT / "tests/data/ncu_h200_185_launches.csv"


def test_the_variant_table_lists_every_variant() -> None:
    assert [f"| `{v.name}` | {v.summary} |" in README for v in VARIANTS] == [True] * len(VARIANTS)
    assert all(f"`{backend.name}`" in README for backend in BACKENDS)


def test_the_article_table_shows_the_recorded_runs(tmp_path: Path) -> None:
    rows = {
        match[1]: [cell.strip() for cell in match[2].split("|")]
        for match in re.finditer(r"^\| `([a-z_:]+)` \|(.*[0-9].*)\|$", README, re.MULTILINE)
    }
    for run in recorded_reports(folder=tmp_path)[0].outcomes:
        assert isinstance(run, RunResult)
        per, occupancy = run.analysis.per_forward, run.analysis.occupancy
        assert occupancy is not None and per.gpu_busy_us is not None
        assert run.unprofiled.gpu_graph_us is not None
        assert rows[run.config.label][:5] == [
            f"{per.kernels:.0f} + {per.memcpys:.0f}",
            f"{per.gpu_busy_us:,.1f}",
            f"{run.unprofiled.gpu_graph_us:,.1f}",
            f"{run.unprofiled.cpu_time_us.median:,.1f}",
            f"{occupancy.theoretical_pct:.1f} ({occupancy.reported_pct:.1f})",
        ]


def test_theoretical_occupancy_is_nsights_and_the_table_is_true() -> None:
    checked = read_table(NCU, "9.0", 132)
    assert len(checked) == 185
    assert mismatches(checked) == []
    measured = report(checked, every_row=False)
    for line in README.splitlines():
        if line.startswith(("| over 48 KiB", "| at most 48 KiB", "| the rest")):
            name, count, *errors = [cell.strip() for cell in line.strip("|").split("|")]
            row = next(row for row in measured.splitlines() if row.startswith(f"| {name} "))
            cells = [cell.strip() for cell in row.strip("|").split("|")]
            assert [cells[1], *cells[3:7]] == [count, *errors]


def test_the_front_matter_pins_the_gradio_of_the_requirements() -> None:
    version = re.search(r"^sdk_version: (.+)$", README, re.MULTILINE)
    assert version is not None
    assert f"gradio=={version[1]}\n" in (ROOT / "requirements.txt").read_text()


def test_pictures_and_files_named_in_the_readme_exist() -> None:
    for path in re.findall(r"\]\((assets/[^)]+)\)|(tests/[\w./-]+)", README):
        assert (ROOT / (path[0] or path[1])).exists(), path
