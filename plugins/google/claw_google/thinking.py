"""How much a Gemini model is told to think. Pure.

Facts: ai.google.dev, "Thinking": from Gemini 3 on a level (low and high are known to every model; none can be told not
to think at all), 2.5 a budget in tokens (0 = not at all, Pro at least 128, -1 = as it likes); older models know neither.
"""

import re
from typing import Any

_NAME = re.compile(r"gemini-(\d+)(?:\.(\d+))?")
_BUDGETS = {"low": 2048, "medium": 8192, "high": 24_576, "adaptive": -1}
_PRO_LEAST = 128


def style(model: str, told: str | None = None) -> str:
    """How ``model`` is told: level, budget, none.

    :param told: what the file says of it; else its name decides. An alias without a number is of the newest.
    """
    if told:
        return told
    name = model.rpartition("/")[2]
    if not name.startswith("gemini-"):
        return "none"
    number = _NAME.match(name)
    if number is None or int(number[1]) >= 3:
        return "level"
    return "budget" if (number[1], number[2]) == ("2", "5") else "none"


def config(model: str, how: str, level: str) -> dict[str, Any]:
    """``thinkingConfig`` for one of our levels; empty when nothing is to be said.

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
