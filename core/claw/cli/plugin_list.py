"""The list of plugins, shown. Kept apart from the typer commands, so that the fast door gets by without typer."""

from collections.abc import Iterable
from typing import Any

from claw.cli.show import document, table
from claw.config.names import nearest
from claw.errors import UsageError
from claw.lifecycle.layer import origin
from claw.standing import Standing
from claw.survey import standings
from claw.words import say

COLOURS = {
    "loaded": "green", "idle": "dim", "disabled": "dim", "blocked": "yellow", "quarantined": "bold red",
    "incompatible": "bold red",
}  # fmt: skip


def show(as_json: bool) -> None:
    """Print the list: a table, or one document."""
    found = standings()
    if as_json:
        document("plugins", {"plugins": [described(standing) for standing in found]})
        return
    head = [say("plugin"), say("version"), say("state"), say("kinds"), say("tools"), say("why")]
    table(head, [_row(standing) for standing in found], COLOURS)


def described(standing: Standing) -> dict[str, Any]:
    """A plugin as plain data, for ``--json``."""
    found, manifest = standing.found, standing.found.manifest
    body: dict[str, Any] = {
        "id": standing.id, "state": standing.state, "why": standing.why, "stage": standing.stage,
        "mend": standing.mend, "required": standing.required, "version": found.version,
        "distribution": found.distribution, "package": found.package, "folder": str(found.folder or ""),
        "origin": origin(found.distribution), "manifest": manifest is not None,
    }  # fmt: skip
    if manifest:
        body |= {
            "description": manifest.description, "api": manifest.api, "kinds": list(manifest.kinds),
            "channels": list(manifest.channels), "providers": [line.name for line in manifest.providers],
            "tools": [{"name": t.name, "optional": t.optional, "ownerOnly": t.owner_only} for t in manifest.tools],
            "promptSections": list(manifest.prompt_sections), "commands": list(manifest.commands),
            "requires": list(manifest.requires), "env": list(manifest.env),
            "capabilities": dict(manifest.capabilities),
        }  # fmt: skip
    return body


def no_plugin(id: str, known: Iterable[str]) -> UsageError:
    """Nobody is called ``id``; the nearest one of those that are ``known`` is named."""
    near = nearest(id, known)
    fix = "did you mean {near}?" if near else "claw plugins list shows them"
    return UsageError("no plugin {id} is installed", fix=fix, id=id, near=near)


def _row(standing: Standing) -> list[str]:
    manifest = standing.found.manifest
    if manifest is None:
        kinds = tools = "?" if standing.state == "loaded" else ""
    else:
        kinds = ",".join(manifest.kinds)
        tools = str(len(manifest.tools)) if manifest.tools else ""
    why = standing.why + (f" ({standing.mend})" if standing.mend else "")
    return [standing.id, standing.found.version, standing.state, kinds, tools, why]
