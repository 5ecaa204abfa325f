"""Facts of Mistral's models, by name. Pure.

Facts: docs.mistral.ai, "Models", "Reasoning": small from 4 and medium from 3.5 on support the efforts high and
none, large from 4 on low, medium and high; magistral always thinks, and ``prompt_mode`` makes its thoughts
visible. A model refuses an unsupported field (400, code 3051), so other models get none.
"""

import re
from typing import Any

CONTEXT_TOKENS = {
    "mistral-large-4": 524_288,
    "mistral-large": 262_144,
    "devstral": 262_144,
    "codestral": 131_072,
    "voxtral": 32_768,
}
OTHER_CONTEXT_TOKENS = 131_072
_STYLES = (
    (re.compile(r"magistral"), "mode"),
    (re.compile(r"mistral-large-[4-9](?!\d)"), "levels"),
    (re.compile(r"mistral-(?:small|medium)-(?:latest|3[.-][5-9]|[4-9](?!\d)|2[6-9]\d\d)"), "switch"),
)


def context_tokens(model: str) -> int:
    """Return the context size of a model; a safe assumption for an unknown one."""
    return next(
        (tokens for name, tokens in CONTEXT_TOKENS.items() if model.startswith(name)), OTHER_CONTEXT_TOKENS
    )


def style(model: str, configured: str | None = None) -> str:
    """Return the thinking style of ``model``: levels, switch, mode, none.

    :param configured: the style of the config file; else its name decides.
    """
    return configured or next((how for name, how in _STYLES if name.match(model)), "none")


def thinking(how: str, level: str) -> dict[str, Any]:
    """Return the request fields for one of claw's levels; empty when none is needed.

    :param how: of :func:`style`.
    :param level: off, low, medium, high, adaptive. The service has no adaptive level: adaptive is medium.
    """
    if how == "mode":
        return {} if level == "off" else {"prompt_mode": "reasoning"}
    if how == "switch":
        return {"reasoning_effort": "none" if level == "off" else "high"}
    if how == "levels":
        return {} if level == "off" else {"reasoning_effort": "medium" if level == "adaptive" else level}
    return {}
