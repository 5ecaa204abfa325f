"""The list of plugins, printed. Kept apart from the typer commands, so that the fast path of ``__main__``
needs no typer."""

import os
from collections.abc import Iterable, Sequence
from typing import Any

from claw.cli.errors import error_fields, print_error
from claw.cli.output import document, table
from claw.contracts.errors import ConfigError, UsageError, nearest
from claw.host.discovery import home_of, installed_plugins, plugin_states, states_of
from claw.host.overlay import installed_in
from claw.host.state import PluginState
from claw.i18n import t

COLOURS = {
    "loaded": "green", "idle": "dim", "disabled": "dim", "blocked": "yellow", "untried": "yellow",
    "quarantined": "bold red", "incompatible": "bold red",
    "bronze": "yellow", "silver": "yellow", "gold": "green", "platinum": "green",
}  # fmt: skip


def show(as_json: bool) -> None:
    """Print the list: a table, or one document. With a file that cannot be read, the states are those without
    one; the document has the ``error``.

    :raises SystemExit: the file cannot be read; after the list.
    """
    wrong: ConfigError | None = None
    try:
        found = plugin_states()
    except ConfigError as why:
        wrong = why
        try:
            found = states_of(installed_plugins(home_of(os.environ)), os.environ)
        except OSError:  # the home itself cannot be read
            raise why from None
    if as_json:
        error = {"error": error_fields(wrong)} if wrong else {}
        document("plugins", {"plugins": [plugin_data(plugin) for plugin in found]} | error)
    else:
        _draw(found)
    if wrong:
        print_error(str(wrong))
        raise SystemExit(wrong.exit_code)


def _draw(found: Sequence[PluginState]) -> None:
    head = [t("plugin"), t("version"), t("state"), t("kinds"), t("tools"), t("why")]
    rows = [*map(_row, found)]
    if any(grades := [plugin.grade for plugin in found]):  # of a plugin that somebody graded here
        for row, grade in zip([head, *rows], ["grade", *grades], strict=True):
            row.insert(2, t(grade) if grade else "")
    table(head, rows, {t(state): colour for state, colour in COLOURS.items()})


def plugin_data(state: PluginState) -> dict[str, Any]:
    """Return a plugin as plain data, for ``--json``."""
    found, manifest = state.found, state.found.manifest
    body: dict[str, Any] = {
        "id": state.id, "state": state.shown, "why": state.why, "stage": state.stage,
        "mend": _fix(state), "required": state.required, "version": found.version,
        "distribution": found.distribution, "package": found.package, "folder": str(found.folder or ""),
        "origin": installed_in(found.distribution), "manifest": manifest is not None,
        "grade": state.grade,
    }  # fmt: skip
    if manifest:
        body |= {
            "description": manifest.description, "api": manifest.api, "kinds": list(manifest.kinds),
            "channels": list(manifest.channels), "providers": [line.name for line in manifest.providers],
            "tools": [{"name": t.name, "optional": t.optional, "ownerOnly": t.owner_only} for t in manifest.tools],
            "promptSections": list(manifest.prompt_sections), "commands": list(manifest.commands),
            "skills": list(manifest.skills), "mcpServers": dict(manifest.mcp_servers),
            "requires": list(manifest.requires), "env": list(manifest.env),
            "capabilities": dict(manifest.capabilities),
        }  # fmt: skip
    return body


def unknown_plugin_error(id: str, known: Iterable[str]) -> UsageError:
    """Return the error for an unknown plugin ``id``; it names the nearest one of those that are ``known``."""
    near = nearest(id, known, 0.75)
    fix = "did you mean {near}?" if near else "claw plugins list shows them"
    return UsageError("plugin {id} is not installed", fix=fix, id=id, near=near)


def _row(state: PluginState) -> list[str]:
    manifest = state.found.manifest
    if manifest is None:
        kinds = tools = "?" if state.state == "loaded" else ""
    else:
        kinds = t(",").join(map(t, manifest.kinds))
        tools = str(len(manifest.tools)) if manifest.tools else ""
    fix = _fix(state)
    why = state.why + (f" ({fix})" if fix else "")
    return [state.id, state.found.version, t(state.shown), kinds, tools, why]


def _fix(state: PluginState) -> str:
    """Return the instruction; for a plugin that nothing has loaded yet, the command that does."""
    return state.fix or (t("claw plugins doctor loads it") if state.is_untried else "")
