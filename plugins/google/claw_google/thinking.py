"""The thinking level of a Gemini model. Pure.

Facts: ai.google.dev, "Thinking": from Gemini 3 on a level (every model supports low and high; thinking cannot be
disabled), 2.5 a budget in tokens (0 = off, Pro at least 128, -1 = dynamic); older models have neither.
"""

import re
from typing import Any

_NAME = re.compile(r"gemini-(\d+)(?:\.(\d+))?")
_BUDGETS = {"low": 2048, "medium": 8192, "high": 24_576, "adaptive": -1}
_PRO_LEAST = 128


def style(model: str, configured: str | None = None) -> str:
    """Return the thinking style of ``model``: level, budget, none.

    :param configured: the style of the config file; else its name decides. An alias without a number is a current model.
    """
    if configured:
        return configured
    name = model.rpartition("/")[2]
    if not name.startswith("gemini-"):
        return "none"
    number = _NAME.match(name)
    if number is None or int(number[1]) >= 3:
        return "level"
    return "budget" if (number[1], number[2]) == ("2", "5") else "none"


def config(model: str, how: str, level: str) -> dict[str, Any]:
    """Return ``thinkingConfig`` for one of claw's levels; empty when none is needed.

    :param how: of :func:`style`.
    :param level: off, low, medium, high, adaptive.
    """
    shown = {"includeThoughts": True} if level != "off" else {}
    if how == "level":
        least = {"off": "low"}.get(level, level)
        return shown if level == "adaptive" else {"thinkingLevel": least.upper(), **shown}
    if how == "budget":
        least_tokens = _PRO_LEAST if "pro" in model else 0
        return {"thinkingBudget": _BUDGETS.get(level, least_tokens), **shown}
    return {}
