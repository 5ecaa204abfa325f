"""``claw auth``: the keys of model services: which there are, adding one, taking one away, in which order they are tried.

A secret never stands on a command line: it is asked for without being shown, or read from stdin.
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

from claw.auth import KINDS, Credential, ProfileFile, no_such_key
from claw.cli.options import AsJson
from claw.cli.show import document, table
from claw.errors import UsageError
from claw.manifest import providers_of
from claw.survey import state_of
from claw.words import say

if TYPE_CHECKING:
    from claw.app import House
    from claw.keys import Keys

app = typer.Typer(add_completion=False, no_args_is_help=True, help="The keys of model services.")
Agent = Annotated[str, typer.Option("--agent", help="In whose file; the default agent's.")]
ProviderName = Annotated[str, typer.Argument(help="anthropic, openai, … as in provider/model.")]


@dataclass(frozen=True, slots=True)
class Row:
    """One key, without its secret.

    :param place: where it is written.
    :param fault: why it cannot be used at all.
    :param rests: model → how long it rests for it, and why; the empty one is of all models.
    """

    provider: str
    name: str
    kind: str
    place: str
    owner: str = ""
    fault: str = ""
    rests: Mapping[str, str] = field(default_factory=dict)

    @property
    def state(self) -> str:
        """All of that; empty = it is well."""
        told = (f"{model}: {text}" if model else text for model, text in self.rests.items())
        return self.fault or "; ".join(told)

    def state_for(self, model: str) -> str:
        """What keeps it from this model."""
        return self.fault or self.rests.get("") or self.rests.get(model, "")

    @property
    def plain(self) -> dict[str, Any]:
        """For ``--json``."""
        return {
            "provider": self.provider, "name": self.name, "type": self.kind, "where": self.place,
            "agent": self.owner or None, "state": self.state or None,
        }  # fmt: skip


@app.command("list")
def list_(agent: Agent = "", as_json: AsJson = False) -> None:
    """List the keys that there are, where each one stands, and which ones rest. No key is shown."""
    from claw.app import look_round

    house = look_round()
    found = sorted(rows(house, agent, os.environ), key=lambda row: row.provider)
    orders = _file(house, agent).read().orders
    if as_json:
        document(
            "auth", {"keys": [row.plain for row in found], "order": {p: [*n] for p, n in orders.items()}}
        )
        return
    if not found:
        typer.echo(say("there is no key; claw auth add PROVIDER takes one"))
        return
    cells = [[row.provider, row.name, row.kind, row.place, row.state or say("ready")] for row in found]
    table(
        [say("provider"), say("name"), say("type"), say("where"), say("state")],
        cells,
        {say("ready"): "green"},
    )
    for provider, names in orders.items():
        typer.echo(say("order of {provider}: {names}", provider=provider, names=", ".join(names)))


@app.command(context_settings={"allow_extra_args": True})
def add(
    line: typer.Context,
    provider: ProviderName,
    name: Annotated[str, typer.Option("--name", help="What to call the key.")] = "main",
    agent: Agent = "",
    kind: Annotated[str, typer.Option("--type", help="api_key, token or oauth.")] = "api_key",
    env: Annotated[
        str, typer.Option("--env", help="The variable that holds it, instead of a copy here.")
    ] = "",
    keyring: Annotated[bool, typer.Option("--keyring", help="Keep it in this machine's keyring.")] = False,
) -> None:
    """Keep a key of PROVIDER in the agent's own file (0600). It is asked for unseen, or read from stdin."""
    from claw.app import look_round

    house = look_round()
    known_provider(house, provider)
    if line.args:  # it may be a secret: it is not said back
        raise UsageError(
            "what stands behind {provider} is not read",
            fix="A name is given with --name (claw auth add {provider} --name NAME); the key itself is asked for, unseen",
            provider=provider,
        )
    if kind not in KINDS:
        raise UsageError(
            "{kind} is no type of key", fix="Choose one of {kinds}", kind=kind, kinds=", ".join(KINDS)
        )
    file = _file(house, agent)
    if kind == "oauth":
        key = _login(provider, name, elsewhere=bool(env) or keyring)
    else:
        key = Credential(name, "" if env else _secret(provider, name), kind, provider)
    longer = file.add(key, env=env, in_keyring=keyring)
    _forget(house, file, provider, name)
    typer.echo(
        say("{provider}: the key {name} is kept in {path}", provider=provider, name=name, path=file.path)
    )
    if longer:
        typer.echo(say("order of {provider}: {names}", provider=provider, names=", ".join(longer)))
    elif name not in (order := _order(house, file, provider) or (name,)):
        told = "the order of {provider} does not name it, so it is not asked; claw auth order {provider} {names} does"
        typer.echo(say(told, provider=provider, names=" ".join((*order, name))), err=True)
    if env and not os.environ.get(env, "").strip():
        typer.echo(
            say("{name} is not set in this environment: the key is there where it is set", name=env), err=True
        )


