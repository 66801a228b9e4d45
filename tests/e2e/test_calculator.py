"""The occupancy calculator in a real browser."""

import pytest
from playwright.sync_api import Locator, Page, expect

pytestmark = pytest.mark.e2e


@pytest.fixture
def calculator(opened: Page) -> Locator:
    """Unfolded, with its curves drawn."""
    opened.get_by_role("button", name="Occupancy calculator").click()
    opened.wait_for_selector(".calculator-plot[data-panels='3'] .scatterlayer path")
    return opened.locator("#calculator")


def typed(calculator: Locator, field: str, text: str) -> None:
    calculator.locator(f"#calculator-{field} :is(input, textarea)").fill(text)


def marked(page: Page) -> list[float]:
    """Occupancy in percent at the marked point of each panel."""
    found: list[float] = page.evaluate(
        """() => document.querySelector(".calculator-plot").data
        .filter((trace) => trace.uid.endsWith("-now")).map((trace) => trace.y[0])"""
    )
    return found


def test_the_result_follows_the_inputs(
    calculator: Locator, opened: Page, complaints: list[str]
) -> None:
    result = calculator.locator("#calculator-result")
    expect(result.locator(".value")).to_have_text("18.75 %")
    assert marked(opened) == [18.75] * 3
    typed(calculator, "registers", "255")
    expect(result.locator(".value")).to_have_text("12.5 %")
    expect(result).to_contain_text("limited by registers")
    expect(calculator.locator(".calculator-plot")).to_contain_text("255: 12.5 %")
    assert marked(opened) == [12.5] * 3
    typed(calculator, "grid", "432")
    typed(calculator, "sm_count", "108")
    expect(result).to_contain_text("2 waves; machine-wide 12.5 %")
    assert complaints == []


def test_a_bad_input_is_told_in_a_sentence(
    calculator: Locator, opened: Page, complaints: list[str]
) -> None:
    typed(calculator, "registers", "300")
    expect(calculator.locator(".wrong")).to_have_text(
        "registers_per_thread must be 0 (unknown) to 255, got 300."
    )
    box = calculator.locator("#calculator-registers :is(input, textarea)")
    expect(box).to_have_value("300")
    assert marked(opened) == [18.75] * 3
    typed(calculator, "registers", "32")
    expect(calculator.locator(".value")).to_have_text("100 %")
    expect(calculator.locator(".wrong")).to_have_count(0)
    assert complaints == []


def test_panels_stack_on_a_narrow_page(calculator: Locator, opened: Page) -> None:
    opened.set_viewport_size({"width": 390, "height": 844})
    opened.wait_for_function("() => document.querySelector('.calculator-plot').layout.height > 700")
    assert opened.evaluate("document.documentElement.scrollWidth") <= 390
