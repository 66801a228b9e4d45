"""Who may import what: read from the source, and tried in fresh processes."""

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = sorted(
    [*ROOT.glob("*.py"), *(ROOT / "attention").rglob("*.py"), *(ROOT / "profiling").rglob("*.py")]
)

# Everything that starts from a recorded trace: it reads stored runs on machines without torch.
WITHOUT_TORCH = (
    "trace",
    "roles",
    "analysis",
    "occupancy",
    "kernel_names",
    "completeness",
    "verdict",
    "findings",
    "explanations",
    "timeline",
    "figures",
    "figures_occupancy",
    "occupancy_card",
    "launch",
    "tables",
    "kernel_tables",
    "kernel_card",
    "config",
    "outcome",
    "report",
    "store",
    "board",
    "text",
)


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def imports(tree: ast.AST) -> Iterator[str]:
    """Full dotted names of all that is imported, wherever it stands."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def imports_at_start(tree: ast.Module) -> Iterator[str]:
    """What importing the module imports: not in functions, not for the type checker alone."""
    for node in tree.body:
        typing_only = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        if not typing_only and not isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield from imports(node)


def attributes(tree: ast.AST) -> Iterator[str]:
    """Such as "torch.profiler" of `torch.profiler.profile(…)`."""
    yield from (ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute))


def is_of(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


def may_use(package: str, path: str) -> bool:
    panel = path.startswith("profiling/panels/")
    if package in ("gradio", "spaces"):
        return path == "app.py" or panel
    if package == "plotly":
        return path.startswith("profiling/figures") or panel
    if package == "torch.profiler":
        return path == "profiling/capture.py"
    return package != "profiling" or not path.startswith("attention/")


@pytest.mark.parametrize("package", ["gradio", "spaces", "plotly", "torch.profiler", "profiling"])
@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_a_package_is_used_only_where_it_belongs(path: Path, package: str) -> None:
    tree = ast.parse(path.read_text())
    used = [name for name in (*imports(tree), *attributes(tree)) if is_of(name, package)]
    assert not used or may_use(package, name_of(path))


def modules_without_torch() -> list[Path]:
    found: list[Path] = []
    for name in WITHOUT_TORCH:
        found += sorted((ROOT / "profiling").glob(f"{name}.py"))
        found += sorted((ROOT / "profiling" / name).glob("*.py"))
    return found


@pytest.mark.parametrize("path", modules_without_torch(), ids=name_of)
def test_what_reads_a_trace_imports_no_torch(path: Path) -> None:
    tree = ast.parse(path.read_text())
    assert not [name for name in imports_at_start(tree) if is_of(name, "torch")]


def fresh_python(code: str, *arguments: str, blocked: tuple[str, ...] = ()) -> str:
    """What `code` prints in a process of its own in which `blocked` cannot be imported."""
    block = f"import sys; sys.modules.update(dict.fromkeys({blocked!r})); "
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", block + code, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_what_reads_a_trace_works_without_torch() -> None:
    names = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts) for path in modules_without_torch()
    ]
    code = "import importlib; [importlib.import_module(name) for name in sys.argv[1:]]"
    fresh_python(code, *names, blocked=("torch",))


def test_the_command_line_starts_without_heavy_packages() -> None:
    heavy = ("gradio", "plotly", "pydantic", "torch", "numpy", "pandas")
    code = f"import profiling.cli; print([name for name in {heavy!r} if name in sys.modules])"
    assert fresh_python(code) == "[]\n"


def test_analyze_works_with_nothing_but_python(h200_traces: dict[str, Path]) -> None:
    printed = fresh_python(
        "from profiling.cli import main; sys.exit(main(sys.argv[1:]))",
        "analyze",
        str(h200_traces["8_16_1024_64_naive"]),
        "--json",
        blocked=("torch", "orjson", "numpy", "pandas", "gradio", "plotly", "pydantic"),
    )
    assert json.loads(printed)["per_forward"]["kernels"] == 5


def test_run_and_record_need_none_of_the_page() -> None:
    fresh_python(
        "import profiling.execute, profiling.record, profiling.cli",
        blocked=("gradio", "spaces", "plotly", "pydantic", "pebble", "orjson", "pandas"),
    )
