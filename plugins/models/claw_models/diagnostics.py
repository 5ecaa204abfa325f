"""Checks of models for ``claw doctor``: keys, capabilities, and online one call each; the key for ``claw status``."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from claw import (
    CallAccount,
    ClawError,
    Credential,
    DiagnosticContext,
    Finding,
    ModelOptions,
    ModelRef,
    Request,
    SystemPrompt,
    Text,
    UsageError,
    User,
    bill_to,
    is_loopback,
    nearest,
    t,
)
from claw.runtime import (
    ANY_ENDPOINT,
    BLOCKED,
    DISABLED,
    App,
    InstalledPlugin,
    PluginState,
    Setup,
    format_key,
    outline_config,
    providers_of,
    providers_used,
    select_models,
    values_at,
)
from claw_config_sdk import open_state

from claw_models.capabilities import capability_findings, configured_capabilities, provider_capabilities
from claw_models.credentials import ProfileFile, is_database
from claw_models.known_models import fault_of_spelling

_QUESTION = User((Text("Answer with the word: yes"),))


class ModelDiagnostic:
    """The diagnostic of this plugin."""

    name = "models"

    async def check(self, context: DiagnosticContext) -> Sequence[Finding]:
        """Check capabilities and how the last calls ended; online, call each model of the default agent with one word."""
        setup: Setup = context.setup
        if context.online:
            return await model_findings(setup)
        notes = (one for one in _configured_findings(setup) if not one.grave)
        return [*refusal_findings(setup, context.environ), *notes]

    def check_config(self, setup: Setup) -> Iterable[Finding]:
        """Check that every model of an agent can be one, and that this process has a key for it."""
        models = dict.fromkeys(model_name_findings(setup))  # an alias and its model are one fault
        windows = (one for one in _configured_findings(setup) if one.grave)
        return [*models, *key_findings(setup), *windows]

    def status(self, context: DiagnosticContext) -> Mapping[str, Any]:
        """Return where the key of the default model comes from."""
        config = context.setup.config
        agent = config.agent()
        choice = agent.settings.model
        model = (choice.primary if choice else None) or context.setup.default_model
        provider = config.settings.models.aliases.get(model, model).partition("/")[0]
        return {"key": key_source(config, context.setup.found, provider, context.environ)}


def _configured_findings(setup: Setup) -> Iterator[Finding]:
    """Yield what the file says of the capabilities of the default agent's models."""
    settings = setup.config.settings
    known = ((ref, configured_capabilities(settings, ref)) for ref in setup.models())
    return capability_findings(settings, known)


def model_name_findings(setup: Setup) -> Iterator[Finding]:
    """Find models of agents without a provider or a name, and those whose provider no installed plugin has.

    A provider is not judged while a plugin without a manifest is installed, which may provide it.
    """
    settings, found = setup.config.settings, setup.found
    known = {line.name for line in providers_of(found)}
    known |= {
        name
        for name, one in settings.providers.items()
        if one.base_url or (one.model_extra or {}).get("type")
    }
    is_complete = all(one.manifest or one.fault for one in found)
    for key, primary, fallbacks in _model_choices(setup.config):
        for name in filter(None, (primary, *fallbacks)):
            provider, slash, model = settings.models.aliases.get(name, name).partition("/")
            if not slash and name != primary:
                continue  # a fallback of the same provider
            if lack := fault_of_name(settings, name):
                problem, fix = lack.problem, lack.fix
            elif off := _plugin_that_is_off(setup, provider):
                problem = t(
                    "no plugin provides {provider}: {id} is {state}",
                    id=off.id,
                    provider=provider,
                    state=t(off.state),
                )
                fix = off.fix
            elif is_complete and provider not in known and provider in settings.providers:
                problem = t(
                    "no plugin provides {provider}, and providers.{provider} has no baseUrl",
                    provider=provider,
                )
                fix = f"claw config set providers.{provider}.baseUrl URL"
            elif is_complete and provider not in known:
                problem = t("no plugin provides {provider}", provider=provider)
                near = nearest(provider, known)
                fix = t("Did you mean {near}/{model}?", near=near, model=model) if near else (
                    t("claw plugins list shows the installed plugins")
                )  # fmt: skip
            else:
                continue
            yield Finding(key, "model", problem, fix)


