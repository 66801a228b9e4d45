"""The form that says what to run."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gradio as gr

from attention.spec import DTYPES, AttentionSpec, whole_number
from attention.variants import BACKENDS, VARIANTS, find_variant
from profiling.config import FORWARDS, RunConfig

GPU_DEFAULTS = AttentionSpec()
# A problem that a laptop's CPU runs in milliseconds.
CPU_DEFAULTS = AttentionSpec(batch=1, heads=4, kv_heads=4, seq_len=256)


@dataclass(frozen=True, slots=True)
class RunForm:
    """The components; `sizes` by the names of AttentionSpec's fields."""

    variant: gr.Dropdown
    backend: gr.Dropdown
    sizes: dict[str, gr.Textbox]
    dtype: gr.Dropdown
    causal: gr.Checkbox
    forwards: gr.Textbox
    run: gr.Button

    @property
    def inputs(self) -> set[Any]:
        return {
            self.variant,
            self.backend,
            *self.sizes.values(),
            self.dtype,
            self.causal,
            self.forwards,
        }

    def read(self, values: Mapping[Any, Any]) -> RunConfig:
        """What the form asks for, or a SpecError with one sentence."""
        variant = find_variant(str(values[self.variant]))
        sizes = {name: whole_number(name, values[box]) for name, box in self.sizes.items()}
        return RunConfig(
            spec=AttentionSpec(
                **sizes,
                kv_heads=sizes["heads"],
                dtype=str(values[self.dtype]),
                causal=bool(values[self.causal]),
            ),
            variant=variant.name,
            backend=str(values[self.backend]) if variant.takes_backend else None,
            forwards=whole_number("forwards", values[self.forwards]),
        )


def build_run_form() -> RunForm:
    """Variant, backend, sizes and the button; the rest is folded away."""
    with gr.Row(elem_classes="run-form"):
        variant = gr.Dropdown(
            [(v.label, v.name) for v in VARIANTS],
            value="sdpa",
            label="Variant",
            min_width=180,
            scale=3,
            elem_id="variant",
        )
        backend = gr.Dropdown(
            [(b.label, b.name) for b in BACKENDS],
            value="flash",
            label="Backend",
            min_width=180,
            scale=3,
            elem_id="backend",
        )
        sizes = {"seq_len": _size("seq_len", "Sequence length"), "batch": _size("batch", "Batch")}
        run = gr.Button("Run", variant="primary", elem_id="run", min_width=110, scale=1)
    advanced = gr.Accordion(
        "Heads, head_dim, dtype, mask, forwards", open=False, elem_classes="advanced"
    )
    with advanced, gr.Row(elem_classes="run-form"):
        sizes |= {"heads": _size("heads", "Heads"), "head_dim": _size("head_dim", "head_dim")}
        dtype = gr.Dropdown(
            list(DTYPES), value=GPU_DEFAULTS.dtype, label="dtype", min_width=120, elem_id="dtype"
        )
        forwards = gr.Textbox(
            "3",
            label=f"Forwards recorded, {FORWARDS[0]} to {FORWARDS[1]}",
            min_width=120,
            elem_id="forwards",
            max_lines=1,
        )
        causal = gr.Checkbox(
            GPU_DEFAULTS.causal, label="Causal mask", min_width=120, elem_id="causal"
        )
    return RunForm(variant, backend, sizes, dtype, causal, forwards, run)


def _size(name: str, label: str) -> gr.Textbox:
    default = str(getattr(GPU_DEFAULTS, name))
    return gr.Textbox(default, label=label, min_width=90, scale=1, elem_id=name, max_lines=1)
