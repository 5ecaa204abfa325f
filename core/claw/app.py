"""The composition root: the objects of a running claw are built, connected and closed here."""

import asyncio
import contextlib
import inspect
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

from pydantic import BaseModel

from claw import i18n
from claw.agent.loop import Emit
from claw.agent.models import models_of_agent
from claw.agent.providers import GuardedProvider, apply_middleware
from claw.agent.routing import admit
from claw.agent.session_queue import SessionQueues
from claw.agent.tool_gate import ToolGate
from claw.agent.turn import take_turn
from claw.agent.turn_context import Runtime, TurnContext, TurnOptions, resolve_turn
from claw.config.errors import combine_errors
from claw.config.loader import Config, validate_source
from claw.config.paths import value_at
from claw.config.plugin_view import PluginConfig
from claw.config.source import read_config, read_home
from claw.config.summary import outline_config
from claw.config.values import Secret
from claw.contracts.channel import Channel, ChatCommand
from claw.contracts.errors import ClawError, PluginError, UsageError
from claw.contracts.events import ignore_event
from claw.contracts.messages import Inbound, Outbound, Receipt
from claw.contracts.provider import ModelRef, Provider
from claw.contracts.text import to_json
from claw.contracts.tool import ToolResult
from claw.contracts.transcript import ToolCall
from claw.host import discovery
from claw.host.calls import FIX, PluginSet
from claw.host.discovery import installed_plugins
from claw.host.health import PartHealth, PluginHealth
from claw.host.isolation import DEFAULT_TIMEOUTS, Timeouts, describe_exception, run_bounded
from claw.host.manager import Host
from claw.host.manifest import InstalledPlugin
from claw.host.registry import BUILTIN, Contribution, HookRules, Registry, file_warnings
from claw.host.state import PluginState, choose_default_model, config_key_errors, declared_tools
from claw.host.worker import PluginWorker, within
from claw.i18n import t
from claw.policy.engine import judge_tools
from claw.policy.subjects import RunFacts, ToolFact, tool_fact, withheld_line
from claw.security.admission import PAIRED_PEOPLE, TERMINAL, paired_people
from claw.security.http_client import HttpClients
from claw.security.redaction import Redactor
from claw.security.secret_patterns import is_secret_name
from claw.storage.clock import SYSTEM_CLOCK, Clock
from claw.storage.database import Database
from claw.storage.files import SYSTEM_DISK, Disk
from claw.storage.overrides import Overrides
from claw.storage.sessions import MemorySessionStore, Sessions
from claw.storage.turn_log import NoTurnLog, is_repeat

_DEFAULT = TurnOptions()


@dataclass(frozen=True)
class Setup:
    """The config file and the states of the plugins, before any plugin's code is loaded.

    :param tools: every tool, once all plugins are loaded; None = only manifests are read.
    :param only_looks: the command needs to write nothing: a read-only home is no error, and none is made.
    """

    config: Config
    found: tuple[InstalledPlugin, ...]
    plugin_states: tuple[PluginState, ...]
    default_model: str
    tools: tuple[ToolFact, ...] | None = None
    only_looks: bool = False

    @cached_property
    def facts(self) -> tuple[ToolFact, ...]:
        """The tools; before plugins are loaded, those that the manifests declare."""
        if self.tools is not None:
            return self.tools
        return declared_tools(self.plugin_states, self.config.settings.tools.suppliers)

    def models(self, agent: str = "") -> tuple[ModelRef, ...]:
        """Return the models of an agent, in the order in which they are asked."""
        return models_of_agent(self.config.agent(agent), self.config, self.default_model)