def fault_of_name(settings: Any, name: str) -> UsageError | None:
    """Return the error of a model name that cannot be one; None when it can.

    An id with a blank or an empty part (a path, ``vllm//models/llama``) is one if the settings of its provider name it.
    """
    full = settings.models.aliases.get(name, name)
    provider, _, model = full.partition("/")
    section = settings.providers.get(provider)
    if not (provider and model):
        return UsageError("{name} is no model", fix="Write provider/model, or an alias", name=name)
    return None if section and model in section.models else fault_of_spelling(full, name)


def _plugin_that_is_off(setup: Setup, provider: str) -> PluginState | None:
    """Return the plugin of a provider that the operator disabled or blocked; None if another one serves it."""
    section = setup.config.settings.providers.get(provider)
    lines = [
        (one, line.name)
        for one in setup.plugin_states
        for line in (one.found.manifest.providers if one.found.manifest else ())
    ]
    served = [one for one, name in lines if name == provider]
    if section and section.base_url:
        served += [one for one, name in lines if name == ANY_ENDPOINT]
    off = [one for one in served if one.state in (DISABLED, BLOCKED)]
    return off[0] if off and len(off) == len(served) else None


def _model_choices(config: Any) -> Iterator[tuple[str, str, Sequence[str]]]:
    """Yield key, first model and fallbacks of each choice in the file; aliases that no agent uses come last."""
    agents, used = config.settings.agents, set[str]()
    sections = [("agents.defaults", agents.defaults)]
    sections += [(f"agents.list[{index}]", agent) for index, agent in enumerate(agents.list or ())]
    for key, section in sections:
        if choice := section.model:
            used |= {choice.primary or "", *choice.fallbacks}
            yield f"{key}.model", choice.primary or "", choice.fallbacks
    for path, name in values_at(config.layout.tree, "agents.compaction.model"):
        yield format_key(path), str(name or ""), ()
    for name, model in config.settings.models.aliases.items():
        if name not in used:
            yield f"models.aliases.{name}", model, ()


def variables_of(found: Iterable[Any], provider: str) -> tuple[str, ...] | None:
    """Return the environment variables that may hold a key of ``provider``; None when no manifest has it."""
    lines = [line for line in providers_of(found) if line.name == provider]
    return tuple(name for line in lines for name in line.env) if lines else None


def key_findings(setup: Setup) -> Iterator[Finding]:
    """Find providers that a model of the file needs and for which neither the file nor this process has a key."""
    config, found = setup.config, setup.found
    for provider in filter(None, providers_used(outline_config(config.layout.tree), found, config.environ)):
        section, variables = config.settings.providers.get(provider), variables_of(found, provider)
        if section is None and variables is None:
            continue  # no manifest names it: what it needs is not known
        if section is not None and section.api_key is not None and section.api_key.missing:
            continue  # the finding about the config file names the variable
        try:
            key = section.api_key.reveal().strip() if section and section.api_key is not None else None
        except ClawError as why:
            yield Finding(f"providers.{provider}.apiKey", "key", why.problem, why.fix)
            continue
        place, held = f"providers.{provider}.apiKey", key
        if not key:
            place = next((name for name in variables or () if config.environ.get(name, "").strip()), place)
            held = config.environ.get(place, "").strip()
        if held and not held.isprintable():
            why_not = t("the key contains a line break or another control character")
            yield Finding(place, "key", why_not, t("Write it in one line"))
            continue
        if held and not held.isascii():
            yield Finding(place, "key", t("the key contains a letter that no key has"), t("Copy it again"))
            continue
        if expired := _only_expired_key(config, found, provider):
            yield expired
        elif key == "" or not (key_place(config, found, provider, config.environ) or _is_keyless(section)):
            fix = (
                t("export {variable}=…", variable=variables[0]) if variables else f"claw auth add {provider}"
            )
            yield Finding(f"providers.{provider}", "key", t("it has no API key"), fix)


def _only_expired_key(config: Any, found: Sequence[InstalledPlugin], provider: str) -> Finding | None:
    """Return the finding that all keys of a provider have expired; None when it has another one."""
    own = ProfileFile(config.agent().dir)
    expired, entries = own.expired(provider), own.tree().get("profiles", {}).get(provider, {})
    if (
        not expired
        or len(expired) < len(entries)
        or _shared_key_place(config, found, provider, config.environ)
    ):
        return None
    name, why = next(iter(expired.items()))
    problem = t("its key {name} cannot be used: {why}", name=name, why=why.problem)
    return Finding(f"providers.{provider}", "key", problem, why.fix)


