"""How much and what a plugin may bring: pure checks of the objects that it answers with.

A provider takes tool names of letters, digits, ``_`` and ``-`` up to 64 (anthropic and openai, "tools"); a schema or a
number of tools beyond these bounds would fill every request.
"""

import json
import re
from collections.abc import Sequence
from typing import Any

from claw.prompt import PromptSection
from claw.tool import Tool

TOOLS_OF_ONE_PLUGIN = 500
SCHEMA_CHARS = 64_000
_TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")

WANTED = {
    "register_channels": ("name", "run", "send", "capabilities"),
    "register_providers": ("name", "stream", "credentials", "context_tokens"),
    "register_tools": ("name", "description", "run", "parameters"),
    "register_prompt_sections": ("name", "position", "render"),
    "register_sandboxes": ("name", "wrap"),
    "register_reviewers": ("before",),
    "register_filters": (),
    "register_observers": ("hear",),
}
"""Each hook, and what every object must have that answers it."""
_CALLED = {"run", "send", "stream", "credentials", "context_tokens", "render", "wrap", "before", "hear"}
_MADE_OF = {"register_tools": Tool, "register_prompt_sections": PromptSection}


def check(hook: str, things: Sequence[Any]) -> None:
    """Hold what one plugin answered to one hook against the bounds.

    :raises TypeError: an object is not what was asked for.
    :raises ValueError: it is, and is out of bounds.
    """
    for thing in things:
        missing = [name for name in WANTED[hook] if not hasattr(thing, name)]
        if missing:
            raise TypeError(f"{hook} answered with {type(thing).__name__}, which has no {', '.join(missing)}")
        for name in _CALLED.intersection(WANTED[hook]):
            if not callable(getattr(thing, name)):
                raise TypeError(f"{name} of a {type(thing).__name__} is not a function")
        if "name" in WANTED[hook] and not (isinstance(thing.name, str) and thing.name.strip()):
            raise TypeError(f"{hook} answered with one that is named {thing.name!r}, which is no text")
        if not isinstance(thing, _MADE_OF.get(hook, object)):
            raise TypeError(f"{hook} answered with {type(thing).__name__}, not {_MADE_OF[hook].__name__}")
        if hook == "register_filters" and not (hasattr(thing, "inbound") or hasattr(thing, "outbound")):
            raise TypeError(
                f"{hook} answered with {type(thing).__name__}, which has no inbound and no outbound"
            )
        if isinstance(thing, PromptSection) and not isinstance(thing.position, int | float):
            raise TypeError(f"section {thing.name} stands at {thing.position!r}, which is no number")
    if hook == "register_tools":
        _check_tools(things)


def _check_tools(tools: Sequence[Any]) -> None:
    if len(tools) > TOOLS_OF_ONE_PLUGIN:
        raise ValueError(f"it brings {len(tools)} tools, and {TOOLS_OF_ONE_PLUGIN} are the most")
    for tool in tools:
        if not isinstance(tool.name, str) or not _TOOL_NAME.fullmatch(tool.name.strip()):
            raise ValueError(f"a tool is named {tool.name!r}: use letters, digits, _ and -, at most 64")
        try:
            size = len(json.dumps(dict(tool.parameters)))
        except (TypeError, ValueError) as why:
            raise ValueError(f"the parameters of tool {tool.name} are not JSON: {why}") from None
        if size > SCHEMA_CHARS:
            raise ValueError(
                f"the parameters of tool {tool.name} take {size} characters, {SCHEMA_CHARS} are the most"
            )