def load_setup(
    environ: Mapping[str, str] = os.environ, found: Sequence[InstalledPlugin] | None = None, models: Sequence[str] = (),
    file: Path | None = None, *, only_looks: bool = False,
) -> Setup:  # fmt: skip
    """Read the config file and the manifests of the installed plugins; of plugins only config models are imported.

    :param found: the installed plugins; None = discover them.
    :param models: further models that this process may ask, beside those of the file.
    :param file: a config file to read in place of that in the home.
    :param only_looks: the command needs to write nothing: a read-only home is no error, and none is made.
    :raises ConfigError: the file is invalid (exit 3).
    """
    home = discovery.home_of(environ)
    seen = tuple(found) if found is not None else installed_plugins(home)
    read = read_config(file) if file else read_home(home)
    aliases = value_at(read.tree, ("models", "aliases"))
    named = [str(value_at(aliases, (model,), model)) for model in models if model]
    plugin_states = discovery.states_of(seen, environ, read, named)
    config = validate_source(read, home, environ, discovery.plugin_keys(plugin_states))
    i18n.use_language(config.settings.locale if "locale" in config.raw else i18n.language_of(environ))
    model = choose_default_model(seen, outline_config(config.layout.tree), environ)
    return Setup(config, seen, plugin_states, model, only_looks=only_looks)


def command_host(
    environ: Mapping[str, str] = os.environ, database: Database | None = None, setup: Setup | None = None,
) -> Host:  # fmt: skip
    """Return a host that loads nothing by itself: for commands of plugins, and what they ask other plugins.

    :param database: ``state.db``, if it is open.
    :param setup: None = read the file.
    :raises ConfigError: the file is wrong.
    """
    setup, network = setup or load_setup(environ), HttpClients()
    config, folder = setup.config, setup.config.home / "plugins"
    return Host(
        setup.plugin_states, lambda id: PluginConfig(config, id, network.client, folder / id, database),
        PluginHealth(folder, database, only_looks=True), rules=HookRules(config.settings.plugins.slots.chosen()),
    )  # fmt: skip


