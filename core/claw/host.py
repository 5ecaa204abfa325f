"""The host: find (metadata only), load, ask, set aside. The only caller of pluggy.

A stranger's code runs here inside a wall: whatever it raises, also ``SystemExit``, and however long it takes, the
plugin is set aside with stage, cause and mend, and the others go on. ``plugins.entries.ID.required: true`` turns it
round: then the start stops.
"""

import inspect
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import msgspec
import pluggy

from claw import hookspecs, seal, words
from claw.bounds import WANTED, check
from claw.channel import Unready
from claw.config.view import PluginConfig
from claw.deaths import DEATHS, Deaths
from claw.errors import ClawError, ConfigError, PluginError, UsageError
from claw.kit import BUILTIN, Brought, Kit, account_of, channel_key
from claw.manifest import Found, ToolLine
from claw.prompt import PromptSection
from claw.provider import Unusable
from claw.standing import IDLE, INCOMPATIBLE, LOADED, QUARANTINED, Standing, refuse_missing
from claw.tool import Tool, ToolContext
from claw.wall import USUAL, Leeway, bounded, name_of
from claw.words import say

T = TypeVar("T")

MARK = "claw_spec"
"""The attribute that ``@hookspec`` leaves on a function: the project's name and ``_spec`` (pluggy, "HookspecMarker")."""


