"""Middleware that gives tools to a model in the way that the settings say, else its provider."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from claw import Provider, ToolCall, tool_mode_of

from claw_prompted_tools.interpreter import PromptedToolsProvider


class PromptedTools:
    """The middleware: every provider is wrapped in a :class:`PromptedToolsProvider`.

    :param providers: the sections of the config file.
    """

    name = "prompted-tools"
    position = 100.0

    def __init__(self, providers: Mapping[str, Any]) -> None:
        self._providers = providers

    def wrap(self, provider: Provider) -> Any:
        """Return the provider with prompted tools."""
        return PromptedToolsProvider(provider, partial(self._mode, provider))

    def describe_malformed(self, call: ToolCall) -> str:
        """Return the error that the model is given for a call that could not be parsed."""
        from claw_prompted_tools.render import malformed_call_error

        return malformed_call_error(call)

    def _mode(self, provider: Provider, model: str) -> str:
        section = self._providers.get(provider.name)
        facts = section.models.get(model) if section else None
        return tool_mode_of(provider, model, (facts and facts.tools) or (section and section.tools) or None)
