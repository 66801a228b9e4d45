"""The page in a real browser, with a real worker on the CPU."""

import gzip
import io
import json
import re
import zipfile
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

pytestmark = pytest.mark.e2e

RECORDED = Path(__file__).parent.parent.parent / "assets" / "recorded" / "h200.zip"
OPENING = ["naive", "naive_inplace", "sdpa:math", "sdpa:flash", "sdpa:cudnn"]


def run_names(page: Page) -> list[str]:
    return page.locator(".comparison tbody .run").all_inner_texts()


def row(page: Page, name: str) -> Any:
    exact = re.compile(rf"^{re.escape(name)}$")
    return page.locator(".comparison tbody tr").filter(
        has=page.locator(".run").filter(has_text=exact)
    )


def run(page: Page, variant: str, backend: str | None = None, **sizes: str) -> None:
    choose(page, "#variant", variant)
    if backend:
        choose(page, "#backend", backend)
    for name, value in sizes.items():
        page.locator(f"#{name} input").fill(value)
    page.locator("#run").click()


def choose(page: Page, dropdown: str, label: str) -> None:
    page.locator(f"{dropdown} input").click()
    page.get_by_role("option", name=re.compile(rf"^{re.escape(label)}")).click()


def recorded_flash() -> dict[str, Any]:
    """The only kernel launched in the second recorded forward of sdpa:flash, from the raw trace."""
    with zipfile.ZipFile(RECORDED) as archive:
        runs = json.loads(archive.read("report.json"))["runs"]
        name = next(
            run["trace"]
            for run in runs
            if run["config"]["label"] == "sdpa:flash" and run["config"]["seq_len"] == 1024
        )
        with gzip.open(io.BytesIO(archive.read(name))) as file:
            events = json.load(file)["traceEvents"]
    kernels = [event for event in events if event.get("cat") == "kernel"]
    kernel: dict[str, Any] = sorted(kernels, key=lambda event: event["ts"])[1]
    return kernel


def test_opens_with_recorded_timelines(
    opened: Page, app_url: str, requests: list[str], complaints: list[str]
) -> None:
    assert run_names(opened) == OPENING
    assert opened.locator(".timeline-plot .bars path").count() > 150
    kernel = recorded_flash()
    widths = opened.evaluate(
        """() => document.querySelector(".timeline-plot").data
        .filter((trace) => trace.uid === "run4-attention")
        .flatMap((trace) => trace.customdata.filter(([, key]) => key.includes(".gpu.")))"""
    )
    assert [round(duration * 1000) for duration, _ in widths] == [round(kernel["dur"] * 1000)]
    assert all(address.startswith((app_url, "data:", "blob:")) for address in requests)
    assert complaints == []


def test_a_bar_is_as_wide_as_its_event(opened: Page) -> None:
    """Pixels of the recorded flash kernel over pixels per µs are its duration, to a pixel."""
    measured = opened.evaluate(
        """() => {
          const plot = document.querySelector(".timeline-plot");
          const index = plot.data.findIndex((trace) => trace.uid === "run4-attention");
          const trace = plot.data[index];
          const place = trace.customdata.findIndex(([, key]) => key.includes(".gpu."));
          const group = [...plot.querySelectorAll(".trace.bars")]
            .find((one) => one.__data__[0].trace.index === index);
          const width = group.querySelectorAll(".point path")[place].getBBox().width;
          const axis = plot._fullLayout.xaxis;
          return [width, axis._length / (axis.range[1] - axis.range[0])];
        }"""
    )
    width_px, px_per_us = measured
    assert abs(width_px - recorded_flash()["dur"] * px_per_us) <= 1


def test_live_run_is_added_removed_and_compared(opened: Page, complaints: list[str]) -> None:
    expect(opened.locator("#where, .where").last).to_contain_text("No GPU here", timeout=60_000)
    run(opened, "naive: ", seq_len="64", batch="1")
    expect(opened.locator("#message")).to_contain_text("was run on CPU", timeout=90_000)
    assert run_names(opened) == [*OPENING, "naive"]
    live = opened.locator(".comparison tbody tr").last
    assert live.locator(".badge").inner_text() == "CPU"
    cells = live.locator("td .value").all_inner_texts()
    assert cells[0] == "–" and cells[2:6] == ["–", "–", "–", "–"]
    expect(opened.locator(".timeline-plot")).to_have_attribute("data-runs", "6")

    opened.locator("#run").click()
    expect(opened.locator("#message")).to_contain_text("holds 6 runs")
    assert len(run_names(opened)) == 6

    row(opened, "sdpa:flash").get_by_role("button", name="Compare with").click()
    expect(row(opened, "sdpa:math").locator(".delta").first).to_contain_text("slower")
    expect(live.locator(".delta").first).to_contain_text("vs another device")

    row(opened, "sdpa:math").get_by_role("button", name="Remove").click()
    expect(opened.locator(".timeline-plot")).to_have_attribute("data-runs", "5")
    assert run_names(opened) == ["naive", "naive_inplace", "sdpa:flash", "sdpa:cudnn", "naive"]
    assert complaints == []