@app.command()
def remove(
    provider: ProviderName,
    name: Annotated[str, typer.Argument(help="As claw auth list shows it.")] = "main",
    agent: Agent = "",
) -> None:
    """Forget a key that claw auth add took. Those of the config file and the environment stand where they are."""
    from claw.app import look_round

    house = look_round()
    file = _file(house, agent)
    if not file.remove(provider, name):
        fix = "claw auth list shows the keys and where each one stands"
        raise UsageError(
            "{path} has no key {name} of {provider}", fix=fix, path=file.path, name=name, provider=provider
        )
    _forget(house, file, provider, name)
    typer.echo(say("{provider}: the key {name} is forgotten", provider=provider, name=name))


@app.command()
def order(
    provider: ProviderName,
    names: Annotated[list[str] | None, typer.Argument(help="Names of keys, the first one first.")] = None,
    agent: Agent = "",
    clear: Annotated[
        bool, typer.Option("--clear", help="Back to the file's order, or taking turns.")
    ] = False,
) -> None:
    """Try the keys of PROVIDER in this order, and no others. Without names: say the order."""
    from claw.app import look_round

    house = look_round()
    file = _file(house, agent)
    if names and not clear:
        there = [row.name for row in rows(house, agent, os.environ) if row.provider == provider]
        for name in names:
            if name not in there:
                raise no_such_key(provider, name, there)
    if names or clear:
        file.change(lambda tree: _put_order(tree, provider, () if clear else names or ()))
    told = ", ".join(_order(house, file, provider)) or say("they take turns")
    typer.echo(say("order of {provider}: {names}", provider=provider, names=told))


def rows(house: "House", agent: str, environ: Mapping[str, str]) -> Iterator[Row]:
    """All keys that the agent could use, its own first; no plugin is asked."""
    found, file = list(_rows(house, agent, environ)), _file(house, agent)
    named = {provider: _order(house, file, provider) for provider in {row.provider for row in found}}
    in_use = {row.provider for row in found if not row.fault and row.name in named[row.provider]}
    for row in found:
        left_out = row.provider in in_use and row.name not in named[row.provider] and not row.fault
        yield replace(row, fault=say("not in the order")) if left_out else row


def _order(house: "House", file: ProfileFile, provider: str) -> tuple[str, ...]:
    """The agent's own, else the config file's; empty = they take turns."""
    section = house.config.settings.providers.get(provider)
    return file.read().orders.get(provider) or (section.auth_order if section else ())


def _rows(house: "House", agent: str, environ: Mapping[str, str]) -> Iterator[Row]:
    from claw.keys import Keys

    config, file = house.config, _file(house, agent)
    with state_of(config.home) as database:
        keys, profiles = Keys(database), file.read()
        for key in profiles.keys:
            rests = _rests(keys, key.provider, key)
            yield Row(key.provider, key.name, key.kind, file.path.name, file.agent, "", rests)
        for (provider, name), why in profiles.faults.items():
            yield Row(provider, name, "-", file.path.name, file.agent, why)
        taken = {(key.provider, key.name) for key in profiles.keys}
        for provider, section in config.settings.providers.items():
            written = [
                (p.id, p.type, p.api_key, f"authProfiles[{at}]") for at, p in enumerate(section.auth_profiles)
            ]
            for name, kind, secret, place in (*written, ("default", "api_key", section.api_key, "apiKey")):
                if secret is not None and not secret.empty and (provider, name) not in taken:
                    missing = ", ".join(secret.missing)
                    state = say("the environment variable {name} is not set", name=missing) if missing else ""
                    key = Credential(name, "" if missing else _revealed(secret), kind)
                    place = f"providers.{provider}.{place}"  # noqa: PLW2901
                    yield Row(provider, name, kind, place, "", state, _rests(keys, provider, key))
        for line in providers_of(house.found):
            held = line.variable(environ)
            own = config.settings.providers.get(line.name)
            if held and not (own and (own.api_key or own.auth_profiles)):
                key = Credential("environment", environ[held].strip())
                yield Row(line.name, "environment", "api_key", held, "", "", _rests(keys, line.name, key))


