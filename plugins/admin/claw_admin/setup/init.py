"""``claw init``: ask for a provider and a key, write the config file, and create the agent's own files."""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from claw import ClawError, UsageError, nearest, t
from claw.runtime import (
    LANGUAGES,
    AsJson,
    ConfigSource,
    InstalledPlugin,
    ProviderDeclaration,
    cannot_write,
    document,
    file_of,
    find_config,
    home_of,
    installed_plugins,
    make_folder,
    owners_in,
    parse_config,
    providers_of,
    replace_file,
)

STARTERS = {
    "AGENTS.md": "# How to work here\n\nRules that always apply go in this file. Keep it short: it "
    "is part of every request.\n",
    "SOUL.md": "# Tone\n\nPlain, helpful, honest about what you do not know. State what you did, "
    "then stop.\n",
    "IDENTITY.md": "# Identity\n\nName: Claw\n",
    "USER.md": "# The user\n\nTheir name, language, time zone, and what they care about.\n",
    "TOOLS.md": "# Notes on tools\n\nHosts, folders and conventions of this machine that matter for tools.\n",
}


@dataclass(frozen=True, slots=True)
class InitChoice:
    """The person's choices.

    :param key: the key itself, or ``${NAME}``; empty = from the provider's own variable.
    :param kind: for a provider that no plugin names: the plugin whose wire format it speaks.
    """

    provider: str
    key: str = ""
    model: str = ""
    base_url: str = ""
    kind: str = ""


