"""``claw dev``: a chat in which each message uses the files of a plugin as they are then."""

import hashlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from claw import t

from claw_author.project import Project, development_environment, find
from claw_author.registrations import shipped_parts


def dev(
    path: Annotated[Path, typer.Argument(help="Folder of the project.")] = Path(),
    session: Annotated[str, typer.Option(help="Session key or its end.")] = "dev",
    model: Annotated[str, typer.Option(help="provider/model for these messages.")] = "",
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the events, one JSON object a line, as chat does.")
    ] = False,
) -> None:
    """Chat with an agent that has your plugin. Each message starts anew: edit, save, and the next one uses it.

    Nothing is installed; when the code has changed, the manifest is written again. Messages come from the terminal, or
    one a line from stdin.
    """
    project, built = find(path), ""
    words = [
        "chat",
        "--session",
        session,
        *(["--model", model] if model else []),
        *(["--json"] if as_json else []),
    ]
    with tempfile.TemporaryDirectory(prefix="claw-dev-") as place:
        environ = development_environment(project, Path(place))
        text = "{plugin}: each message uses the files of {folder} as they are then; Ctrl-D ends"
        typer.echo(t(text, plugin=project.plugin, folder=project.folder.absolute()), err=True)
        for message in _messages():
            if _digest(project) != built and project.has_manifest:
                _claw(["plugins", "build", str(project.folder)], environ, quiet=True)
            built = _digest(project)
            _claw([*words, "--", message], environ)


def _messages() -> Iterator[str]:
    if not sys.stdin.isatty():
        yield from (line.strip() for line in iter(sys.stdin.readline, "") if line.strip())
        return
    import readline

    readline.set_auto_history(True)
    while True:
        try:
            text = input("> ").strip()
        except EOFError:
            typer.echo()
            return
        if text:
            yield text


def _claw(words: list[str], environ: dict[str, str], *, quiet: bool = False) -> None:
    """Run a command in a process of its own, without the messages that wait on stdin."""
    command, out = [sys.executable, "-m", "claw", *words], subprocess.DEVNULL if quiet else None
    subprocess.run(command, env=environ, stdin=subprocess.DEVNULL, stdout=out, check=False)


def _digest(project: Project) -> str:
    found = hashlib.sha256()
    for name, text in project.modules():
        found.update(f"{name}\0{text}\0".encode("utf-8", "replace"))
    if project.has_manifest:
        found.update("\0".join(shipped_parts(project.manifest.parent)["skills"]).encode("utf-8", "replace"))
    if project.has_manifest and project.manifest.is_file():
        found.update(project.manifest.read_bytes())
    return found.hexdigest()