def _forget(house: "House", file: ProfileFile, provider: str, name: str) -> None:
    """What is known of a key that is another one now, or gone."""
    from claw.keys import Keys

    with state_of(house.config.home) as database:
        Keys(database).forget(provider, file.agent, name)


def _rests(keys: "Keys", provider: str, key: Credential) -> dict[str, str]:
    from claw.cooldown import waits

    now = keys.clock.now()
    told = {model: waits(use, now) for model, use in keys.of_key(provider, key).items()}
    return {model: text for model, text in told.items() if text}


def _revealed(secret: Any) -> str:
    from claw.errors import ConfigError

    try:
        return str(secret.reveal().strip())
    except ConfigError:
        return ""


def _file(house: "House", agent: str) -> ProfileFile:
    return ProfileFile(house.config.agent(agent).dir)


def _put_order(tree: dict[str, Any], provider: str, names: Any) -> None:
    order = tree.setdefault("order", {})
    order[provider] = [*dict.fromkeys(names)]
    if not names:
        del order[provider]


def known_provider(house: "House", provider: str) -> None:
    from claw.config.names import nearest

    lines = [line.name for line in providers_of(house.found)]
    names = [name for name in dict.fromkeys((*lines, *house.config.settings.providers)) if name != "*"]
    if provider not in names:
        near = nearest(provider, names)
        fix = "Did you mean {near}?" if near else "Those that are known: {names}"
        raise UsageError(
            "nobody serves the provider {provider}",
            fix=fix,
            provider=provider,
            near=near,
            names=", ".join(names) or "-",
        )


def _login(provider: str, name: str, elsewhere: bool) -> Credential:
    """A login from stdin.

    :param elsewhere: whether it shall be kept out of the agent's file.
    :raises UsageError: nobody could make it anew.
    """
    from claw.clock import SYSTEM

    if elsewhere:
        raise UsageError(
            "a login is kept in the agent's own file: there it is made anew",
            fix="Leave out --env and --keyring",
        )
    if not asyncio.run(_renews(provider)):
        raise UsageError(
            "nobody would make this login anew when it runs out: no plugin here has a refresh for {provider}",
            fix="Keep it as one that runs out: claw auth add {provider} --name {name} --type token",
            provider=provider,
            name=name,
        )
    return handed_out(_secret(provider, name, whole=True), provider, name, SYSTEM.now())


def handed_out(text: str, provider: str, name: str, now: float) -> Credential:
    """A login in the form in which services hand them out: RFC 6749, 5.1 (``expires_in`` in seconds).

    One that does not say how long it is good is made anew before its first use.

    :raises UsageError: it lacks what is needed to make it anew.
    """
    try:
        told = json.loads(text)
    except ValueError:
        told = None
    told = told if isinstance(told, dict) else {}
    secret, refresh, seconds = (told.get(key) for key in ("access_token", "refresh_token", "expires_in"))
    good = seconds if isinstance(seconds, int | float) and 0 <= seconds < inf else 0
    if not (isinstance(secret, str) and secret and isinstance(refresh, str) and refresh):
        raise UsageError(
            "a login without a refresh token cannot be made anew when it runs out",
            fix="Give the service's whole answer as JSON, with {fields}; or keep it as one that runs out: "
            "claw auth add {provider} --type token",
            fields="access_token, refresh_token, expires_in", provider=provider,
        )  # fmt: skip
    return Credential(name, secret, "oauth", provider, now + good, refresh)


async def _renews(provider: str) -> bool:
    from claw.app import App, look_round

    async with App(look_round(models=[f"{provider}/any"])) as running:
        brought = running.rooms.kit.providers.get(provider)
        return brought is not None and hasattr(brought.thing, "refresh")


def _secret(provider: str, name: str, whole: bool = False) -> str:
    if sys.stdin.isatty():
        asked = say("Key {name} of {provider} (not shown)", name=name, provider=provider)
        secret: str = typer.prompt(asked, hide_input=True, default="", show_default=False)
    else:
        secret = sys.stdin.read() if whole else sys.stdin.readline()
    if not secret.strip():
        raise UsageError(
            "there was no key on stdin", fix="claw auth add {provider} < FILE", provider=provider
        )
    return secret.strip()
