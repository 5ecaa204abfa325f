"""Safe mode: only claw's own plugins are used, and where one that guards is left out, no tool with effects runs."""

from collections.abc import Iterable
from dataclasses import replace

from claw import CallContext, PluginConfig, Review, Reviewer, ToolCall, hookimpl, t
from claw.runtime import BLOCKED, DISABLED, PluginState, Setup

GUARDS = frozenset({"reviewer", "filter", "sandbox"})
"""Kinds of plugins whose absence lets more through."""


def safe_mode(setup: Setup) -> Setup:
    """Return the same setup in safe mode: only claw's own plugins are loaded."""
    why = t("safe mode: the gateway died again and again")
    fix = t("claw gateway restart tries it again")
    blocked = {
        "state": BLOCKED,
        "why": why,
        "fix": fix,
        "eager": False,
        "required": False,
        "without_failure": None,
    }
    return replace(
        setup,
        plugin_states=tuple(
            one if one.found.is_first_party or one.state == DISABLED else replace(one, **blocked)  # type: ignore[arg-type]
            for one in setup.plugin_states
        ),
    )


def guards_left_out(setup: Setup) -> tuple[str, ...]:
    """Return the ids of the left-out plugins of a setup in safe mode that judge calls or texts, or are required."""
    entries = setup.config.settings.plugins.entries

    def is_guard(state: PluginState) -> bool:
        manifest, entry = state.found.manifest, entries.get(state.id)
        return (
            manifest is None or bool(GUARDS & set(manifest.kinds)) or (entry is not None and entry.required)
        )

    out = (one for one in setup.plugin_states if one.state == BLOCKED and not one.found.is_first_party)
    return tuple(one.id for one in out if is_guard(one))


class SafeModeReviewer:
    """The reviewer of a gateway in safe mode; also the plugin that brings it.

    :ivar missing: the plugins that guard and are left out.
    """

    position = -1000.0

    def __init__(self) -> None:
        self.missing: tuple[str, ...] = ()

    def before(self, call: ToolCall, context: CallContext) -> Review | None:
        """Deny a call that has effects, and end the turn with the reason, so that the chat is told."""
        if not self.missing or context.tool is None or context.tool.effects == "none":
            return None
        names = ", ".join(self.missing)
        why = t(
            "safe mode: the plugins {names} that check calls are left out, so nothing with effects runs",
            names=names,
        )
        return Review("deny", why, end_turn=t("{why}; claw gateway restart tries them again", why=why))

    @hookimpl
    def register_reviewers(self, config: PluginConfig) -> Iterable[Reviewer]:
        """Contribute this reviewer."""
        return [self]
