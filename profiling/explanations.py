"""What the numbers of each run mean, in words, as HTML: verdict, findings, and trust."""

from collections.abc import Sequence
from html import escape

from profiling.completeness import Completeness
from profiling.findings import Finding, Subject, find, subject_of
from profiling.outcome import Outcome, RunResult
from profiling.wording import counted

_BOUND = {"host": "Waits for the host", "gpu": "Waits for the GPU", "unclear": "Unclear what waits"}
_PASSED = "ok"


def explanations_html(outcomes: Sequence[Outcome]) -> str:
    """One card per finished run, in board order."""
    cards = "".join(_card(run) for run in outcomes if isinstance(run, RunResult))
    return f"<h2>What it means</h2><div class='cards'>{cards}</div>" if cards else ""


def verdict_text(subject: Subject) -> str:
    """Such as "Waits for the GPU"."""
    if subject.analysis.per_forward.kernels is None:
        return "Runs on the CPU"
    return _BOUND[subject.verdict.bound]


def _card(run: RunResult) -> str:
    subject = subject_of(run)
    findings = "".join(_finding(finding) for finding in find(subject))
    return (
        f"<article><h3><span class='run'>{escape(run.config.label)}</span>"
        f"<span class='badge'>{escape(run.environment.badge)}</span></h3>"
        f"<p class='verdict'><b>{verdict_text(subject)}.</b> "
        f"{escape(subject.verdict.evidence)}</p>"
        f"{findings}{_trust(run.completeness)}</article>"
    )


def _finding(finding: Finding) -> str:
    instead = finding.try_instead
    way_out = f" Run {escape(instead)} to compare." if instead else ""
    return (
        f"<details class='finding {finding.severity}'><summary>"
        f"<span class='severity'>{finding.severity}</span>{escape(finding.title)}</summary>"
        f"<p>{escape(finding.evidence)}</p>"
        f"<p class='advice'>{escape(finding.advice)}{way_out}</p></details>"
    )


def _trust(completeness: Completeness) -> str:
    """How many checks of the recording passed, and what each of them found."""
    checks = completeness.checks
    passed = sum(check.status == _PASSED for check in checks)
    summary = (
        f"all {counted(len(checks), 'check')} of the recording passed"
        if passed == len(checks)
        else f"{passed} of {counted(len(checks), 'check')} of the recording passed"
    )
    listed = "".join(
        f"<li class='{check.status}'><b>{_STATUS[check.status]}</b> {escape(check.sentence)}</li>"
        for check in sorted(checks, key=lambda check: list(_STATUS).index(check.status))
    )
    word = "incomplete" if not completeness.complete else "trust"
    return (
        f"<details class='finding trust {word}'><summary><span class='severity'>{word}</span>"
        f"{summary}</summary><ul>{listed}</ul></details>"
    )


_STATUS = {"fail": "Failed:", "warning": "Note:", "ok": "Passed:"}