class App:
    """A running claw: the runtime of its turns, and the resources to close at the end.

    :param setup: the result of ``load_setup``.
    :param plugins: plugin objects that a test passes in, by id.
    :param log: receives each problem that stops nothing, as one translated line; None = nobody reads them.
    :param timeouts: limits of time for calls of plugins.
    :param before: the app of an older configuration in the same process: its database, sessions, network clients and
        plugin objects are reused.
    :ivar keep_channels: of an app and the one that replaces it, returns the channels of the newer one; some may go on.
    :param disk: the system calls for durable writes of state and sessions.
    """

    def __init__(
        self,
        setup: Setup,
        *,
        plugins: Mapping[str, Any] | None = None,
        log: Callable[[str], None] | None = None,
        clock: Clock = SYSTEM_CLOCK,
        timeouts: Timeouts = DEFAULT_TIMEOUTS,
        before: "App | None" = None,
        disk: Disk = SYSTEM_DISK,
    ) -> None:
        self.timeouts: Timeouts = before.timeouts if before else timeouts
        self._clock: Clock = before._clock if before else clock
        self.setup, self.config = setup, setup.config
        self._plugins: Mapping[str, Any] = before._plugins if before else dict(plugins or {})
        self.redact = Redactor(_secrets(self.config), self.config.settings.logging.redact_patterns)
        self._write_log: Callable[[str], None] | None = before._write_log if before else log
        if not (looks := setup.only_looks and self._needs_no_home()):
            self._make_home()
        self._network: HttpClients = before._network if before else HttpClients()
        known = before and before._database
        self._database: Database = known or Database(self.config.home / "state.db", clock, self.log, disk)
        health = PluginHealth(self.config.home / "plugins", self._database, self._clock.now, only_looks=looks)
        self._worker = PluginWorker(self.timeouts, self._task_failed, PartHealth(health, setup.found))
        self.host = Host(
            setup.plugin_states,
            self._view,
            health,
            self._plugins,
            self.log,
            HookRules(setup.config.settings.plugins.slots.chosen(), timeouts=self.timeouts),
        )
        self._database.tables("admission", PAIRED_PEOPLE)
        self.outlet: Callable[[Outbound], Awaitable[Receipt]] | None = before.outlet if before else None
        self.registry: Registry = self._ordered(self.host.gather())
        if errors := config_key_errors(self.config, self.host.plugin_states):
            raise combine_errors(errors)
        self.keep_channels: Callable[[App, App], Mapping[str, Contribution[Channel]]] | None = None
        if before and (keep := before.keep_channels):
            self.keep_channels = keep
            self.registry = replace(self.registry, channels=keep(before, self))
        self.runtime: Runtime = self._attach_approver(self._make_runtime(before))
        self._log_findings()

    @property
    def database(self) -> Database:
        """``state.db``."""
        return self._database

    @property
    def clock(self) -> Clock:
        """The clock of all parts of this app."""
        return self._clock

    def _make_runtime(self, before: "App | None") -> Runtime:
        """Return the runtime of turns; objects with state are taken over from ``before``."""
        runtime = before.runtime if before else None
        plugin_log = self.registry.turn_log
        store = self.registry.store or Contribution(BUILTIN, MemorySessionStore(self._clock))
        log = runtime.turn_log if runtime else plugin_log.value if plugin_log else NoTurnLog(self._database)
        return Runtime(
            config=self.config,
            plugins=PluginSet(self._guarded_registry(), self._worker, self.log),
            sessions=runtime.sessions
            if runtime
            else Sessions(store.value, store.plugin, Overrides(self._database), self._clock),
            turn_log=log,
            session_queues=runtime.session_queues if runtime else SessionQueues(),
            default_model=self.setup.default_model,
            deliver=self.deliver,
            redact=self.redact,
        )

    def _log_findings(self) -> None:
        """Log the warnings about the config file, clashes of tools, and quarantined plugins: a line each, once."""
        faults, facts = self.registry.diagnostics, self.registry.facts
        found = tuple(one.found for one in self.host.plugin_states)
        checks = self.host.on_demand("register_diagnostics", at_start=True) if self._write_log else ()
        clashes = [one for one in judge_tools(facts, (), RunFacts()).conflicts if one.kind != "twice"]
        self.host.record_skips(clashes)
        warnings = file_warnings(replace(self.setup, found=found, tools=facts), checks)
        for line in (
            *faults,  # that of a plugin's settings is a warning about the file too, under the same key
            *(str(one) for one in warnings if f": {one.key}: " not in "\n".join(faults)),
            *map(str, clashes),
            # What was loaded has said it by itself.
            *filter(None, (withheld_line(one) for one in facts if one.supplier not in self.host.notes)),
        ):
            self.log(line)

    async def retire(self, after: "App") -> None:
        """Close what only this app uses, after a newer app has replaced it; state and network stay open."""
        kept = {id(contribution.value) for contribution in after.registry.channels.values()}
        kept |= {id(after.runtime.turn_log), id(after.runtime.sessions.store)}
        given = {id(plugin) for plugin in self._plugins.values()}
        for contribution in self.host.closables():
            if id(contribution.value) not in kept | given and not isinstance(contribution.value, ModuleType):
                await self._close_one(contribution)
        self._worker.close()

    def log(self, line: str) -> None:
        """Log a problem that stops nothing; secrets are masked."""
        if self._write_log:
            self._write_log(self.redact(line))

    def on_loop_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Log the failure of a task that is never awaited: the exception handler of the event loop of this app."""
        why = context.get("exception")
        self._task_failed("", describe_exception(why) if why else str(context.get("message")))

    def _task_failed(self, plugin: str, why: str) -> None:
        template = "a task of plugin {id} failed: {why}" if plugin else "an abandoned task failed: {why}"
        self.log(t(template, id=plugin, why=why))

    async def handle(self, inbound: Inbound, emit: Emit, options: TurnOptions = _DEFAULT) -> Outbound | None:
        """Handle one message and return the reply; None also for a message that was handled before.

        :raises ClawError: the turn failed.
        """
        inbound, _ = to_json(inbound)
        if is_repeat(self.runtime.turn_log, inbound):
            return None
        return await take_turn(inbound, options, runtime=self.runtime, emit=emit)

    async def deliver(self, outbound: Outbound) -> Receipt:
        """Send a reply through its channel; through the outbox where there is one."""
        if self.outlet and outbound.address.channel != TERMINAL:
            return await self.outlet(outbound)
        channel = self.registry.channel(outbound.address.channel, outbound.address.account)
        if channel is None:
            raise UsageError("there is no channel {name}", name=outbound.address.channel)
        return await channel.send(outbound)

    async def resolve_turn(self, inbound: Inbound, options: TurnOptions = _DEFAULT) -> TurnContext:
        """Return the context of the turn of this message: its rulings and prompt, without a model call."""
        paired = paired_people(self._database, inbound.address.channel, inbound.address.account)
        route = admit(inbound, self.config, options.agent, options.session, paired)
        if route is None:
            why = "claw route explain --channel {channel} --sender ID shows why"
            place, who = inbound.address.channel, inbound.sender.id or t("a sender without an id")
            raise UsageError(
                "a message from {sender} there would not be answered", fix=why, sender=who, channel=place
            )
        return await resolve_turn(inbound, route, self.runtime, options)

    async def call_tool(
        self, name: str, arguments: dict[str, Any], inbound: Inbound, options: TurnOptions
    ) -> ToolResult:
        """Run one tool through the rulings and the tool gate of a turn."""
        gate = ToolGate("call", await self.resolve_turn(inbound, options), ignore_event)
        ready = await gate.prepare(ToolCall("call", name, arguments))
        return ready if isinstance(ready, ToolResult) else await ready.run()

    async def __aenter__(self) -> "App":
        return self

    async def __aexit__(self, *why: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the contributions of plugins, then the network, the sessions and the database."""
        sessions = self.runtime.sessions  # of an earlier app, where this one replaced it
        for contribution in self.host.closables():
            if contribution.value is not sessions.store:
                await self._close_one(contribution)
        self._worker.close()
        await self._network.aclose()
        await self._close_one(Contribution(sessions.plugin, sessions.store))
        self._database.close()

    async def _close_one(self, contribution: Contribution[Any]) -> None:
        close = getattr(contribution.value, "close", None)
        if close is None:
            return
        try:
            await within(2 * self.timeouts.close_seconds, self._closed(close))
        except Exception as why:  # noqa: BLE001 - third-party code
            plugin, problem = contribution.plugin, "it failed while closing: {why}"
            self.log(str(PluginError(plugin, "stop", problem, FIX, why=describe_exception(why), id=plugin)))

    async def _closed(self, close: Callable[[], Any]) -> None:
        """Call ``close``: a plain function in a thread; a coroutine function, or a returned awaitable, in this loop."""
        seconds = self.timeouts.close_seconds
        here = inspect.iscoroutinefunction(close)
        ending = close() if here else await asyncio.to_thread(run_bounded, close, seconds)
        if inspect.isawaitable(ending):
            await within(seconds, ending, self.timeouts.grace_seconds)

    def _view(self, plugin: str) -> PluginConfig:
        given = self.config.home / "plugins" / plugin, self._database, self._clock, self.redact.add_values
        view = PluginConfig(self.config, plugin, self._network.client, *given)
        view.chat_menu = self.chat_menu
        return view

    @cached_property
    def chat_commands(self) -> Mapping[str, Contribution[ChatCommand]]:
        """The chat commands by name, in order; core's names come first. The first look loads plugins and blocks."""
        self.host.on_demand("register_chat_commands")
        found = self.host.by_name("register_chat_commands", lambda one: f"/{one.name}")
        return {one.value.name: one for one in found.values()}

    def chat_menu(self) -> tuple[tuple[str, str, str], ...]:
        """Return name, summary in the language in use, and arguments of each chat command; it may block."""
        commands = (one.value for one in self.chat_commands.values())
        return tuple((each.name, t(each.summary), getattr(each, "usage", "")) for each in commands)

    def _attach_approver(self, runtime: Runtime) -> Runtime:
        """Show the approver the runtime, if it wants it; one that fails is quarantined, and every request refused."""
        one = runtime.registry.approver
        if one is None or not hasattr(one.value, "attach"):
            return runtime
        try:
            one.value.attach(runtime)
        except Exception as why:  # noqa: BLE001 - a plugin's code
            self.host.quarantine(one.plugin, "register", describe_exception(why))
            registry = replace(runtime.registry, approver=None)
            return replace(runtime, plugins=replace(runtime.plugins, registry=registry))
        return runtime

    def _guarded_registry(self) -> Registry:
        """Return the registry with each provider behind the middleware of plugins and the guards of core."""
        registry, seconds = self.registry, self.timeouts.hook_seconds
        wrapped = apply_middleware(registry.providers, registry.middleware, self._middleware_failed, seconds)
        guards = self.config.settings.models, self.redact, self.log, self.timeouts.silence_seconds
        guarded: dict[str, Contribution[Provider]] = {
            name: Contribution(one.plugin, GuardedProvider(one.value, *guards))
            for name, one in wrapped.items()
        }
        return replace(self.registry, providers=guarded)

    def _middleware_failed(self, plugin: str, why: BaseException) -> None:
        self.host.quarantine(plugin, "register", describe_exception(why))

    def _needs_no_home(self) -> bool:
        home = next(place for place in (self.config.home, *self.config.home.parents) if place.exists())
        cannot_write = home != self.config.home or not os.access(home, os.W_OK)
        return cannot_write and home.is_dir() and os.access(home, os.R_OK | os.X_OK)

    def _make_home(self) -> None:
        home, refused = self.config.home, ""
        try:
            SYSTEM_DISK.make_folder(home / "plugins")
        except ClawError as why:
            refused = why.problem
        if not refused and not os.access(home, os.W_OK | os.X_OK):
            refused = t("it is not writable for you")
        if refused:
            fix = "make it readable and writable for you, or set CLAW_HOME to another folder"
            raise ClawError("claw's home folder cannot be used: {why}", where=str(home), fix=fix, why=refused)

    def _ordered(self, registry: Registry) -> Registry:
        """Sort the tools, those of core first, and add their policy facts in the same order."""
        suppliers = self.config.settings.tools.suppliers
        ours = {state.id for state in self.host.plugin_states if state.found.is_first_party}
        pairs = []
        for tool, refused in zip(registry.tools, registry.refusals(self.log), strict=True):
            fact = tool_fact(tool, tool.plugin, suppliers, first_party=tool.plugin in ours)
            pairs.append((tool, replace(fact, refused_by=refused)))
        pairs.sort(key=lambda pair: pair[1].plugin is not None)
        tools, facts = tuple(tool for tool, _ in pairs), tuple(fact for _, fact in pairs)
        return replace(registry, tools=tools, facts=facts)


