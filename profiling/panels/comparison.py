"""The comparison table with its buttons."""

import gradio as gr

_JS = """
element.addEventListener("click", (event) => {
  const button = event.target.closest("button[data-action]");
  if (button) trigger("select", { action: button.dataset.action, index: +button.dataset.index });
});
"""


def build_comparison(elem_id: str) -> gr.HTML:
    """Its value is the HTML of profiling.tables; a button pressed is a `select` event."""
    return gr.HTML(js_on_load=_JS, apply_default_css=False, elem_id=elem_id)
