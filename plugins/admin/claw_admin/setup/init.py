"""``claw init``: ask for a provider and a key, write the config file, and create the agent's own files."""

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from claw import ClawError, UsageError, nearest, t
from claw.runtime import (
    ANY_ENDPOINT,
    LANGUAGES,
    AsJson,
    ConfigSource,
    InstalledPlugin,
    ProviderDeclaration,
    cannot_write,
    document,
    find_config,
    format_key,
    home_of,
    installed_plugins,
    load_setup,
    make_folder,
    origin_of,
    package_of,
    parse_config,
    plugin_keys,
    plugin_states,
    providers_of,
    read_home,
    replace_file,
)
from claw_config_sdk import file_of, set_value

STARTERS = {
    "AGENTS.md": "# How to work here\n\nRules that always apply go in this file. Keep it short: it "
    "is part of every request.\n",
    "SOUL.md": "# Tone\n\nPlain, helpful, honest about what you do not know. State what you did, "
    "then stop.\n",
    "IDENTITY.md": "# Identity\n\nName: Claw\n",
    "USER.md": "# The user\n\nTheir name, language, time zone, and what they care about.\n",
    "TOOLS.md": "# Notes on tools\n\nHosts, folders and conventions of this machine that matter for tools.\n",
}


OTHER = "other"
"""The answer for a provider that no plugin names."""


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
    """Write the first config file (0600) and the agent's files. A file that is there is changed only to name a model,
    where it names none of a service.
    """
    home = home_of(os.environ)
    found = installed_plugins()
    existing = find_config(home)
    given, has_model = any((provider, key, model, base_url)), existing is not None and _has_model(found)
    asked = not (yes or given or as_json) and sys.stdin.isatty()
    if given and has_model:
        fix = "Change it with claw config set, or move it elsewhere"
        raise UsageError("{path} already exists", fix=fix, path=existing)
    if existing and (has_model or not (given or asked)):
        lines = [t("{path} already exists and was not changed", path=existing)]
        if not has_model:
            lines.append(t("it names no model of a service: claw init --provider NAME --key KEY sets one up"))
    else:
        if key == "-":
            key = sys.stdin.readline().strip()
        flags = (provider, key, model, base_url)
        choice = ask_choice(found, os.environ) if asked else choice_from_flags(found, os.environ, *flags)
        path = existing or file_of(os.environ)
        if existing:
            add_to_config(path, config_tree(choice), os.environ)
        else:
            limits = {"tools": {"exec": {"mode": ask_exec_mode()}}} if asked else {}
            write_config(path, {"locale": _language(os.environ), **config_tree(choice), **limits}, os.environ)
        lines = [t("wrote {path}", path=path)]
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
    for problem, fix in (
        (key_problem(key), "Give the key alone"),
        (model_problem(model), "Give the name alone, such as claude-sonnet-4-6"),
        (address_problem(base_url), "Write it as https://host or http://host:port"),
    ):
        if problem:
            raise UsageError("{problem}", fix=fix, problem=problem)
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
    near, package = nearest(provider, names), package_of(provider)
    problem = "no installed plugin provides {provider}"
    fix = "Did you mean {near}?" if near else "Choose one of {names}, or add --base-url and --model"
    fix = "claw plugins install {package}" if package else fix
    raise UsageError(problem, fix=fix, provider=provider, near=near, names=[*names], package=package)


def key_problem(text: str) -> str:
    """Return why a text is no key; empty when it may be one."""
    is_key = not any(map(str.isspace, text)) and "://" not in text
    return "" if is_key else t("that is no key: it has a blank or is an address")


def model_problem(text: str) -> str:
    """Return why a text is no name of a model; empty when it may be one."""
    return "" if re.fullmatch(r"[\w./:@+-]*", text) else t("{text} is no name of a model", text=text)


def address_problem(text: str) -> str:
    """Return why a text is no address of a service; empty when it may be one. A key in its place is not printed."""
    try:
        if text:
            origin_of(text)
    except UsageError as wrong:
        return wrong.problem
    return ""


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
    validate_source(read, path.parent, environ, plugin_keys(plugin_states(environ, read)))
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
    from claw.runtime import validate_source

    try:
        read = read_home(home)
        keys = plugin_keys(plugin_states(os.environ, read))
        return validate_source(read, home, os.environ, keys).default_agent_id
    except ClawError:
        return "default"