class Host:
    """The plugins of one process.

    :param standings: what ``standing.judge`` made of what is installed.
    :param view: plugin id → the config as that plugin may see it.
    :param deaths: folder of the notes by which a plugin is found that ends the process while it loads.
    :param guests: plugin objects that are not installed but handed in (``claw.testing``), by id.
    :param complain: told what goes wrong once the house stands; until then it gathers in ``diagnostics``.
    """

    def __init__(
        self,
        standings: Sequence[Standing],
        view: Callable[[str], PluginConfig],
        deaths: Path,
        guests: Mapping[str, Any] | None = None,
        complain: Callable[[str], None] = lambda line: None,
        leeway: Leeway = USUAL,
    ) -> None:
        self._standings = {standing.id: standing for standing in standings}
        self._view = view
        self._manager = pluggy.PluginManager("claw")
        self._manager.add_hookspecs(hookspecs)
        self._brought: dict[str, dict[str, list[Any]]] = {}  # plugin → hook → what it answered
        self._specified: dict[str, str] = {}  # hook that a plugin specifies → that plugin
        self._answered: dict[str, dict[str, list[Any]]] = {}  # the same, of hooks that plugins specify
        self._views: dict[str, PluginConfig] = {}  # one for each plugin, whichever hook it is asked
        self._guests = dict(guests or {})
        self._lock = threading.RLock()
        self._deaths = Deaths(deaths)
        self._complain, self._leeway = complain, leeway
        self._stands = False
        self.diagnostics: list[str] = []

    @property
    def standings(self) -> tuple[Standing, ...]:
        """How every plugin stands now, in order of id."""
        return tuple(sorted(self._standings.values(), key=lambda standing: standing.id))

    @property
    def specifying(self) -> frozenset[str]:
        """The plugins that ask others a hook of their own: what they hold of others' answers is of this host."""
        return frozenset(self._specified.values())

    def gather(self) -> Kit:
        """Load what the configuration uses, ask it all, and freeze what it brought.

        :raises PluginError: a required plugin is not there or was set aside (exit 4).
        """
        self._ask(BUILTIN, lambda: import_module("claw.builtin"))
        for plugin in self._guests:
            self._standings.setdefault(plugin, Standing(_found(plugin), LOADED, eager=True))
            self._ask(plugin, partial(self._guests.get, plugin))
        for plugin, count in self._deaths.culprits().items():
            if count >= DEATHS and plugin in self._standings:
                self._standings[plugin] = self._deadly(self._standings[plugin], count)
        for standing in self.standings:
            if standing.state in (QUARANTINED, INCOMPATIBLE) and not standing.required:
                self._tell(standing)
            elif standing.state == LOADED and (standing.eager or standing.required):
                self._load(standing.id)
        for plugin in tuple(self._brought):
            self._ask_others_hooks(plugin)
        refuse_missing(self.standings)
        kit, self._stands = self._kit(), True
        return kit

    def _deadly(self, standing: Standing, count: int) -> Standing:
        why = say("claw died {count:time|times} while it was loaded", count=count)
        mend = say(
            "update or uninstall {distribution}; it is tried again a day later, or after: claw plugins enable {id}",
            distribution=standing.found.distribution,
            id=standing.id,
        )
        return replace(standing, state=QUARANTINED, why=why, stage="import", mend=mend, eager=False)

    def closables(self) -> tuple[Brought[Any], ...]:
        """Everything here that may have a ``close``: what the plugins brought, and the plugins themselves."""
        things = [Brought(plugin, thing) for plugin, _, thing in self._things()]
        modules = [Brought(name, module) for name, module in self._manager.list_name_plugin() if module]
        return (*things, *modules)

    def command(self, name: str, app: Any) -> bool:
        """Let the plugin that brings the command ``name`` add it to the typer application ``app``."""
        for standing in self.standings:
            manifest = standing.found.manifest
            if manifest and name in manifest.commands and standing.state in (LOADED, IDLE):
                try:
                    with self._deaths.starting(standing.id):
                        module = self._imported(standing.id)
                except BaseException as why:  # noqa: BLE001 - a stranger's code
                    self._set_aside(standing.id, "import", why)
                    raise PluginError(standing.id, *self._standings[standing.id].fault_parts()) from None
                register = getattr(module, "register_commands", None)
                if register is not None:
                    register(app)
                    return True
        return False

    def ask(self, plugin: str) -> Mapping[str, Sequence[Any]] | None:
        """Load one plugin, whatever its state; hook → what it answered, or None when it was set aside."""
        return self._brought[plugin] if self._load(plugin) else None

    def _load(self, plugin: str) -> bool:
        with self._lock:
            if plugin in self._brought:
                return True
            with self._deaths.starting(plugin):
                asked = self._ask(plugin, lambda: self._imported(plugin))
                return asked and (not self._stands or self._ask_others_hooks(plugin))

    def _imported(self, plugin: str) -> Any:
        package = self._standings[plugin].found.package
        before = seal.marks()
        module = self._bounded(plugin, lambda: import_module(package), self._leeway.import_seconds)
        if not isinstance(module, ModuleType):
            raise TypeError(f"it puts {type(module).__name__} in the place of its package")
        for name in seal.broken(before, seal.marks()):
            self._note(
                say(
                    "plugin {id} has put another function in the place of claw's own {name}",
                    id=plugin,
                    name=name,
                )
            )
        words.learn(package)
        return module

    def _bounded(self, plugin: str, run: Callable[[], T], seconds: float) -> T:
        raised: list[BaseException] = []
        try:
            return bounded(run, seconds, threads=raised.append)
        finally:
            for why in raised:
                self._note(say("a thread of plugin {id} failed: {why}", id=plugin, why=name_of(why)))

    def _ask(self, plugin: str, fetch: Callable[[], Any]) -> bool:
        """Import one plugin and ask it every hook; False when it was set aside."""
        stage = "import"
        try:
            module = fetch()
            stage = "register"
            self._manager.register(module, name=plugin)
            specified = dict.fromkeys(_specified_by(module, self._specified), plugin)
            view = self._views[plugin] = self._view(plugin).asking(partial(self._answers_for, plugin))
            brought: dict[str, list[Any]] = {}
            for hook in WANTED:
                if (answers := self._asked(plugin, hook, view)) is not None:
                    brought[hook] = answers
                    check(hook, answers)
            for (name, account), wrong in view.unready.items():
                brought.setdefault("register_channels", []).append(Unready(name, account, wrong))
            for name, wrong in view.unusable.items():
                brought.setdefault("register_providers", []).append(Unusable(name, wrong))
                self._note(say("provider {name} cannot be used: {why}", name=name, why=wrong))
        except BaseException as why:  # noqa: BLE001 - a stranger's code
            self._drop(plugin, stage, why)
            return False
        self._brought[plugin] = brought
        self._specified |= specified
        for name in self._undeclared(plugin):
            told = say(
                "plugin {id} brings the tool {tool}, which its manifest does not name", id=plugin, tool=name
            )
            mend = say("its author must write the manifest anew")
            self._note(say("{problem}. {fix}", problem=told, fix=mend))
        return True

    def _asked(self, plugin: str, hook: str, view: PluginConfig) -> list[Any] | None:
        """What one plugin answers to one hook, asked inside the wall; None when it has no such hook."""
        if not hasattr(self._manager.hook, hook):
            return None
        others = [p for p in self._manager.get_plugins() if self._manager.get_name(p) != plugin]
        caller = self._manager.subset_hook_caller(hook, remove_plugins=others)
        if not caller.get_hookimpls():
            return None
        return self._bounded(plugin, partial(_answers, caller, view), self._leeway.hook_seconds)

    def _ask_others_hooks(self, plugin: str) -> bool:
        """Ask one loaded plugin the hooks that plugins specify; False when it was set aside."""
        view = self._views[plugin]
        answered: dict[str, list[Any]] = {}
        try:
            for hook in self._specified:
                if (answers := self._asked(plugin, hook, view)) is not None:
                    answered[hook] = answers
        except BaseException as why:  # noqa: BLE001 - a stranger's code
            self._brought.pop(plugin, None)
            self._specified = {hook: of for hook, of in self._specified.items() if of != plugin}
            self._drop(plugin, "register", why)
            return False
        self._answered[plugin] = answered
        return True

    def _answers_for(self, plugin: str, hook: str) -> tuple[tuple[str, Any], ...]:
        """What was answered to a hook that ``plugin`` specifies, by plugin, in load order."""
        if self._specified.get(hook) != plugin:
            raise UsageError("plugin {id} specifies no hook {hook}", id=plugin, hook=hook)
        return tuple((of, thing) for of, all_ in self._answered.items() for thing in all_.get(hook, ()))

    def _drop(self, plugin: str, stage: str, why: BaseException) -> None:
        """Take a plugin out again that failed while it was asked."""
        if self._manager.has_plugin(plugin):
            self._manager.unregister(name=plugin)
        self._set_aside(plugin, "config" if isinstance(why, ConfigError) else stage, why)

    def quarantine(self, plugin: str, stage: str, why: str, fix: str = "") -> None:
        """Set a plugin aside that failed while it ran; what it brought is not asked again by whoever asks here."""
        self._set_aside(
            plugin, stage, ClawError("{why}", fix=fix.replace("{", "{{").replace("}", "}}"), why=why)
        )

    def _set_aside(self, plugin: str, stage: str, why: BaseException) -> None:
        found = self._standings[plugin].found if plugin in self._standings else _found(plugin)
        mend = (isinstance(why, ClawError) and why.fix) or say(
            "update or uninstall {distribution}, or do without it: claw config set plugins.entries.{id}.enabled false",
            distribution=found.distribution,
            id=plugin,
        )
        cause = (
            ": ".join(filter(None, (why.where, why.problem))) if isinstance(why, ClawError) else name_of(why)
        )
        required = plugin in self._standings and self._standings[plugin].required
        self._standings[plugin] = Standing(found, QUARANTINED, cause, stage, mend, required=required)
        self._tell(self._standings[plugin])

    def _tell(self, standing: Standing) -> None:
        stage, why = standing.stage or "find", standing.why
        told = say("plugin {id} was set aside at {stage}: {why}", id=standing.id, stage=stage, why=why)
        mend = standing.mend
        self._note(say("{problem}. {fix}", problem=told, fix=mend) if mend else told)

    def _note(self, line: str) -> None:
        self.diagnostics.append(line)
        if self._stands:
            self._complain(line)

    def _kit(self) -> Kit:
        sections: list[PromptSection] = []
        tools: list[Tool] = []
        for plugin, hook, thing in self._things():
            if hook == "register_prompt_sections":
                sections.append(replace(thing, plugin=plugin))
            elif hook == "register_tools" and not self._manifest_names_tools(plugin):
                tools.append(replace(thing, plugin=plugin))
        for standing in self.standings:
            if standing.state in (LOADED, IDLE) and standing.found.manifest:
                tools += [self._lazy(standing.id, line) for line in standing.found.manifest.tools]
        return Kit(
            channels=self._by_name("register_channels", lambda one: channel_key(one.name, account_of(one))),
            providers=self._by_name("register_providers"),
            tools=tuple(tools),
            sections=tuple(sections),
            sandboxes={name: brought.thing for name, brought in self._by_name("register_sandboxes").items()},
            reviewers=self._all("register_reviewers"),
            filters=self._all("register_filters"),
            observers=self._all("register_observers"),
            diagnostics=tuple(self.diagnostics),
        )

    def _things(self) -> Iterator[tuple[str, str, Any]]:
        for plugin, brought in self._brought.items():
            for hook, things in brought.items():
                for thing in things:
                    yield plugin, hook, thing

    def _all(self, wanted: str) -> tuple[Brought[Any], ...]:
        return tuple(Brought(plugin, thing) for plugin, hook, thing in self._things() if hook == wanted)

    def _by_name(
        self, wanted: str, name_of_thing: Callable[[Any], str] = lambda one: str(one.name)
    ) -> dict[str, Brought[Any]]:
        named: dict[str, Brought[Any]] = {}
        for brought in self._all(wanted):
            name = name_of_thing(brought.thing)
            first = named.setdefault(name, brought)
            if first is not brought:
                names = {"name": name, "second": brought.plugin, "first": first.plugin}
                told = "{name} of plugin {second} is skipped: plugin {first} brought that name before"
                self._note(say(told, **names))
        return named

    def _manifest_names_tools(self, plugin: str) -> bool:
        """Whether the tools of its manifest are all it may offer: it names some, or says that it has none. One of the
        kind tool that names none brings what its settings say."""
        manifest = self._standings[plugin].found.manifest if plugin in self._standings else None
        return manifest is not None and (bool(manifest.tools) or "tool" not in manifest.kinds)

    def _undeclared(self, plugin: str) -> list[str]:
        if not self._manifest_names_tools(plugin):
            return []
        manifest = self._standings[plugin].found.manifest
        named = {line.name for line in manifest.tools} if manifest else set()
        return [
            tool.name for tool in self._brought[plugin].get("register_tools", ()) if tool.name not in named
        ]

    def _lazy(self, plugin: str, line: ToolLine) -> Tool:
        """A tool known from the manifest; its code is imported at its first call."""

        async def run(arguments: dict[str, Any], context: ToolContext) -> Any:
            import asyncio

            here = plugin in self._brought  # else it is imported now, which may take its time
            real = (
                self.supply(plugin, line.name)
                if here
                else await asyncio.to_thread(self.supply, plugin, line.name)
            )
            return await real.run(arguments, context)

        return Tool(run=run, plugin=plugin, **msgspec.structs.asdict(line))

    def supply(self, plugin: str, name: str) -> Tool:
        """The real tool behind a declared one.

        :raises PluginError: the plugin could not be loaded, or does not bring what its manifest says.
        """
        if not self._load(plugin):
            raise PluginError(plugin, *self._standings[plugin].fault_parts())
        for tool in self._brought[plugin].get("register_tools", ()):
            if tool.name == name:
                return tool  # type: ignore[no-any-return]
        raise PluginError(
            plugin, "run", "its manifest names the tool {tool}, its code does not bring it",
            "its author must write the manifest anew", tool=name,
        )  # fmt: skip


