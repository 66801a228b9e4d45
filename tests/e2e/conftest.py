"""The running app on a free port, and Chromium to drive it."""

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from playwright.sync_api import Page

PROJECT = Path(__file__).parent.parent.parent
_START_S = 120.0


@pytest.fixture(scope="session")
def browser_type_launch_args() -> dict[str, Any]:
    """Chromium as the system has it; without one there is nothing to drive."""
    names = ("chromium", "chromium-browser", "google-chrome")
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        message = f"The browser tests need one of {', '.join(names)} from the system's packages."
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    return {"executable_path": found}


@pytest.fixture(scope="session")
def app_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The app as `python app.py` starts it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder = tmp_path_factory.mktemp("app")
    environment = {
        **os.environ,
        "GRADIO_SERVER_PORT": str(port),
        "GRADIO_TEMP_DIR": str(folder / "gradio"),
        "ATTNSCOPE_STORE": str(folder / "store"),
        "CUDA_VISIBLE_DEVICES": "",
    }
    log = folder / "log.txt"
    with log.open("w") as output:
        child = subprocess.Popen(
            [sys.executable, "app.py"], cwd=PROJECT, env=environment, stdout=output, stderr=output
        )
    url = f"http://127.0.0.1:{port}/"
    try:
        _wait_until_served(url, child, log)
        yield url
        assert child.poll() is None, f"The app ended during the tests: {log.read_text()}"
    finally:
        child.terminate()
        child.wait(timeout=20)


def _wait_until_served(url: str, child: "subprocess.Popen[bytes]", log: Path) -> None:
    give_up = time.monotonic() + _START_S
    while time.monotonic() < give_up:
        if child.poll() is not None:
            pytest.fail(f"The app ended with {child.returncode}: {log.read_text()}")
        try:
            with urlopen(url):
                return
        except URLError:
            time.sleep(0.2)
    pytest.fail(f"The app did not answer within {_START_S:.0f} s: {log.read_text()}")


@pytest.fixture
def complaints(page: Page) -> list[str]:
    """What the browser's console and its page report as warnings and errors."""
    told: list[str] = []
    page.on("pageerror", lambda error: told.append(str(error)))
    page.on(
        "console",
        lambda message: told.append(message.text) if message.type in ("error", "trace") else None,
    )
    return told


@pytest.fixture
def requests(page: Page) -> list[str]:
    """Addresses that the page asked for."""
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    return asked


@pytest.fixture
def opened(page: Page, app_url: str, requests: list[str], complaints: list[str]) -> Page:
    """The page with its recorded timelines drawn."""
    page.set_default_timeout(60_000)
    page.goto(app_url)
    page.wait_for_selector(".timeline-plot[data-runs='5'] .bars path")
    return page