def init(
    provider: Annotated[str, typer.Option("--provider", help="anthropic, openai, … or offline.")] = "",
    key: Annotated[str, typer.Option("--key", help="The key, ${NAME}, or - to read it from stdin.")] = "",
    model: Annotated[str, typer.Option("--model", help="Model of that provider.")] = "",
    base_url: Annotated[str, typer.Option("--base-url", help="Another endpoint, such as a local one.")] = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write the first config file (0600) and the agent's files; nothing that is there is overwritten."""
    home = home_of(os.environ)
    found = installed_plugins()
    existing = find_config(home)
    if existing is None:
        if key == "-":
            key = sys.stdin.readline().strip()
        asked = not (yes or provider or as_json) and sys.stdin.isatty()
        choice = (
            _ask(found) if asked else choice_from_flags(found, os.environ, provider, key, model, base_url)
        )
        path = file_of(os.environ)
        write_config(path, {"locale": _language(os.environ), **config_tree(choice)}, os.environ)
        lines = [t("wrote {path}", path=path)]
    elif provider or key or model or base_url:
        fix = "Change it with claw config set, or move it elsewhere"
        raise UsageError("{path} already exists", fix=fix, path=existing)
    else:
        lines = [t("{path} already exists and was not changed", path=existing)]
    made = create_agent_files(home)
    if as_json:
        body = {"config": str(existing or file_of(os.environ)), "configWritten": existing is None}
        document("init", body | {"files": [str(one) for one in made]})
        return
    lines += [t("wrote {path}", path=one) for one in made]
    typer.echo("\n".join([*lines, t("Next: claw chat")]))


def choice_from_flags(
    found: Sequence[InstalledPlugin],
    environ: Mapping[str, str],
    provider: str,
    key: str,
    model: str,
    base_url: str,
) -> InitChoice:
    """Turn the flags into a choice (pure). Without a provider: the first one whose variable is set, else
    none; the choice is then made at each start.

    :raises UsageError: no installed plugin serves that provider, and no endpoint is given.
    """
    lines = _lines(found)
    if not provider:
        ready = [name for name, line in lines.items() if line.ready(environ)]
        if not ready:
            return InitChoice("")
        provider = ready[0]
    if line := lines.get(provider):
        return InitChoice(provider, key, model or line.default_model, base_url)
    if base_url and "openai" in lines:
        if not model:
            raise UsageError("{provider} needs a model", fix="Add --model NAME", provider=provider)
        return InitChoice(provider, key, model, base_url, "openai")
    names = list(lines)
    near = nearest(provider, names)
    problem = "no installed plugin provides {provider}"
    fix = "Did you mean {near}?" if near else "Choose one of {names}, or add --base-url and --model"
    raise UsageError(problem, fix=fix, provider=provider, near=near, names=", ".join(names))


def config_tree(choice: InitChoice) -> dict[str, Any]:
    """Build the first file as a plain tree (pure)."""
    if not choice.provider:
        return {}
    section = {"type": choice.kind, "baseUrl": choice.base_url, "apiKey": choice.key}
    written = {name: value for name, value in section.items() if value}
    tree: dict[str, Any] = {"providers": {choice.provider: written}} if written else {}
    if choice.model:
        model = choice.model.removeprefix(f"{choice.provider}/")
        tree["agents"] = {"defaults": {"model": f"{choice.provider}/{model}"}}
    return tree


def write_config(path: Path, tree: Mapping[str, Any], environ: Mapping[str, str]) -> None:
    """Write a new file, after a check, readable only by its owner.

    :raises ConfigError: the choice makes no valid file.
    """
    import yaml
    from claw.runtime import validate_source

    head = t(
        "# Configuration of claw. Check it with: claw config validate. The JSON Schema for "
        "editors: claw config schema."
    )
    text = f"{head}\n{yaml.safe_dump(dict(tree), allow_unicode=True, sort_keys=False)}"
    read = ConfigSource(path, text, *parse_config(text, file=str(path)))
    validate_source(read, path.parent, environ, owners_in(environ))
    make_folder(path.parent)
    replace_file(path, text.encode())


def create_agent_files(home: Path) -> list[Path]:
    """Create the default agent's own files, keep those that exist, and return the new ones."""
    folder = home / "agents" / _default_agent(home) / "agent"
    make_folder(folder)
    new = [folder / name for name in STARTERS if not (folder / name).exists()]
    for path in new:
        try:
            replace_file(path, t(STARTERS[path.name]).encode())
        except OSError as refused:
            raise cannot_write(path, refused) from refused
    return new


def _language(environ: Mapping[str, str]) -> str:
    """Return the language of the person's terminal, as far as claw has it."""
    named = next((environ[name] for name in ("LC_ALL", "LC_MESSAGES", "LANG") if environ.get(name)), "en")
    return named[:2].lower() if named[:2].lower() in LANGUAGES else "en"


def _default_agent(home: Path) -> str:
    from claw.runtime import load_config

    try:
        return load_config(home, os.environ, owners_in(os.environ)).default_agent_id
    except ClawError:
        return "default"


def _ask(found: Sequence[InstalledPlugin]) -> InitChoice:
    """Ask the questions on the terminal."""
    lines = _lines(found)
    names = list(lines)
    ready = [name for name, line in lines.items() if line.variable(os.environ)]
    ready += [name for name, line in lines.items() if line.fallback]
    typer.echo(t("Providers: {names}", names=", ".join(names)))
    provider = typer.prompt(t("Which one?"), default=ready[0] if ready else None)
    line = lines.get(provider)
    if line is None or line.fallback:
        return choice_from_flags(found, os.environ, provider, "", "", "")
    base_url = typer.prompt(t("Another endpoint? (empty: the vendor's own)"), default="", show_default=False)
    key = ""
    if variable := line.variable(os.environ):
        typer.echo(t("The key comes from {variable}.", variable=variable))
    else:
        key = typer.prompt(t("Key (hidden; empty: none)"), default="", hide_input=True, show_default=False)
    model = typer.prompt(t("Model?"), default=line.default_model or None)
    return choice_from_flags(found, os.environ, provider, key, model, base_url)


def _lines(found: Sequence[InstalledPlugin]) -> dict[str, ProviderDeclaration]:
    """Map each provider name to its line in the manifest."""
    lines = sorted(providers_of(found), key=lambda line: line.fallback)  # those that need no key last
    return {line.name: line for line in lines}