def _answers(caller: Any, view: PluginConfig) -> list[Any]:
    """What one plugin answers to one hook, joined; a generator is run here, inside the wall."""
    things: list[Any] = []
    for answer in caller(config=view):
        if inspect.iscoroutine(answer):
            answer.close()
            raise TypeError(
                "its hook is a coroutine function: hooks are asked once, at start, and answer at once"
            )
        things += answer or ()
    return things


def _specified_by(module: Any, taken: Mapping[str, str]) -> list[str]:
    """The hooks that a plugin specifies: the functions marked ``@hookspec`` of its ``hookspecs`` (a module or object).

    :raises TypeError: one of them asks for more than ``config``, so nobody could answer it.
    :raises ValueError: its name is taken.
    """
    specs = getattr(module, "hookspecs", None)
    marked = [name for name in dir(specs) if hasattr(getattr(specs, name, None), MARK)] if specs else []
    for name in marked:
        if name in taken or hasattr(hookspecs, name):
            raise ValueError(f"its hook {name} has the name of one that is there: take another")
        if list(inspect.signature(getattr(specs, name)).parameters) != ["config"]:
            raise TypeError(f"its hook {name} must take config and nothing else")
    return marked


def _found(plugin: str) -> Found:
    return Found(plugin, plugin, plugin, sys.modules["claw"].__version__)
