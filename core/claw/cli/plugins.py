"""``claw plugins``: what is installed, how it stands, and why. No plugin is imported here."""

import json
from typing import Annotated, Any

import typer

from claw.cli.show import document, table
from claw.errors import UsageError
from claw.standing import Standing
from claw.words import say

app = typer.Typer(no_args_is_help=True, help="What is installed, how it stands, and why.")
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]

COLOURS = {
    "loaded": "green", "idle": "dim", "disabled": "dim", "blocked": "yellow", "quarantined": "bold red",
    "incompatible": "bold red",
}  # fmt: skip


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """List every installed plugin: state, version, kinds, tools, and why it is idle or set aside."""
    from claw.survey import standings

    found = standings()
    if as_json:
        document("plugins", {"plugins": [described(standing) for standing in found]})
        return
    head = [say("plugin"), say("version"), say("state"), say("kinds"), say("tools"), say("why")]
    table(head, [_row(standing) for standing in found], COLOURS)


@app.command()
def info(plugin: str, as_json: AsJson = False) -> None:
    """Say all that is known of one plugin, without importing it."""
    from claw.survey import standings

    found = {standing.id: standing for standing in standings()}
    if plugin not in found:
        import difflib

        near = difflib.get_close_matches(plugin, found, 1)
        raise UsageError(
            "no plugin {id} is installed", fix="did you mean {near}?" if near else "claw plugins list shows them",
            id=plugin, near="".join(near),
        )  # fmt: skip
    body = described(found[plugin])
    if as_json:
        document("plugin", body)
        return
    for key, value in body.items():
        if value not in (None, "", [], {}):
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            typer.echo(f"{key}: {text}")


def described(standing: Standing) -> dict[str, Any]:
    """A plugin as plain data, for ``--json``."""
    found, manifest = standing.found, standing.found.manifest
    body: dict[str, Any] = {
        "id": standing.id, "state": standing.state, "why": standing.why, "stage": standing.stage,
        "mend": standing.mend, "required": standing.required, "version": found.version,
        "distribution": found.distribution, "package": found.package, "folder": str(found.folder or ""),
        "manifest": manifest is not None,
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


def _row(standing: Standing) -> list[str]:
    manifest = standing.found.manifest
    if manifest is None:
        kinds = tools = "?" if standing.state == "loaded" else ""
    else:
        kinds = ",".join(manifest.kinds)
        tools = str(len(manifest.tools)) if manifest.tools else ""
    why = standing.why + (f" ({standing.mend})" if standing.mend else "")
    return [standing.id, standing.found.version, standing.state, kinds, tools, why]