def refusal_findings(setup: Setup, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Find providers whose keys were all refused when they were last used, or a call without a key was.

    A damaged state is left as it is.
    """
    from claw_models.commands_auth import key_rows, uses_of
    from claw_models.key_pool import KeyPool

    config = setup.config
    if not is_database(config.home / "state.db"):
        return
    rows = list(key_rows(setup, config.agent().id, environ))
    with open_state(config.home) as database:
        pool, no_key = KeyPool(database), Credential("none", "")
        keyless = [name for name in setup.config.settings.providers if uses_of(pool, name, no_key)[1]]
    for provider in providers_used(outline_config(config.raw), setup.found, environ):
        if provider in keyless and not any(row.provider == provider for row in rows):
            why = t("the service refuses calls without a key")
            yield Finding(f"providers.{provider}", "key", why, f"claw auth add {provider}")
        refused = {row.name: row.refused for row in rows if row.provider == provider and not row.fault}
        if refused and all(refused.values()):
            names = [f"{name}: {why}" for name, why in refused.items()]
            fix = t("add a working key with claw auth add {provider}; claw models probe tests the present one",
                    provider=provider)  # fmt: skip
            yield Finding(f"providers.{provider}", "key", t("no key works: {names}", names=names), fix)


async def model_findings(setup: Setup) -> list[Finding]:
    """Check the capabilities of the default agent's models, and call each one with one word, which costs a
    few tokens.
    """
    async with App(setup) as app:
        refs, settings = setup.models(), app.config.settings
        providers = app.runtime.registry.providers
        known = ((ref, providers.get(ref.provider)) for ref in refs)
        capabilities = [(ref, provider_capabilities(one.value, settings, ref)) for ref, one in known if one]
        found = [*capability_findings(settings, capabilities)]
        for ref in refs:
            try:
                await _call_model(app, ref)
            except ClawError as why:
                found.append(Finding(str(ref), "model", why.problem, why.fix))
    return found


async def _call_model(app: App, ref: ModelRef) -> None:
    registry = app.runtime.registry
    options = ModelOptions(detached=True, key_variables=registry.key_variables)
    request = Request("", SystemPrompt(""), (), max_tokens=64)
    bill_to(CallAccount(app.config.agent().id, purpose="probe"))
    async for _ in select_models(registry, (ref,), request, options)((_QUESTION,), "none"):
        pass


def _is_keyless(section: Any) -> bool:
    """Return true if the address of a provider needs no key: it is on this machine, or the file says so."""
    written = (section.model_extra or {}).get("keyless") if section else False
    address = (section.base_url if section else "") or ""
    try:
        host = urlsplit(address if "//" in address else f"//{address}").hostname
    except ValueError:  # a finding of its own names the address
        return False
    return is_loopback(host or "") if written is None else bool(written)


def key_source(
    config: Any, found: Sequence[InstalledPlugin], provider: str, environ: Mapping[str, str]
) -> str:
    """Return where the key of ``provider`` comes from, for people: :func:`key_place`, or none."""
    section = config.settings.providers.get(provider)
    if expired := _only_expired_key(config, found, provider):
        return expired.problem
    if place := key_place(config, found, provider, environ):
        return place
    if section is not None and section.base_url:
        return t("none; the endpoint is {url}", url=section.base_url)
    return t("none")


def key_place(
    config: Any, found: Sequence[InstalledPlugin], provider: str, environ: Mapping[str, str]
) -> str:
    """Return the place of the key of ``provider``, never the key: a file, a key of the config file, a variable, or that
    none is needed. Empty when there is none.
    """
    if any(line.fallback for line in providers_of(found) if line.name == provider):
        return t("not needed")
    own = ProfileFile(config.agent().dir)
    if own.tree().get("profiles", {}).get(provider):
        return str(own.path)
    return _shared_key_place(config, found, provider, environ)


def _shared_key_place(
    config: Any, found: Sequence[InstalledPlugin], provider: str, environ: Mapping[str, str]
) -> str:
    """Return the place of a key that all agents have: the config file or a variable. Empty when there is none."""
    section = config.settings.providers.get(provider)
    if section is not None and (section.api_key or any(profile.api_key for profile in section.auth_profiles)):
        return f"providers.{provider}"
    variables = variables_of(found, provider)
    if variables == ():
        return t("not needed")
    for variable in variables or (f"{provider.upper().replace('-', '_')}_API_KEY",):
        if environ.get(variable, "").strip():
            return variable
    return ""
