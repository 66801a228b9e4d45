"""Fixtures for all tests."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# A busy machine is no failure.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")

H200_TRACES = sorted((Path(__file__).parent / "data" / "h200-traces").glob("*.json.gz"))


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No setting of the machine reaches the tests, and nothing is stored for real."""
    for name in list(os.environ):
        if name.startswith(("ATTNSCOPE_", "SPACE_", "SPACES_", "GRADIO_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("ATTNSCOPE_STORE", str(tmp_path / "store"))


@pytest.fixture
def h200_traces() -> dict[str, Path]:
    """Recorded traces by name, such as "8_16_1024_64_naive"."""
    return {path.name.removesuffix(".json.gz"): path for path in H200_TRACES}


@pytest.fixture(params=H200_TRACES, ids=lambda path: path.name.removesuffix(".json.gz"))
def h200_trace(request: pytest.FixtureRequest) -> Path:
    """Each recorded trace in turn."""
    path: Path = request.param
    return path
