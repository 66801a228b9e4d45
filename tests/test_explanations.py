"""The cards say what verdict, rules and checks say, and nothing from a trace becomes markup."""

import re
from dataclasses import replace

from profiling.completeness import Check, Completeness
from profiling.explanations import explanations_html
from tests.runs import cpu_run, failed, flash, naive, skipped


def test_naive_waits_for_the_gpu_and_names_its_hidden_copy() -> None:
    html = explanations_html([naive()])
    assert "Waits for the GPU." in html
    assert "masked_fill makes a hidden copy" in html
    assert "268,435,456 B" in html
    assert "Run naive_inplace to compare." in html


def test_one_card_per_finished_run() -> None:
    html = explanations_html([naive(), skipped(), flash(), failed(), cpu_run()])
    assert html.count("<article>") == 3
    assert "Runs on the CPU." in html
    assert explanations_html([skipped()]) == ""


def test_trust_counts_the_checks() -> None:
    checks = (Check("a", "ok", "All <b>."), Check("b", "fail", "3 kernels are missing."))
    html = explanations_html([replace(naive(), completeness=Completeness(checks, ()))])
    assert "1 of 2 checks of the recording passed" in html
    assert "<span class='severity'>incomplete</span>" in html
    assert html.index("<b>Failed:</b> 3 kernels are missing.") < html.index("All &lt;b&gt;.")
    whole = Completeness((Check("a", "ok", "Fine."),), ())
    assert "all 1 check of the recording passed" in explanations_html(
        [replace(naive(), completeness=whole)]
    )


def test_every_tag_is_closed() -> None:
    html = explanations_html([naive(), flash()])
    opened = re.findall(r"<(\w+)[ >]", html)
    closed = re.findall(r"</(\w+)>", html)
    assert sorted(opened) == sorted(closed)
