"""The plugin manager: it finds (metadata only), loads, asks and quarantines plugins. The only caller of pluggy.

Plugin code runs in isolation: whatever it raises, also ``SystemExit``, and however long it takes, the plugin is
quarantined and the others go on. With ``plugins.entries.ID.required: true`` the start stops instead.
"""

import asyncio
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import Any, TypeVar

import msgspec
import pluggy

from claw import __version__, i18n
from claw.config.plugin_view import PluginConfig
from claw.contracts.diagnostics import INCOMPATIBLE, LOADED, QUARANTINED
from claw.contracts.errors import ClawError, ConfigError, PluginError, UsageError, nearest
from claw.contracts.extensions import position_of
from claw.contracts.prompt import PromptSection
from claw.contracts.tool import Tool, ToolContext
from claw.host import hookspecs, isolation, registry
from claw.host.health import NOTED, LoadFailure, PluginHealth, files_digest
from claw.host.isolation import describe_exception, failure_of, run_bounded, show_traceback
from claw.host.manifest import InstalledPlugin, ToolDeclaration, key_variables
from claw.host.registry import BUILTIN, HOOKS, SLOTS, Contribution, HookRules, Registry
from claw.host.state import PluginState, failure_fix, require_plugins, with_needs
from claw.i18n import t
from claw.policy.decision import SKIPPED, SKIPPED_FIX, NameConflict

T = TypeVar("T")

_SKIPPED = "{name} of plugin {second} is skipped: plugin {first} already provides that name"
_CHOICE = "{slot}: plugin {first} is used; {others} would fit too. To choose: claw config set plugins.slots.{slot} NAME"
_DISABLE = "claw config set plugins.entries.{id}.enabled false"
_INSTALL_OR_REMOVE = "Install and enable the plugin, or remove the key"


