"""``claw auth``: the keys of model services: list, add and remove them, and set the order in which they are
tried.

A secret is never an argument: it is prompted for without echo, or read from stdin.
"""

import asyncio
import json
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import inf
from typing import TYPE_CHECKING, Annotated, Any

import typer
from claw import ConfigError, Credential, UsageError, nearest, t
from claw.runtime import AsJson, document, providers_of, table
from claw_config_sdk import open_state

from claw_models.credentials import KINDS, ProfileFile
from claw_models.key_choice import unknown_key_error

if TYPE_CHECKING:
    from claw.runtime import Setup

    from claw_models.key_pool import KeyPool

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Manage the keys of model services.")
Agent = Annotated[
    str, typer.Option("--agent", help="The agent whose file is used; default: the default agent.")
]
ProviderName = Annotated[str, typer.Argument(help="anthropic, openai, … as in provider/model.")]


@dataclass(frozen=True, slots=True)
class KeyRow:
    """One key, without its secret.

    :param source: where it is stored.
    :param fault: why it cannot be used at all.
    :param cooldowns: model → how long the key cools down for it, and why; the empty name means all models.
    :param refused: why the service refused the key when it was last used; empty = it did not.
    """

    provider: str
    name: str
    kind: str
    source: str
    owner: str = ""
    fault: str = ""
    cooldowns: Mapping[str, str] = field(default_factory=dict)
    refused: str = ""

    @property
    def state(self) -> str:
        """Everything that keeps the key from use, joined; empty = ready."""
        reasons = (f"{model}: {text}" if model else text for model, text in self.cooldowns.items())
        return self.fault or "; ".join(reasons)

    def state_for(self, model: str) -> str:
        """Return what keeps the key from this model; empty = ready."""
        return self.fault or self.cooldowns.get("") or self.cooldowns.get(model, "")

    @property
    def as_data(self) -> dict[str, Any]:
        """The row as plain data, for ``--json``."""
        return {
            "provider": self.provider, "name": self.name, "type": self.kind, "where": self.source,
            "agent": self.owner or None, "state": self.state or None,
        }  # fmt: skip


@app.command("list")
def list_(agent: Agent = "", as_json: AsJson = False) -> None:
    """List the keys, where each is stored, and the paused ones. No key is shown."""
    from claw.runtime import load_setup

    setup = load_setup()
    found = sorted(key_rows(setup, agent, os.environ), key=lambda row: row.provider)
    orders = _profile_file(setup, agent).read().orders
    if as_json:
        document(
            "auth", {"keys": [row.as_data for row in found], "order": {p: [*n] for p, n in orders.items()}}
        )
        return
    if not found:
        typer.echo(t("there is no key; claw auth add PROVIDER takes one"))
        return
    cells = [[row.provider, row.name, row.kind, row.source, row.state or t("ready")] for row in found]
    table(
        [t("provider"), t("name"), t("type"), t("where"), t("state")],
        cells,
        {t("ready"): "green"},
    )
    for provider, names in orders.items():
        typer.echo(t("order of {provider}: {names}", provider=provider, names=[*names]))


@app.command(context_settings={"allow_extra_args": True})
def add(
    line: typer.Context,
    provider: ProviderName,
    *,
    name: Annotated[str, typer.Option("--name", help="Name of the key.")] = "main",
    agent: Agent = "",
    kind: Annotated[str, typer.Option("--type", help="api_key, token or oauth.")] = "api_key",
    env: Annotated[
        str, typer.Option("--env", help="The variable that holds it, instead of a copy here.")
    ] = "",
    keyring: Annotated[bool, typer.Option("--keyring", help="Keep it in this machine's keyring.")] = False,
    as_json: AsJson = False,
) -> None:
    """Store a key of PROVIDER in the agent's own file (0600). It is prompted for without echo, or read from stdin."""
    from claw.runtime import load_setup

    setup = load_setup()
    require_provider(setup, provider)
    if line.args:  # it may be a secret: it is not repeated
        raise UsageError(
            "arguments after {provider} are not used",
            fix=(
                "Give a name with --name (claw auth add {provider} --name NAME); the key is "
                "asked for without echo"
            ),
            provider=provider,
        )
    if kind not in KINDS:
        raise UsageError("{kind} is not a key type", fix="Choose one of {kinds}", kind=kind, kinds=[*KINDS])
    file = _profile_file(setup, agent)
    if kind == "oauth":
        key = _read_login(provider, name, elsewhere=bool(env) or keyring)
    else:
        key = Credential(name, "" if env else _read_secret(provider, name), kind, provider)
    longer = file.add(key, env=env, in_keyring=keyring)
    _forget_cooldowns(setup, file, provider, name)
    if as_json:
        order = longer or _order_of(setup, file, provider)
        body = {"provider": provider, "name": name, "file": str(file.path), "order": list(order)}
        document("key-added", body | {"inOrder": not order or name in order})
        return
    typer.echo(
        t("{provider}: the key {name} is stored in {path}", provider=provider, name=name, path=file.path)
    )
    if longer:
        typer.echo(t("order of {provider}: {names}", provider=provider, names=[*longer]))
    elif name not in (order := _order_of(setup, file, provider) or (name,)):
        template = (
            "the order of {provider} does not list it, so it is not used; to add it: claw "
            "auth order {provider} {names}"
        )
        typer.echo(t(template, provider=provider, names=" ".join((*order, name))), err=True)
    if env and not os.environ.get(env, "").strip():
        typer.echo(
            t("{name} is not set in this environment; the key exists only where it is set", name=env),
            err=True,
        )


