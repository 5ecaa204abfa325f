"""The tools that a service takes. The others are left out of its requests and named in the log, once each."""

import logging
import re
from collections.abc import Sequence
from dataclasses import replace

from claw import Tool, ToolSpec, t
from claw.runtime import with_ellipsis

_log = logging.getLogger(__name__)
_ARGUMENT = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def argument_names_problem(spec: ToolSpec | Tool) -> str:
    """Return why Anthropic refuses the names of a tool's arguments; empty when it takes them.

    Fact: its error "Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'".
    """
    names = (name for name in spec.parameters.get("properties", {}) if not _ARGUMENT.fullmatch(name))
    return next(
        (t("the argument {name} is not letters, digits, _ . -, at most 64", name=name) for name in names), ""
    )


class ToolLimits:
    """The limits of one service.

    :param service: its name in the log.
    :param most: the number of tools in a request; the first ones are kept, in the order of the policy. None = no limit.
    :param checks_arguments: the service takes plain argument names only.
    :param description_chars: the length of a description; a longer one is cut at its end. None = no limit.
    """

    def __init__(
        self,
        service: str,
        most: int | None = None,
        checks_arguments: bool = False,
        description_chars: int | None = None,
    ) -> None:
        self.most, self._service, self._checks_arguments = most, service, checks_arguments
        self._description_chars = description_chars
        self._named: set[str] = set()
        self._cut: set[str] = set()

    def problem(self, tool: ToolSpec | Tool) -> str:
        """Return why the service refuses the parameters of a tool, which is logged once; empty when it takes them."""
        why = argument_names_problem(tool) if self._checks_arguments else ""
        self._log({tool.name: why} if why else {})
        return why

    def fitting(self, tools: Sequence[ToolSpec], choice: str = "auto") -> tuple[ToolSpec, ...]:
        """Return the tools that fit, in order; the one that ``choice`` names is among the first."""
        problems = {spec.name: self.problem(spec) for spec in tools}
        sound = [spec for spec in tools if not problems.get(spec.name)]
        if self.most is None or len(sound) <= self.most:
            kept = sound
        else:
            kept = sorted(sound, key=lambda spec: spec.name != choice)[: self.most]
        names = {spec.name for spec in kept}
        left = {spec.name: problems.get(spec.name) or self._too_many(len(sound)) for spec in tools}
        self._log({name: why for name, why in left.items() if name not in names})
        return self._described(kept)

    def _described(self, tools: Sequence[ToolSpec]) -> tuple[ToolSpec, ...]:
        """Return the tools with descriptions of the length that the service takes; a cut one is logged once."""
        most = self._description_chars
        long = [spec.name for spec in tools if most and len(spec.description) > most]
        if not most or not long:
            return tuple(tools)
        if new := [name for name in long if name not in self._cut]:
            self._cut.update(new)
            _log.warning(t("{service} takes {most} characters of a description; those of these tools are cut: {names}",
                           service=self._service, most=most, names=[*new]))  # fmt: skip
        return tuple(replace(spec, description=with_ellipsis(spec.description, most)) for spec in tools)

    def _too_many(self, count: int) -> str:
        return t("it takes {most} tools, and there are {count}; tools.deny makes the list shorter",
                 most=self.most, count=count)  # fmt: skip

    def _log(self, left: dict[str, str]) -> None:
        new = {name: why for name, why in left.items() if name not in self._named}
        self._named |= new.keys()
        for why in dict.fromkeys(new.values()):
            names = [name for name, reason in new.items() if reason == why]
            _log.warning(t("{service} is not given these tools: {names}: {why}", service=self._service,
                           names=names, why=why))  # fmt: skip