class Host:
    """The plugins of one process.

    :param plugin_states: of every installed plugin.
    :param view: plugin id → the config as that plugin may see it.
    :param health: the record of plugins that failed to load.
    :param plugins: plugin objects that are handed in by a test, by id.
    :param log: given each problem after the start; until then they are collected in ``diagnostics``.
    """

    def __init__(
        self,
        plugin_states: Sequence[PluginState],
        view: Callable[[str], PluginConfig],
        health: PluginHealth,
        plugins: Mapping[str, Any] | None = None,
        log: Callable[[str], None] = lambda line: None,
        rules: HookRules = HookRules(),  # noqa: B008 - frozen
    ) -> None:
        self._slots, self._hooks, self._timeouts = rules.slots, rules.hooks, rules.timeouts
        self._ranks: dict[tuple[str, str], int] = {}  # (plugin, hook) → -1 with tryfirst, 1 with trylast
        self._states = {state.id: state for state in plugin_states if not state.found.rival}
        self._unused = [state for state in plugin_states if state.found.rival]
        self._view = view
        self._manager = pluggy.PluginManager("claw")
        self._manager.add_hookspecs(hookspecs)
        self._answers: dict[str, dict[str, list[Any]]] = {}  # plugin → hook → what it answered
        self.specified: dict[str, str] = {}  # hook that a plugin specifies → that plugin
        self._views: dict[str, PluginConfig] = {}  # one for each plugin, whichever hook it is asked
        self._given_plugins = dict(plugins or {})
        self._lock = threading.RLock()
        self._health, self._log = health, log
        self._is_built = False
        self._functions: dict[str, int] = {}  # as the plugin before left them, during a start
        self._skipped: list[tuple[str, str, dict[str, str]]] = []  # template, fix, and the values of both
        self.diagnostics: list[str] = []
        self.notes: dict[str, list[ClawError]] = {}  # plugin → its parts that cannot be used
        self.refused: dict[str, ConfigError] = {}  # plugin → the settings that it refused in this process

    @property
    def plugin_states(self) -> tuple[PluginState, ...]:
        """The state of every plugin, in order of id."""
        return tuple(sorted(self._states.values(), key=lambda state: state.id))

    def answers_to(self, hook: str) -> tuple[Contribution[Any], ...]:
        """Return what loaded plugins answered to a hook, in the order in which they were loaded."""
        return tuple(Contribution(plugin, thing) for plugin, of, thing in self._things() if of == hook)

    def gather(self) -> Registry:
        """Load what the configuration uses, call the hooks, and freeze the contributions.
        :raises PluginError: a required plugin is missing or was disabled (exit 4).
        """
        self._ask(BUILTIN, lambda: import_module("claw.terminal"))
        for plugin in self._given_plugins:
            self._states.setdefault(plugin, PluginState(self._found(plugin), LOADED, eager=True))
            self._ask(plugin, partial(self._given_plugins.get, plugin))
        self._health.count_crashes({id: state.found for id, state in self._states.items()})
        self._functions = isolation.function_ids()
        for state in self.plugin_states:
            wanted = state.to_load
            if wanted.state == LOADED and (wanted.eager or wanted.required or wanted is not state):
                self._load(state.id)
            elif wanted.state in (QUARANTINED, INCOMPATIBLE) and not state.required:
                self._note(state.fault_line())
        for state in self._unused:
            self._note(state.fault_line())
        for state, failed in zip(self.plugin_states, with_needs(self.plugin_states), strict=True):
            if failed is not state:
                why = ClawError("{why}", fix="{advice}", why=failed.why, advice=failed.fix)
                self._drop(state.id, "find", why)
        for plugin in tuple(self._answers):
            self._ask_others_hooks(plugin)
        require_plugins(self.plugin_states)
        built, self._is_built, self._functions = self._build_registry(), True, {}
        return built

    def closables(self) -> tuple[Contribution[Any], ...]:
        """Everything here that may have a ``close``: contributions of plugins, and the plugins themselves."""
        things = [Contribution(plugin, thing) for plugin, hook, thing in self._things() if hook in HOOKS]
        modules = [Contribution(name, module) for name, module in self._manager.list_name_plugin() if module]
        return (*things, *modules)

    def ask(self, plugin: str) -> Mapping[str, Sequence[Any]] | None:
        """Load one plugin, whatever its state; hook → what it answered, or None when it was quarantined."""
        return self._answers[plugin] if self._load(plugin) else None

    def _load(self, plugin: str) -> bool:
        with self._lock:
            if plugin in self._answers:
                return True
            self._states[plugin] = self._states[plugin].to_load
            before = self._functions or isolation.function_ids()
            with self._health.guard(plugin):
                asked = self._ask(plugin, lambda: self._imported(plugin))
                loaded = asked and (not self._is_built or self._ask_others_hooks(plugin))
            after = isolation.function_ids()
            for name in isolation.replaced_functions(before, after):
                self._note(t("plugin {id} replaced claw's function {name}", id=plugin, name=name))
            self._functions = self._functions and after
            if loaded and len(self._hooks) == len(HOOKS):  # else a hook that failed was not asked
                self._record_load(plugin)
            return loaded

    def _record_load(self, plugin: str) -> None:
        """Record that a plugin was loaded, with all of its parts that cannot be used."""
        of, notes = self._states[plugin].found, self.notes.get(plugin, ())
        digest = "" if of.is_first_party and not notes else files_digest(of)
        rows = [replace(failure_of(plugin, "register", one, NOTED), digest=digest) for one in notes]
        self._health.record(*rows) if rows else self._health.clear(plugin, digest=digest)

    def record_skips(self, conflicts: Iterable[NameConflict]) -> None:
        """Record for every list of plugins what is skipped for its name, in place of what was recorded before.

        :param conflicts: of tools. One that the operator gave to another plugin is as wanted.
        """
        taken = [one.names for one in conflicts if one.kind not in ("twice", "handed")]
        lost = [*((SKIPPED, SKIPPED_FIX, names) for names in taken), *self._skipped]
        config = self._health.config_digest() if lost else ""
        skips: dict[tuple[str, str, str], LoadFailure] = {}
        for cause, fix, names in lost:
            if (id := names["id"]) in self._states and id not in self._given_plugins:
                digest = files_digest(self._found(id))
                skip = LoadFailure(id, NOTED, "run", cause, fix, digest, values=names, config=config)
                skips[id, cause, names["name"]] = skip
        before = [part for part in self._health.failed_parts() if part[1] in (SKIPPED, _SKIPPED)]
        for part in {*before, *skips}:
            self._health.replace_part(part[0], part[1:], *filter(None, [skips.get(part)]))

    def _imported(self, plugin: str) -> Any:
        package = self._states[plugin].found.package
        module = self._bounded(plugin, lambda: import_module(package), self._timeouts.import_seconds)
        if not isinstance(module, ModuleType):
            raise TypeError(f"it puts {type(module).__name__} in the place of its package")
        i18n.add_translations(package)
        return module

    def _bounded(self, plugin: str, run: Callable[[], T], seconds: float) -> T:
        raised: list[BaseException] = []
        undone: list[str] = []
        try:
            return run_bounded(run, seconds, raised.append, undone.append)
        finally:
            for what in dict.fromkeys(undone):
                self._note(t("plugin {id} changed {what}; claw has undone it", id=plugin, what=what))
            for why in raised:
                self._note(t("a thread of plugin {id} failed: {why}", id=plugin, why=describe_exception(why)))

    def _ask(self, plugin: str, fetch: Callable[[], Any]) -> bool:
        """Import one plugin and ask it every hook; False when it was quarantined."""
        stage = "import"
        try:
            module = fetch()
            stage = "register"
            self._manager.register(module, name=plugin)
            kinds, is_module = self._found(plugin).declares.kinds, isinstance(module, ModuleType)
            notes = registry.hook_problems(module, self.specified, kinds) if is_module else []
            specified = dict.fromkeys(registry.specified_by(module, self.specified), plugin)
            view = self._views[plugin] = self._view(plugin)
            view.contributions = partial(self._answers_for, plugin)
            by_hook: dict[str, list[Any]] = {}
            for hook in self._hooks:
                if (answers := self._asked(plugin, hook, view)) is not None:
                    by_hook[hook] = answers
                    check = partial(registry.check_answers, hook, answers)
                    self._bounded(plugin, check, self._timeouts.hook_seconds)
            notes += view.faults
            registry.check_manifest(self._found(plugin).manifest, by_hook)
        except BaseException as why:  # noqa: BLE001 - plugin code
            self._drop(plugin, stage, why)
            return False
        self._answers[plugin] = by_hook
        self.specified |= specified
        is_listed = "register_tools" in self._hooks and self._manifest_names_tools(plugin)
        lines = self._found(plugin).declares.tools if is_listed else None
        notes += registry.tool_problems(by_hook.get("register_tools", ()), lines)
        self.notes[plugin] = notes
        for note in self.notes[plugin]:
            self._note(t("plugin {id}: {problem}", id=plugin, problem=note))
        return True

    def _asked(self, plugin: str, hook: str, view: PluginConfig) -> list[Any] | None:
        """Return what one plugin answers to one hook, asked in isolation; None when it has no such hook."""
        specified = getattr(self._manager.hook, hook, None)
        impls = specified.get_hookimpls() if specified else ()
        marks = next((one for one in impls if one.plugin_name == plugin), None)
        if marks is None:
            return None
        self._ranks[plugin, hook] = -1 if marks.tryfirst else 1 if marks.trylast else 0
        others = [one for name, one in self._manager.list_name_plugin() if name != plugin]
        caller = self._manager.subset_hook_caller(hook, remove_plugins=others)
        return self._bounded(plugin, partial(registry.answers_of, caller, view), self._timeouts.hook_seconds)

    def _ask_others_hooks(self, plugin: str) -> bool:
        """Ask one loaded plugin the hooks that plugins specify; False when it was quarantined."""
        try:
            for hook in self.specified:
                if (answers := self._asked(plugin, hook, self._views[plugin])) is not None:
                    self._answers[plugin][hook] = answers
        except BaseException as why:  # noqa: BLE001 - plugin code
            self._drop(plugin, "register", why)
            return False
        return True

    def _answers_for(self, plugin: str, hook: str) -> tuple[tuple[str, Any], ...]:
        """Return the answers to a hook that ``plugin`` specifies, by plugin, in load order."""
        if self.specified.get(hook) != plugin:
            raise UsageError("plugin {id} does not define a hook {hook}", id=plugin, hook=hook)
        return tuple((one.plugin, one.value) for one in self.answers_to(hook))

    def _drop(self, plugin: str, stage: str, why: BaseException) -> None:
        """Quarantine a plugin that failed while it was asked, and forget what it answered."""
        self._answers.pop(plugin, None)
        self.specified = {hook: of for hook, of in self.specified.items() if of != plugin}
        if self._manager.has_plugin(plugin):
            self._manager.unregister(name=plugin)
        self._set_aside(plugin, "config" if isinstance(why, ConfigError) else stage, why)

    def quarantine(self, plugin: str, stage: str, why: str, fix: str = "") -> None:
        """Quarantine a plugin that failed while it ran; the texts are no templates."""
        self._set_aside(plugin, stage, ClawError("{why}", fix=fix and "{advice}", why=why, advice=fix))

    def _set_aside(self, plugin: str, stage: str, why: BaseException) -> None:
        known, found, failure = self._states.get(plugin), self._found(plugin), failure_of(plugin, stage, why)
        show_traceback(why)
        self.refused |= {plugin: why} if isinstance(why, ConfigError) else {}
        fix, required = failure.advice or failure_fix(found, failure), bool(known and known.required)
        state = PluginState(found, QUARANTINED, failure.why, stage, fix, required=required)
        self._states[plugin] = state
        if plugin not in self._given_plugins and plugin != BUILTIN and stage != "find":
            self._health.record(replace(failure, digest=files_digest(found)))
        self._note(state.fault_line())

    def _found(self, plugin: str) -> InstalledPlugin:
        """Return the installed plugin, or one that stands for core or for an object that was handed in."""
        known = self._states.get(plugin)
        return known.found if known else InstalledPlugin(plugin, plugin, plugin, __version__)

    def _note(self, line: str) -> None:
        self.diagnostics.append(line)
        if self._is_built:
            self._log(line)

    def _build_registry(self) -> Registry:
        sections: list[PromptSection] = []
        tools: list[Tool] = []
        for plugin, hook, thing in self._things():
            if hook == "register_prompt_sections":
                sections.append(replace(thing, plugin=plugin))
            elif hook == "register_tools" and not self._manifest_names_tools(plugin):
                tools.append(replace(thing, plugin=plugin))
        for state in self.plugin_states:
            if state.is_usable:
                tools += [self._lazy(state.id, line) for line in state.found.declares.tools]
        return Registry(
            channels=self.by_name(
                "register_channels", lambda one: registry.channel_key(one.name, registry.account_of(one))
            ),
            providers=self.by_name("register_providers"),
            tools=tuple(tools),
            sections=tuple(sections),
            sandboxes={name: one.value for name, one in self.by_name("register_sandboxes").items()},
            reviewers=self.ordered("register_reviewers"),
            filters=self.ordered("register_filters"),
            observers=self.ordered("register_observers"),
            middleware=self.ordered("register_provider_middleware"),
            selector=self.chosen("models"),
            engine=self.chosen("context"),
            approver=self.chosen("approvals"),
            turn_log=self.chosen("turnLog"),
            store=self.chosen("sessions"),
            key_variables=key_variables(state.found for state in self.plugin_states),
            diagnostics=tuple(self.diagnostics),
        )

    def _things(self) -> Iterator[tuple[str, str, Any]]:
        for plugin, by_hook in self._answers.items():
            for hook, things in by_hook.items():
                yield from ((plugin, hook, thing) for thing in things)

    def ordered(self, hook: str) -> tuple[Contribution[Any], ...]:
        """Return what loaded plugins answered to a hook, in their order: mark, position, plugin id."""

        def place(one: Contribution[Any]) -> tuple[int, float, str]:
            return self._ranks.get((one.plugin, hook), 0), position_of(one.value), one.plugin

        return tuple(sorted(self.answers_to(hook), key=place))

    def by_name(
        self, hook: str, name_of_thing: Callable[[Any], str] = lambda one: str(one.name)
    ) -> dict[str, Contribution[Any]]:
        """Return what loaded plugins answered to a hook, by name and in order. Of one name core's own is kept, else the
        first; the others are reported."""
        found = [(name_of_thing(one.value), one) for one in self.ordered(hook)]
        kept: dict[str, Contribution[Any]] = {}
        for name, one in sorted(found, key=lambda pair: pair[1].plugin != registry.BUILTIN):
            first = kept.setdefault(name, one)
            if first is not one:
                names = {"name": name, "second": one.plugin, "first": first.plugin}
                self._skipped.append((_SKIPPED, _DISABLE, {**names, "id": one.plugin}))
                self._note(t(_SKIPPED, **names))
        return {name: one for name, one in found if kept[name] is one}

    def on_demand(self, hook: str, *, at_start: bool = False) -> tuple[Contribution[Any], ...]:
        """Load every usable plugin that answers a hook of :data:`registry.HOOKS` on demand; return the answers in order.

        :param at_start: ask only those whose manifest says that they check the config file at every start.
        """
        wanted = [one for one in self.plugin_states if one.found.declares.config_checks or not at_start]
        for state in wanted:
            has_kind = not state.found.manifest or HOOKS[hook].kind in state.found.declares.kinds
            if state.to_load.is_usable and has_kind:
                self._load(state.id)
        ids = {one.id for one in wanted}
        return tuple(one for one in self.ordered(hook) if one.plugin in ids or not at_start)

    def chosen(self, slot: str) -> Contribution[Any] | None:
        """Return the answer of a slot in force: the one that the file names, else that of a standard plugin, else the
        first in order.

        :raises ConfigError: the file names one that no loaded plugin provides.
        """
        answers, wanted = self.ordered(SLOTS[slot]), self._slots.get(slot, "")
        if named := [one for one in answers if wanted in (one.plugin, one.value.name)]:
            return named[0]
        if wanted:
            known = list(dict.fromkeys(name for one in answers for name in (one.value.name, one.plugin)))
            near, key = nearest(wanted, known), f"plugins.slots.{slot}"
            choose, remove = "Install and enable the plugin, or choose one of: {known}", _INSTALL_OR_REMOVE
            fix = "Did you mean {near}?" if near else choose if known else remove
            problem = "no active plugin provides {name} for this slot"
            raise ConfigError(key, problem, fix, name=wanted, near=near, known=[*known])
        own = {state.id for state in self.plugin_states if state.found.is_standard}
        used = min(answers, key=lambda one: one.plugin not in own, default=None)
        if used and len(answers) > 1 and not self._is_built:
            others = [one.plugin for one in answers if one is not used]
            self._note(t(_CHOICE, slot=slot, first=used.plugin, others=others))
        return used

    def _manifest_names_tools(self, plugin: str) -> bool:
        """Return true if it may offer only the tools of its manifest: it names some, or says that it has none. One of the
        kind tool that names none offers the tools of its settings."""
        manifest = self._found(plugin).manifest
        return manifest is not None and (bool(manifest.tools) or "tool" not in manifest.kinds)

    def _lazy(self, plugin: str, line: ToolDeclaration, lacks: str = "") -> Tool:
        """Return a tool known from the manifest, or its form without the tool ``lacks``; its code is imported at its
        first call."""

        async def run(arguments: dict[str, Any], context: ToolContext) -> Any:
            supply = partial(self.supply, plugin, line.name)  # it may have to import the plugin
            real = supply() if plugin in self._answers else await asyncio.to_thread(supply)
            return await real.without.get(lacks, real).run(arguments, context)

        forms = {name: self._lazy(plugin, form, name) for name, form in line.without.items()}
        return Tool(run=run, plugin=plugin, **msgspec.structs.asdict(line) | {"without": forms})

    def supply(self, plugin: str, name: str) -> Tool:
        """The real tool behind a declared one.

        :raises PluginError: the plugin could not be loaded, or does not provide what its manifest says.
        """
        if not self._load(plugin):
            raise PluginError(plugin, *self._states[plugin].fault_parts())
        tools: Iterable[Tool] = self._answers[plugin].get("register_tools", ())
        if found := next((tool for tool in tools if tool.name == name), None):
            return found
        problem = "its manifest lists the tool {tool}, which its code does not provide"
        raise PluginError(plugin, "run", problem, "its author must rebuild the manifest", tool=name)
