"""``claw models``: the models of an agent and their fallbacks, the state of their keys, test calls, and
choosing a model."""

import asyncio
import os
from collections.abc import Iterable, Iterator
from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated, Any

import typer
from claw import ClawError, ProviderError, UsageError, t
from claw.runtime import (
    AsJson,
    document,
    missing_key_error,
    table,
    with_label,
)
from claw_config_sdk import open_state

from claw_models.commands_auth import key_rows, require_provider, uses_of
from claw_models.key_choice import unknown_key_error

if TYPE_CHECKING:
    from claw import Credential, ModelRef, Provider, Request
    from claw.runtime import App, Setup

    from claw_models.capabilities import ModelCapabilities
    from claw_models.key_pool import KeyPool

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Show, choose and test models.")
Agent = Annotated[str, typer.Option("--agent", help="Agent id; default: the default agent.")]
ModelName = Annotated[str, typer.Argument(help="provider/model, or an alias of the file.")]
PROBE_SECONDS = 60.0
"""Time limit of one call of a probe."""


@app.command("list")
def list_(agent: Agent = "", as_json: AsJson = False) -> None:
    """List the models of an agent in the order of use, and the aliases of the file."""
    from claw.runtime import load_setup

    setup = load_setup()
    capabilities = _capabilities(setup, setup.models(agent))
    found = [
        {
            "model": str(ref),
            "role": "primary" if at == 0 else "fallback",
            "plugin": _plugin_of(setup, ref.provider),
            **_capability_data(one),
        }
        for at, (ref, one) in enumerate(capabilities.items())
    ]
    aliases = setup.config.settings.models.aliases
    if as_json:
        document("models", {"agent": setup.config.agent(agent).id, "models": found, "aliases": dict(aliases)})
        return
    cells = [[one["model"], t(one["role"]), one["plugin"] or t("none"), *_cells(one)] for one in found]
    cells += [[full, t("alias {name}", name=name), _plugin_of(setup, full.partition("/")[0]) or t("none"), "", ""]
              for name, full in aliases.items()]  # fmt: skip
    table([t("model"), t("role"), t("plugin"), t("tools"), t("window")], cells)
    _warn(setup, capabilities)


@app.command()
def status(agent: Agent = "", as_json: AsJson = False) -> None:
    """Show the keys of each model, and why some are paused. Exit code 1: a model has no key that is ready."""
    from claw.runtime import load_setup

    setup = load_setup()
    capabilities = _capabilities(setup, setup.models(agent))
    found = _states(setup, agent, capabilities)
    all_ready = all(row["ready"] for row in found)
    if as_json:
        document("models-status", {"ready": all_ready, "models": found})
    else:
        cells = [
            [
                row["model"],
                *_cells(row),
                key["key"],
                row["fault"] or (t("ready") if key["state"] == "ready" else key["state"]),
            ]
            for row in found
            for key in row["keys"] or _no_key_row(row)
        ]
        heads = [t("model"), t("tools"), t("window"), t("key"), t("state")]
        table(heads, cells, {t("ready"): "green"})
        _warn(setup, capabilities)
    raise typer.Exit(0 if all_ready else 1)


@app.command()
def probe(
    model: Annotated[str, typer.Argument(help="Only this model; default: all of the agent.")] = "",
    key: Annotated[str, typer.Option("--key", help="Only the key of this name.")] = "",
    agent: Agent = "",
    as_json: AsJson = False,
) -> None:
    """Make one small call with each key of each model; it costs a few tokens. Clears the cooldown of keys that work."""
    found = asyncio.run(_probe_models(model, key, agent))
    all_ok = all(one["ok"] for one in found) and bool(found)
    if as_json:
        document("models-probe", {"ok": all_ok, "calls": found})
    else:
        cells = [[one["model"], one["key"], t("answers") if one["ok"] else one["why"]] for one in found]
        table([t("model"), t("key"), t("message")], cells, {t("answers"): "green"})
    raise typer.Exit(0 if all_ok else 1)


