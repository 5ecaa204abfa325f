"""Tool policy: nine layers, with named checks before and after them. One ruling per tool, with the key that decided.

Pure. ``layers_for`` reads the config into nine plain values; ``judge`` applies them to the tools, and a layer can only
remove tools. ``resolve`` does both for every model that a turn may fall back to; real turns, ``claw tools list`` and
``claw tools explain`` all call it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from claw.policy.decision import Judgement
    from claw.policy.engine import judge_tools, resolve_tools
    from claw.policy.layers import LAYERS, Layer, group_scope, layers_for
    from claw.policy.subjects import RunFacts, ToolFact, tool_fact
    from claw.policy.unknown_names import unknown_words

_MODULES = {
    "Judgement": "decision",
    "LAYERS": "layers",
    "Layer": "layers",
    "RunFacts": "subjects",
    "ToolFact": "subjects",
    "group_scope": "layers",
    "judge_tools": "engine",
    "layers_for": "layers",
    "resolve_tools": "engine",
    "tool_fact": "subjects",
    "unknown_words": "unknown_names",
}

__all__ = [
    "LAYERS",
    "Judgement",
    "Layer",
    "RunFacts",
    "ToolFact",
    "group_scope",
    "judge_tools",
    "layers_for",
    "resolve_tools",
    "tool_fact",
    "unknown_words",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"claw.policy.{_MODULES[name]}"), name)
    return value
