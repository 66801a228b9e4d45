"""Single sentences of the page: where runs happen, and what became of a request."""

from html import escape

from profiling.outcome import Environment, Failed, Outcome, Skipped

LOOKING = "<p class='where'>Looking for a GPU …</p>"
ZERO_GPU = (
    "<p class='where'><b>ZeroGPU</b> Each run is lent a GPU for its duration and names it; "
    "its numbers are not those of an A100.</p>"
)


def where_html(environment: Environment) -> str:
    """GPU and versions, or why there is none and what the page can do without."""
    if environment.gpu is None:
        return (
            "<p class='where'><b>No GPU here: recorded H200 runs, and live CPU runs</b> "
            f"<span>{escape(environment.no_gpu_reason or '')}</span> "
            f"<span>{escape(environment.cpu)}, torch {escape(environment.torch)}</span></p>"
        )
    versions = (
        ("torch", environment.torch),
        ("CUDA", environment.cuda),
        ("cuDNN", environment.cudnn),
        ("driver", environment.driver),
    )
    known = ", ".join(f"{name} {escape(value)}" for name, value in versions if value)
    return f"<p class='where'><b>Runs on {escape(environment.gpu)}</b> <span>{known}</span></p>"


def message_html(text: str, *, wrong: bool = False) -> str:
    """Spoken by screen readers when it appears; nothing for no text."""
    role = "alert" if wrong else "status"
    return f"<p class='message {role}' role='{role}'>{escape(text)}</p>" if text else ""


def outcome_text(outcome: Outcome) -> str:
    """What a run ended in."""
    label = f"{outcome.config.label} at {outcome.config.spec.shape_text}"
    if isinstance(outcome, Skipped):
        return f"{label} cannot run here. {outcome.reason}"
    if isinstance(outcome, Failed):
        return f"{label} failed. {outcome.message}"
    return f"{label} was run on {outcome.environment.badge} and is the last run below."
