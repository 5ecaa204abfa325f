"""What is known of Mistral's models by their names. Pure.

Facts: docs.mistral.ai, "Models", "Reasoning": small from 4 and medium from 3.5 on know the efforts high and none, large
from 4 on low, medium and high; magistral always thinks and is asked by ``prompt_mode`` to lay it open. What a model does
not know, it refuses (400, code 3051), so that others are told nothing.
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
    """How much a model reads; of an unknown one what is safe to take for granted."""
    return next(
        (tokens for name, tokens in CONTEXT_TOKENS.items() if model.startswith(name)), OTHER_CONTEXT_TOKENS
    )


def style(model: str, told: str | None = None) -> str:
    """How ``model`` is told to think: levels, switch, mode, none.

    :param told: what the file says of it; else its name decides.
    """
    return told or next((how for name, how in _STYLES if name.match(model)), "none")


def thinking(how: str, level: str) -> dict[str, Any]:
    """The fields of a request for one of our levels; empty when nothing is to be said.

    :param how: of :func:`style`.
    :param level: off, low, medium, high, adaptive. The service has no level of its own choice: adaptive is medium.
    """
    if how == "mode":
        return {} if level == "off" else {"prompt_mode": "reasoning"}
    if how == "switch":
        return {"reasoning_effort": "none" if level == "off" else "high"}
    if how == "levels":
        return {} if level == "off" else {"reasoning_effort": "medium" if level == "adaptive" else level}
    return {}
