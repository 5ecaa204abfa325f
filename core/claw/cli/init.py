"""``claw init``: ask for a provider and a key, write the file, and lay out the agent's own files."""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from claw import store
from claw.cli.config import file_of
from claw.config import source
from claw.config.names import nearest
from claw.errors import ClawError, UsageError
from claw.manifest import Found, ProviderLine, providers_of, scan
from claw.survey import home_of
from claw.words import LANGUAGES, say

app = typer.Typer(add_completion=False, help="Write the first config file and the agent's own files.")

OFFLINE = "offline"
STARTERS = {
    "AGENTS.md": "# How to work here\n\nRules that always hold go in this file. Keep it short: every turn carries it.\n",
    "SOUL.md": "# Manner\n\nPlain, helpful, honest about what is not known. Say what was done, then stop.\n",
    "IDENTITY.md": "# Identity\n\nName: Claw\n",
    "USER.md": "# The person\n\nWhat to call them, their language, their time zone, what they care about.\n",
    "TOOLS.md": "# Notes on tools\n\nHosts, folders and habits of this machine that tools should know.\n",
}


@dataclass(frozen=True, slots=True)
class Choice:
    """What the person chose.

    :param key: the key itself, or ``${NAME}``; empty = from the provider's own variable.
    :param kind: for a provider that no plugin names: the plugin whose wire format it speaks.
    """

    provider: str
    key: str = ""
    model: str = ""
    base_url: str = ""
    kind: str = ""


@app.command()
def init(
    provider: Annotated[str, typer.Option("--provider", help="anthropic, openai, … or offline.")] = "",
    key: Annotated[str, typer.Option("--key", help="The key, ${NAME}, or - to read it from stdin.")] = "",
    model: Annotated[str, typer.Option("--model", help="Model of that provider.")] = "",
    base_url: Annotated[str, typer.Option("--base-url", help="Another endpoint, such as a local one.")] = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Ask nothing.")] = False,
) -> None:
    """Write the first config file (0600) and the agent's files; nothing that is there is overwritten."""
    home = home_of(os.environ)
    found = scan()
    existing = source.find(home)
    if existing is None:
        if key == "-":
            key = sys.stdin.readline().strip()
        asked = not (yes or provider) and sys.stdin.isatty()
        choice = _ask(found) if asked else decide(found, os.environ, provider, key, model, base_url)
        path = file_of(os.environ)
        write(path, {"locale": _language(os.environ), **tree_of(choice)}, os.environ)
        typer.echo(say("wrote {path}", path=path))
    elif provider or key or model or base_url:
        fix = "Change it with claw config set, or move it away"
        raise UsageError("{path} is there already", fix=fix, path=existing)
    else:
        typer.echo(say("{path} is there already and stays as it is", path=existing))
    for made in seed(home):
        typer.echo(say("wrote {path}", path=made))
    typer.echo(say("Now: claw chat"))


def decide(
    found: Sequence[Found], environ: Mapping[str, str], provider: str, key: str, model: str, base_url: str
) -> Choice:
    """What the flags mean (pure). Without a provider: the first one whose variable is set, else none:
    the choice is then made anew at each start.

    :raises UsageError: no installed plugin serves that provider, and no endpoint is given.
    """
    lines = _lines(found)
    if not provider:
        ready = [name for name, line in lines.items() if line.ready(environ)]
        if not ready:
            return Choice("")
        provider = ready[0]
    if provider == OFFLINE or provider in lines:
        line = lines.get(provider)
        return Choice(provider, key, model or (line.default_model if line else ""), base_url)
    if base_url and "openai" in lines:
        if not model:
            raise UsageError("{provider} needs a model", fix="Add --model NAME", provider=provider)
        return Choice(provider, key, model, base_url, "openai")
    names = [*lines, OFFLINE]
    near = nearest(provider, names)
    problem = "no installed plugin serves the provider {provider}"
    fix = "Did you mean {near}?" if near else "Choose one of {names}, or add --base-url and --model"
    raise UsageError(problem, fix=fix, provider=provider, near=near, names=", ".join(names))


def tree_of(choice: Choice) -> dict[str, Any]:
    """The first file as a plain tree (pure)."""
    if not choice.provider:
        return {}
    if choice.provider == OFFLINE:
        return {"agents": {"defaults": {"model": "offline/rules"}}}
    section = {"type": choice.kind, "baseUrl": choice.base_url, "apiKey": choice.key}
    written = {name: value for name, value in section.items() if value}
    tree: dict[str, Any] = {"providers": {choice.provider: written}} if written else {}
    if choice.model:
        model = choice.model.removeprefix(f"{choice.provider}/")
        tree["agents"] = {"defaults": {"model": f"{choice.provider}/{model}"}}
    return tree


def write(path: Path, tree: Mapping[str, Any], environ: Mapping[str, str]) -> None:
    """Write a new file, judged first, for its owner's eyes only.

    :raises ConfigError: what was chosen makes no sound file.
    """
    import yaml

    from claw.config import judge

    head = say(
        "# claw: one file for everything. claw config validate judges it; claw config schema is for editors."
    )
    text = f"{head}\n{yaml.safe_dump(dict(tree), allow_unicode=True, sort_keys=False)}"
    judge(source.Source(path, text, *source.parse(text, file=str(path))), path.parent, environ)
    store.make_folder(path.parent)
    store.replace(path, text.encode())


def seed(home: Path) -> list[Path]:
    """Lay out the default agent's own files; those that are there stay. The new ones."""
    folder = home / "agents" / _default_agent(home) / "agent"
    store.make_folder(folder)
    made = [folder / name for name in STARTERS if not (folder / name).exists()]
    for path in made:
        try:
            store.replace(path, say(STARTERS[path.name]).encode())
        except OSError as refused:
            raise store.cannot_write(path, refused) from refused
    return made


def _language(environ: Mapping[str, str]) -> str:
    """The language of the person's terminal, as far as claw speaks it."""
    named = next((environ[name] for name in ("LC_ALL", "LC_MESSAGES", "LANG") if environ.get(name)), "en")
    return named[:2].lower() if named[:2].lower() in LANGUAGES else "en"


def _default_agent(home: Path) -> str:
    from claw.config import load

    try:
        return load(home, os.environ).default_agent_id
    except ClawError:
        return "default"


def _ask(found: Sequence[Found]) -> Choice:
    """The questions, on the terminal."""
    lines = _lines(found)
    names = [*lines, OFFLINE]
    ready = [name for name, line in lines.items() if line.variable(os.environ)]
    typer.echo(say("Providers: {names}", names=", ".join(names)))
    provider = typer.prompt(say("Which one?"), default=(ready or [OFFLINE])[0])
    line = lines.get(provider)
    if line is None:
        return decide(found, os.environ, provider, "", "", "")
    base_url = typer.prompt(
        say("Another endpoint? (empty: the vendor's own)"), default="", show_default=False
    )
    key = ""
    if variable := line.variable(os.environ):
        typer.echo(say("The key comes from {variable}.", variable=variable))
    else:
        key = typer.prompt(say("Key (hidden; empty: none)"), default="", hide_input=True, show_default=False)
    model = typer.prompt(say("Model?"), default=line.default_model or None)
    return decide(found, os.environ, provider, key, model, base_url)


def _lines(found: Sequence[Found]) -> dict[str, ProviderLine]:
    """Provider name → what its manifest says of it."""
    return {line.name: line for line in providers_of(found)}