@app.command()
def remove(
    provider: ProviderName,
    name: Annotated[str, typer.Argument(help="As claw auth list shows it.")] = "main",
    agent: Agent = "",
    as_json: AsJson = False,
) -> None:
    """Remove a key that claw auth add stored. Keys of the config file and the environment are not changed."""
    from claw.runtime import load_setup

    setup = load_setup()
    file = _profile_file(setup, agent)
    if not file.remove(provider, name):
        fix = "claw auth list shows the keys and where each is stored"
        raise UsageError(
            "{path} has no key {name} of {provider}", fix=fix, path=file.path, name=name, provider=provider
        )
    _forget_cooldowns(setup, file, provider, name)
    if as_json:
        document("key-removed", {"provider": provider, "name": name})
    else:
        typer.echo(t("{provider}: the key {name} was removed", provider=provider, name=name))


@app.command()
def order(
    provider: ProviderName,
    names: Annotated[list[str] | None, typer.Argument(help="Names of keys, the first one first.")] = None,
    agent: Agent = "",
    clear: Annotated[
        bool, typer.Option("--clear", help="Return to the order of the file, or to rotation.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Use the keys of PROVIDER in this order, and no others. Without names: show the order."""
    from claw.runtime import load_setup

    setup = load_setup()
    file = _profile_file(setup, agent)
    if names and not clear:
        known = [row.name for row in key_rows(setup, agent, os.environ) if row.provider == provider]
        for name in names:
            if name not in known:
                raise unknown_key_error(provider, name, known)
    if names or clear:
        file.change(lambda tree: _put_order(tree, provider, () if clear else names or ()))
    now = _order_of(setup, file, provider)
    if as_json:
        document("key-order", {"provider": provider, "order": list(now)})
        return
    current = [*now] or t("they are used in rotation")
    typer.echo(t("order of {provider}: {names}", provider=provider, names=current))


def key_rows(setup: "Setup", agent: str, environ: Mapping[str, str]) -> Iterator[KeyRow]:
    """Yield all keys that the agent could use, its own first; no plugin is called."""
    found, file = list(_all_keys(setup, agent, environ)), _profile_file(setup, agent)
    named = {provider: _order_of(setup, file, provider) for provider in {row.provider for row in found}}
    ordered = {row.provider for row in found if not row.fault and row.name in named[row.provider]}
    for row in found:
        left_out = row.provider in ordered and row.name not in named[row.provider] and not row.fault
        yield replace(row, fault=t("not in the order")) if left_out else row


def _order_of(setup: "Setup", file: ProfileFile, provider: str) -> tuple[str, ...]:
    """Return the order of the agent's own file, else that of the config file; empty = the keys take turns."""
    section = setup.config.settings.providers.get(provider)
    return file.read().orders.get(provider) or (section.auth_order if section else ())


def _all_keys(setup: "Setup", agent: str, environ: Mapping[str, str]) -> Iterator[KeyRow]:
    from claw_models.key_pool import KeyPool

    config, file = setup.config, _profile_file(setup, agent)
    with open_state(config.home) as database:
        keys, profiles = KeyPool(database), file.read()
        for key in profiles.keys:
            uses = uses_of(keys, key.provider, key)
            yield KeyRow(key.provider, key.name, key.kind, file.path.name, file.agent, "", *uses)
        for (provider, name), why in profiles.errors.items():
            yield KeyRow(provider, name, "-", file.path.name, file.agent, why)
        taken = {(key.provider, key.name) for key in profiles.keys}
        for provider, section in config.settings.providers.items():
            written = [
                (p.id, p.type, p.api_key, f"authProfiles[{at}]") for at, p in enumerate(section.auth_profiles)
            ]
            for name, kind, secret, place in (*written, ("default", "api_key", section.api_key, "apiKey")):
                if secret is not None and not secret.empty and (provider, name) not in taken:
                    text, fault = _text_or_fault(secret)
                    uses = uses_of(keys, provider, Credential(name, text, kind))
                    yield KeyRow(provider, name, kind, f"providers.{provider}.{place}", "", fault, *uses)
        for line in providers_of(setup.found):
            variable = line.variable(environ)
            configured = config.settings.providers.get(line.name)
            if variable and not (configured and (configured.api_key or configured.auth_profiles)):
                key = Credential("environment", environ[variable].strip())
                uses = uses_of(keys, line.name, key)
                yield KeyRow(line.name, "environment", "api_key", variable, "", "", *uses)


def _forget_cooldowns(setup: "Setup", file: ProfileFile, provider: str, name: str) -> None:
    """Forget the cooldowns of a key that was replaced or removed."""
    from claw_models.key_pool import KeyPool

    with open_state(setup.config.home) as database:
        KeyPool(database).forget(provider, file.agent, name)


def cooldowns_of(keys: "KeyPool", provider: str, key: Credential) -> dict[str, str]:
    """Return the models for which a key cools down, each with the reason; the empty model means all models."""
    from claw_models.cooldown import describe_cooldown

    now = keys.clock.now()
    texts = {model: describe_cooldown(use, now) for model, use in keys.state_of(provider, key).items()}
    return {model: text for model, text in texts.items() if text}


def uses_of(keys: "KeyPool", provider: str, key: Credential) -> tuple[dict[str, str], str]:
    """Return the cooldowns of a key (:func:`cooldowns_of`), and why it was refused; empty when it was not."""
    from claw_models.cooldown import KeyState, describe_refusal

    use = keys.state_of(provider, key).get("", KeyState())
    return cooldowns_of(keys, provider, key), describe_refusal(use, keys.clock.now())


def _text_or_fault(secret: Any) -> tuple[str, str]:
    """Return the text of a secret, and why it cannot be read; one of the two is empty."""
    try:
        return str(secret.reveal().strip()), ""
    except ConfigError as why:
        return "", why.problem


def _profile_file(setup: "Setup", agent: str) -> ProfileFile:
    return ProfileFile(setup.config.agent(agent).dir)


def _put_order(tree: dict[str, Any], provider: str, names: Any) -> None:
    order = tree.setdefault("order", {})
    order[provider] = [*dict.fromkeys(names)]
    if not names:
        del order[provider]


def require_provider(setup: "Setup", provider: str) -> None:
    lines = [line.name for line in providers_of(setup.found)]
    names = [name for name in dict.fromkeys((*lines, *setup.config.settings.providers)) if name != "*"]
    if provider not in names:
        near = nearest(provider, names)
        fix = "Did you mean {near}?" if near else "Known providers: {names}"
        raise UsageError(
            "no plugin provides {provider}",
            fix=fix,
            provider=provider,
            near=near,
            names=[*names] or "-",
        )


def _read_login(provider: str, name: str, elsewhere: bool) -> Credential:
    """Read a login from stdin.

    :param elsewhere: true if it should be kept outside the agent's file.
    :raises UsageError: it could not be renewed.
    """
    from claw.runtime import Clock

    if elsewhere:
        raise UsageError(
            "a login is stored in the agent's own file, where it is renewed",
            fix="Leave out --env and --keyring",
        )
    if not asyncio.run(_can_renew(provider)):
        raise UsageError(
            "this login could not be renewed when it expires: no installed plugin can refresh {provider}",
            fix="Store it as a token that expires: claw auth add {provider} --name {name} --type token",
            provider=provider,
            name=name,
        )
    return parse_login(_read_secret(provider, name, whole=True), provider, name, Clock().now())


def parse_login(text: str, provider: str, name: str, now: float) -> Credential:
    """Parse a login in the form in which services issue it: RFC 6749, 5.1 (``expires_in`` in seconds).

    A login without a lifetime is renewed before its first use.

    :raises UsageError: it lacks what a renewal needs.
    """
    try:
        login = json.loads(text)
    except ValueError:
        login = None
    login = login if isinstance(login, dict) else {}
    secret, refresh, seconds = (login.get(key) for key in ("access_token", "refresh_token", "expires_in"))
    good = seconds if isinstance(seconds, int | float) and 0 <= seconds < inf else 0
    if not (isinstance(secret, str) and secret and isinstance(refresh, str) and refresh):
        raise UsageError(
            "a login without a refresh token cannot be renewed when it expires",
            fix=(
                "Give the service's whole answer as JSON, with {fields}; or store it as a token "
                "that expires: claw auth add {provider} --type token"
            ),
            fields="access_token, refresh_token, expires_in",
            provider=provider,
        )
    return Credential(name, secret, "oauth", provider, now + good, refresh)


async def _can_renew(provider: str) -> bool:
    from claw.runtime import App, load_setup

    async with App(load_setup(models=[f"{provider}/any"])) as running:
        contribution = running.runtime.registry.providers.get(provider)
        return contribution is not None and hasattr(contribution.value, "refresh")


def _read_secret(provider: str, name: str, whole: bool = False) -> str:
    if sys.stdin.isatty():
        question = t("Key {name} of {provider} (not shown)", name=name, provider=provider)
        secret: str = typer.prompt(question, hide_input=True, default="", show_default=False)
    else:
        secret = sys.stdin.read() if whole else sys.stdin.readline()
    if not secret.strip():
        raise UsageError("stdin contained no key", fix="claw auth add {provider} < FILE", provider=provider)
    return secret.strip()