@app.command()
def use(
    model: ModelName,
    agent: Annotated[str, typer.Option("--agent", help="For this agent alone.")] = "",
    fallback: Annotated[
        list[str] | None, typer.Option("--fallback", help="Used when it fails; may be repeated.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Set MODEL as the default model in the config file. The fallbacks stay, unless --fallback names others."""
    from claw import ModelRef
    from claw.runtime import load_setup
    from claw_config_sdk import file_of, set_value

    from claw_models.diagnostics import fault_of_name

    setup = load_setup()
    aliases = setup.config.settings.models.aliases
    for one in (model, *(fallback or ())):
        if why_not := fault_of_name(setup.config.settings, one):
            raise why_not
        require_provider(setup, aliases.get(one, one).partition("/")[0])
    config, path = setup.config, file_of(os.environ)
    place = f"agents.list[{config.agent(agent).id}].model" if agent else "agents.defaults.model"
    choice = config.agent(agent).settings.model
    fallbacks = fallback if fallback is not None else list(choice.fallbacks) if choice else []
    value = {"primary": model, "fallbacks": fallbacks} if fallbacks else model
    changed = set_value(path, place, value, os.environ)
    why = _lack_of(load_setup(), agent, ModelRef(*aliases.get(model, model).split("/", 1)))
    if as_json:
        body = {"model": model, "fallbacks": fallbacks, "changed": changed, "ready": not why, "why": why}
        document("model-selected", body)
    elif why:
        typer.echo(t("{model} is selected, but cannot answer yet: {why}", model=model, why=why))
    else:
        typer.echo(
            t(
                "{model} is now the default model" if changed else "{model} is already the default model",
                model=model,
            )
        )


async def _probe_models(model: str, key: str, agent: str) -> list[dict[str, Any]]:
    from claw.runtime import App, candidates, load_setup

    setup = load_setup(models=[model])
    refs, found = setup.models(agent), list[dict[str, Any]]()
    unknown_keys: list[UsageError] = []
    if model:
        refs = candidates(model, str(refs[0]), (), setup.config.settings.models.aliases, ())
    async with App(setup) as running:
        for ref in refs:
            try:
                provider, keys = _provider_and_keys(running, setup, ref, agent)
            except ClawError as why:
                found.append({"model": str(ref), "key": "-", "ok": False, "why": running.redact(str(why))})
                continue
            calls = [credential for credential in keys if key in ("", credential.name)]
            if not calls:
                unknown_keys.append(
                    unknown_key_error(ref.provider, key, [credential.name for credential in keys])
                )
            found += [await _probe_key(running, ref, provider, credential, agent) for credential in calls]
    if unknown_keys and not found:
        raise unknown_keys[0]
    return found


def _provider_and_keys(
    running: "App", setup: "Setup", ref: "ModelRef", agent: str
) -> tuple["Provider", tuple["Credential", ...]]:
    """Return the provider of a model, and its keys.

    :raises ClawError: there is no provider or no key, or they cannot be used.
    """
    contribution = running.runtime.registry.providers.get(ref.provider)
    if contribution is None:
        fix = "claw plugins list says why"
        raise UsageError("no plugin provides {provider}", fix=fix, provider=ref.provider)
    keys = _key_pool(running).keys_for(contribution.value, setup.config.agent(agent).dir, "", ref.model)
    if not keys:
        from claw_models.diagnostics import variables_of

        raise missing_key_error(ref.provider, variables_of(setup.found, ref.provider) or ())
    return contribution.value, keys


def _key_pool(running: "App") -> "KeyPool":
    """Return the key pool of the running app; one of its own when another plugin selects models."""
    from claw_models.failover import Failover
    from claw_models.key_pool import KeyPool

    selector = running.runtime.registry.selector
    if selector and isinstance(selector.value, Failover):
        return selector.value.keys
    return KeyPool(environ=running.config.environ, learn=running.redact.add_values)


async def _probe_key(
    running: "App", ref: "ModelRef", provider: "Provider", key: "Credential", agent: str
) -> dict[str, Any]:
    from claw import CallAccount, Request, SystemPrompt, Text, User, bill_to
    from claw.runtime import within

    question = (User((Text("Answer with the word: yes"),)),)
    keys, why = _key_pool(running), ""
    payer = running.config.agent(agent)
    bill_to(CallAccount(payer.id, purpose="probe"))
    try:
        key = await keys.logins.refreshed(provider, key, payer.dir)
        request = Request(ref.model, SystemPrompt(""), question, max_tokens=64, credential=key)
        await within(PROBE_SECONDS, _single_answer(provider, request, ref))
        keys.forget(ref.provider, key.owner, key.name)
    except ProviderError as failed:
        keys.record_failure(ref.provider, key, ref.model, failed)
        why = t("{problem}. {fix}", problem=failed.problem, fix=failed.fix) if failed.fix else failed.problem
    except (ClawError, TimeoutError) as failed:
        why = str(failed)
    return {"model": str(ref), "key": key.name, "ok": not why, "why": running.redact(why)}


def _states(
    setup: "Setup", agent: str, capabilities: "dict[ModelRef, ModelCapabilities]"
) -> list[dict[str, Any]]:
    """Return, for each model, its keys and whether it could answer now."""
    rows, found = list(key_rows(setup, agent, os.environ)), []
    for ref, one in capabilities.items():
        keys = [
            {"key": row.name, "where": row.source, "state": row.state_for(ref.model) or "ready"}
            for row in rows
            if row.provider == ref.provider
        ] or list(_failing_without_key(setup, ref, one.keyless))
        ready = any(key["state"] == "ready" for key in keys) if keys else not one.needs_key
        found.append(
            {"model": str(ref), "ready": ready and not one.fault, "fault": one.fault or None, "needsKey": one.needs_key,
             "keys": keys, **_capability_data(one)}
        )  # fmt: skip
    return found


def _failing_without_key(
    setup: "Setup", ref: "ModelRef", keyless: "Iterable[Credential]"
) -> Iterator[dict[str, Any]]:
    """Yield a row for a service called without a key that failed: until when it is not called, or that it needs a key."""
    from claw_models.key_pool import KeyPool

    with open_state(setup.config.home) as database:
        for credential in keyless:
            rests, refused = uses_of(KeyPool(database), ref.provider, credential)
            if why := _no_key(ref.provider) if refused else rests.get("") or rests.get(ref.model):
                yield {"key": "-", "where": "", "state": why}


def _lack_of(setup: "Setup", agent: str, ref: "ModelRef") -> str:
    """Return what a model lacks to answer; empty = nothing."""
    [state] = _states(setup, agent, _capabilities(setup, (ref,)))
    if state["ready"] or state["fault"] or state["keys"]:
        return "" if state["ready"] else state["fault"] or state["keys"][0]["state"]
    from claw_models.diagnostics import variables_of

    return str(missing_key_error(ref.provider, variables_of(setup.found, ref.provider) or ()))


def _capabilities(setup: "Setup", refs: "Iterable[ModelRef]") -> "dict[ModelRef, ModelCapabilities]":
    from claw_models.capabilities import capabilities_of

    return capabilities_of(setup, {ref: _plugin_of(setup, ref.provider) for ref in refs})


def _capability_data(one: "ModelCapabilities") -> dict[str, Any]:
    return {"tools": one.tools or None, "contextTokens": one.context_tokens}


def _cells(row: dict[str, Any]) -> tuple[str, str]:
    window = row["contextTokens"]
    return row["tools"] or "?", f"{window:,}" if window else "?"


def _warn(setup: "Setup", capabilities: "dict[ModelRef, ModelCapabilities]") -> None:
    from claw_models.capabilities import capability_findings

    for one in capability_findings(setup.config.settings, capabilities.items()):
        typer.echo(with_label(one.about, one.problem) + (f" ({one.fix})" if one.fix else ""), err=True)


def _plugin_of(setup: "Setup", provider: str) -> str:
    section = setup.config.settings.providers.get(provider)
    kind = str((section.model_extra or {}).get("type", "")) if section else ""
    for one in setup.found:
        names = {line.name for line in one.manifest.providers} if one.manifest else set()
        if provider in names or kind in names:
            return one.id
    return "openai" if section and section.base_url else ""


def _no_key_row(one: dict[str, Any]) -> list[dict[str, str]]:
    provider = one["model"].partition("/")[0]
    return [{"key": "-", "state": _no_key(provider) if one["needsKey"] else t("needs no key")}]


def _no_key(provider: str) -> str:
    return t("no key (claw auth add {provider})", provider=provider)


async def _single_answer(provider: "Provider", request: "Request", ref: "ModelRef") -> None:
    """Make one call with the key in the request: no fallback, no waiting.

    :raises ProviderError: it failed.
    """
    from claw import Finished

    stream: Any = provider.stream(request)
    async with aclosing(stream) as events:
        async for event in events:
            if isinstance(event, Finished):
                return
    raise ProviderError("the model's answer was empty", reason="truncated", where=str(ref))