_FOLDERS = frozenset({"PWD", "OLDPWD"})  # working folders of a shell, not passwords


def _secrets(config: Config) -> Iterator[str]:
    """Yield every secret of the config file, and of the environment the values with a secret's name."""
    waiting: list[Any] = [config.settings, *config.owned.values()]
    while waiting:
        value = waiting.pop()
        if isinstance(value, Secret):
            with contextlib.suppress(ClawError):
                yield value.reveal()
        elif isinstance(value, BaseModel):
            waiting += [getattr(value, name) for name in type(value).model_fields]
            waiting.append(value.model_extra or {})
        elif isinstance(value, Mapping):  # typed by a plugin alone: secrets by name
            waiting += [
                _hidden(config, item) if is_secret_name(name) else item for name, item in value.items()
            ]
        elif isinstance(value, list | tuple):
            waiting += value
    for name, value in config.environ.items():
        if is_secret_name(name) and name not in _FOLDERS:
            yield value


def _hidden(config: Config, item: Any) -> Any:
    """Return a value under a secret's name as a ``Secret`` when it has one of the forms of a secret."""
    if isinstance(item, list | tuple):
        return [_hidden(config, each) for each in item]
    refers = isinstance(item, Mapping) and set(item) in ({"env"}, {"file"})
    written = refers and all(isinstance(text, str) for text in item.values())
    if written or (isinstance(item, str) and item):
        return Secret(item, environ=config.environ, home=config.home)
    return item