def ask_choice(found: Sequence[InstalledPlugin], environ: Mapping[str, str]) -> InitChoice:
    """Ask on the terminal for provider, key and model; for an address only where the provider is another one. An answer
    that cannot be right is asked for again.
    """
    lines = _lines(found)
    ready = [name for name, line in lines.items() if line.variable(environ)]
    ready += [name for name, line in lines.items() if line.fallback]
    names = [*lines, *([OTHER] if "openai" in lines else [])]
    typer.echo(t("Providers: {names}", names=[*names]))
    if OTHER in names:
        typer.echo(t("{name}: any service with the API of OpenAI, such as a local one", name=OTHER))

    def provider_problem(text: str) -> str:
        near = nearest(text, names)
        if text in names:
            return ""
        return t("did you mean {near}?", near=near) if near else t("choose one of the providers")

    provider = _prompt(t("Which one?"), provider_problem, default=ready[0] if ready else None)
    base_url = ""
    if provider == OTHER:
        base_url = _prompt(t("Its address?"), address_problem)
        provider = _prompt(t("A name for it?"), lambda text: "" if text.isidentifier() else t("use letters"))
    line = lines.get(provider)
    if line is not None and line.fallback:
        return choice_from_flags(found, environ, provider, "", "", "")
    key = ""
    if variable := line.variable(environ) if line else "":
        typer.echo(t("The key comes from {variable}.", variable=variable))
    else:
        key = _prompt(t("Key (hidden; empty: none)"), key_problem, default="", hide_input=True)
    model = _prompt(t("Model?"), model_problem, default=(line.default_model if line else "") or None)
    return choice_from_flags(found, environ, provider, key, model, base_url)


def ask_exec_mode() -> str:
    """Ask on the terminal once if the agent may run programs; return the ``tools.exec.mode``."""
    for line in (
        t("Programs that the agent wants to run:"),
        t("  ask: you see each command first, and answer yes, no or always (as shipped)"),
        t("  deny: it runs none"),
        t("In a sandbox (sandbox.mode: all) commands run without a question."),
    ):
        typer.echo(line)

    def problem(text: str) -> str:
        return "" if text in ("ask", "deny") else t("write ask or deny")

    return _prompt(t("Programs?"), problem, default="ask")


def _prompt(
    question: str, problem_of: Callable[[str], str], default: str | None = None, hide_input: bool = False
) -> str:
    """Ask until the answer has no problem."""
    while True:
        answer: str = typer.prompt(
            question, default=default, show_default=bool(default), hide_input=hide_input
        ).strip()
        if not (problem := problem_of(answer)):
            return answer
        typer.echo(problem, err=True)


def add_to_config(path: Path, tree: Mapping[str, Any], environ: Mapping[str, str]) -> None:
    """Add the choice to a file that is there; its other keys and comments stay.

    :raises ConfigError: the file would become invalid.
    """
    for provider, section in tree.get("providers", {}).items():
        for name, value in section.items():
            set_value(path, format_key(("providers", provider, name)), value, environ)
    if agents := tree.get("agents"):
        set_value(path, "agents.defaults.model", agents["defaults"]["model"], environ)


def _has_model(found: Sequence[InstalledPlugin]) -> bool:
    """Return true if the file leads to a model of a service, and not to a provider that answers without one.

    :raises ConfigError: the file is wrong.
    """
    models = load_setup(os.environ, found).models()
    lines = _lines(found)
    return any((line := lines.get(ref.provider)) is None or not line.fallback for ref in models)


def _lines(found: Sequence[InstalledPlugin]) -> dict[str, ProviderDeclaration]:
    """Map each provider name to its line in the manifest."""
    lines = sorted(providers_of(found), key=lambda line: line.fallback)  # those that need no key last
    return {line.name: line for line in lines if line.name != ANY_ENDPOINT}