def test_skipped_run_shows_its_reason(opened: Page) -> None:
    run(opened, "sdpa: ", "cudnn", seq_len="64", batch="1")
    expect(opened.locator(".comparison .reason")).to_contain_text("CUDA", timeout=90_000)
    assert run_names(opened) == [*OPENING, "sdpa:cudnn"]


@pytest.mark.parametrize(
    ("field", "value", "sentence"),
    [
        ("seq_len", "0", "seq_len must be a whole number from 1 to 131,072; got 0."),
        ("seq_len", "-1", "got -1."),
        ("seq_len", "abc", "got 'abc'."),
        ("batch", "1e12", "batch must be a whole number from 1 to 1,024"),
        ("batch", "", "got ''."),
    ],
)
def test_bad_input_is_one_sentence(opened: Page, field: str, value: str, sentence: str) -> None:
    opened.locator(f"#{field} input").fill(value)
    opened.locator("#run").click()
    expect(opened.get_by_role("alert")).to_contain_text(sentence)
    assert run_names(opened) == OPENING


def test_backend_is_offered_where_it_applies(opened: Page) -> None:
    expect(opened.locator("#backend")).to_be_visible()
    choose(opened, "#variant", "naive, in place")
    expect(opened.locator("#backend")).to_be_hidden()


def test_recorded_runs_and_other_problems(opened: Page) -> None:
    opened.get_by_label("sdpa:efficient").check()
    expect(opened.locator(".timeline-plot")).to_have_attribute("data-runs", "6")
    choose(opened, "#shape", "2×16×4096×64")
    expect(opened.locator(".comparison caption")).to_contain_text("2×16×4096×64")
    assert len(run_names(opened)) == 6


def test_zoom_is_kept_when_a_run_is_removed(opened: Page) -> None:
    plot = opened.locator(".timeline-plot")
    plot.focus()
    opened.keyboard.press("+")
    opened.keyboard.press("+")
    axis_range = "() => document.querySelector('.timeline-plot').layout.xaxis.range"
    zoomed = opened.evaluate(axis_range)
    row(opened, "sdpa:math").get_by_role("button", name="Remove").click()
    expect(plot).to_have_attribute("data-runs", "4")
    assert opened.evaluate(axis_range) == zoomed
    plot.focus()
    opened.keyboard.press("0")
    assert opened.evaluate(axis_range)[0] < 0


def test_legend_hides_a_role_in_every_run(opened: Page) -> None:
    softmax = opened.get_by_role("button", name="softmax")
    softmax.click()
    shown = opened.evaluate(
        """() => document.querySelector(".timeline-plot").data
        .filter((trace) => trace.meta.role === "softmax").map((trace) => trace.visible)"""
    )
    assert shown == [False, False, False]
    expect(softmax).to_have_attribute("aria-pressed", "false")


def test_published_row_is_labelled(opened: Page) -> None:
    opened.locator("#published input").check()
    expect(opened.locator("tr.published")).to_have_count(6)
    flash = row(opened, "sdpa:flash").last
    expect(flash).to_contain_text("published, not measured here")
    assert flash.locator(".value").first.inner_text() == "146.8"


def test_dark_and_light_follow_the_page(opened: Page, app_url: str) -> None:
    ink = "() => document.querySelector('.timeline-plot').layout.font.color"
    assert opened.evaluate(ink) == "#1f2430"
    opened.evaluate("() => document.body.classList.add('dark')")
    opened.wait_for_function(f"() => ({ink})() === '#e6e8ee'")


def test_phone_has_no_sideways_scroll(opened: Page) -> None:
    opened.set_viewport_size({"width": 390, "height": 844})
    opened.locator("#kernels summary").first.click()
    expect(opened.locator("#kernels .kernels").first).to_be_visible()
    assert opened.evaluate("() => document.documentElement.scrollWidth") <= 390


def test_all_forwards_are_drawn_on_one_axis(opened: Page) -> None:
    bars = opened.locator(".timeline-plot .bars path")
    one = bars.count()
    choose(opened, "#forward", "all")
    opened.wait_for_function(
        f"() => document.querySelectorAll('.timeline-plot .bars path').length > {2 * one}"
    )


def test_every_run_is_explained(opened: Page) -> None:
    card = opened.locator("#meaning article").first
    expect(card).to_contain_text("Waits for the GPU.")
    hidden_copy = card.locator("details").filter(has_text="masked_fill makes a hidden copy")
    hidden_copy.locator("summary").click()
    expect(hidden_copy).to_contain_text("268,435,456 B")


def test_an_empty_board_says_what_to_do(opened: Page) -> None:
    for _ in OPENING:
        before = len(run_names(opened))
        opened.get_by_role("button", name="Remove").first.click()
        expect(opened.locator(".comparison tbody tr")).to_have_count(before - 1)
    expect(opened.locator("#comparison")).to_contain_text("Choose a variant above")
    assert opened.locator(".timeline-plot .bars path").count() == 0
    opened.get_by_label("sdpa:flash").check()
    expect(opened.locator(".timeline-plot")).to_have_attribute("data-runs", "1")
