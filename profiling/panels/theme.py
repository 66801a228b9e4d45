"""Colours and type of the form controls; the page's own parts are in assets/app.css.

Neutral throughout: on this page a colour means a role.
"""

import gradio as gr

# The 600 file in the wheel lacks most letters.
_FONT = gr.themes.LocalFont("IBM Plex Sans", weights=(400, 700))
_FALLBACKS = ("ui-sans-serif", "system-ui", "sans-serif")

THEME = gr.themes.Default(
    primary_hue=gr.themes.colors.slate,
    secondary_hue=gr.themes.colors.slate,
    neutral_hue=gr.themes.colors.slate,
    radius_size=gr.themes.sizes.radius_sm,
    spacing_size=gr.themes.sizes.spacing_sm,
    font=(_FONT, *_FALLBACKS),
).set(
    body_background_fill="#ffffff",
    body_background_fill_dark="#0f1117",
    body_text_color="#1f2430",
    body_text_color_dark="#e6e8ee",
    block_background_fill="transparent",
    block_background_fill_dark="transparent",
    block_border_width="0px",
    block_border_width_dark="0px",
    block_label_text_color="#5b6270",
    block_label_text_color_dark="#a2a9b8",
    block_title_text_color="#5b6270",
    block_title_text_color_dark="#a2a9b8",
    block_title_text_size="*text_sm",
    block_info_text_color="#5b6270",
    block_info_text_color_dark="#a2a9b8",
    input_background_fill_dark="#1a1d27",
    input_border_color="#c9cdd6",
    input_border_color_dark="#3a3f4e",
    button_primary_background_fill="#1f2430",
    button_primary_background_fill_hover="#3a4254",
    button_primary_background_fill_dark="#e6e8ee",
    button_primary_background_fill_hover_dark="#ffffff",
    button_primary_text_color="#ffffff",
    button_primary_text_color_dark="#0f1117",
    checkbox_background_color_selected="#475569",
    checkbox_background_color_selected_dark="#94a3b8",
    checkbox_label_background_fill="transparent",
    checkbox_label_background_fill_dark="transparent",
    checkbox_label_padding="4px 8px",
)
