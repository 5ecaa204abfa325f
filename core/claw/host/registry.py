"""The registry: the contributions of all plugins, frozen, each with the id of its plugin."""

import dis
import inspect
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from types import ModuleType, SimpleNamespace
from typing import Any, Generic, TypeVar, get_args

import msgspec

from claw.config.plugin_view import PluginConfig
from claw.config.summary import read_table
from claw.contracts import extensions
from claw.contracts.channel import Channel, ConversationChange
from claw.contracts.diagnostics import Diagnostic, Finding
from claw.contracts.errors import ClawError, ConfigError, nearest
from claw.contracts.messages import Inbound
from claw.contracts.prompt import PromptSection
from claw.contracts.provider import Provider
from claw.contracts.tool import Sandbox, Tool
from claw.contracts.tool_schema import schema_problem
from claw.host import hookspecs
from claw.host.isolation import DEFAULT_TIMEOUTS, Timeouts, describe_exception, run_bounded
from claw.host.manifest import WITHOUT_CODE, Kind, Manifest, Names, ToolDeclaration
from claw.i18n import t
from claw.policy.subjects import ToolFact

T = TypeVar("T")

BUILTIN = "builtin"
"""The plugin id of the objects of core itself."""


@dataclass(frozen=True, slots=True)
class Contribution(Generic[T]):
    """An object and the plugin that answers for it."""

    plugin: str
    value: T


def channel_key(name: str, account: str = "default") -> str:
    """Return the key of the channel that serves an account: NAME, or NAME/ACCOUNT for another than the default."""
    return name if account == "default" else f"{name}/{account}"


def account_of(channel: Channel) -> str:
    """Return the account that a channel serves."""
    return str(getattr(channel, "account", "") or "default")


@dataclass(frozen=True)
class Registry:
    """The objects that turns use.

    :param channels: by :func:`channel_key`.
    :param tools: in order of registration, core tools first; a name may appear twice, ``policy`` says whose
        stands.
    :param middleware: outermost first. ``reviewers``, ``filters``, ``observers``: in the order in which they are asked.
    :param selector: of the slot ``models``; None = core's own choice. ``engine``: of ``context``; ``approver``: of
        ``approvals``; ``turn_log``: of ``turnLog``; ``store``: of ``sessions``.
    :param key_variables: provider → environment variables of which one may hold its key, as manifests declare them.
    :param diagnostics: one line for each thing that was refused, both owners named.
    :param facts: the policy facts of each of the tools, in the same order.
    """

    channels: Mapping[str, Contribution[Channel]] = field(default_factory=dict)
    providers: Mapping[str, Contribution[Provider]] = field(default_factory=dict)
    tools: tuple[Tool, ...] = ()
    sections: tuple[PromptSection, ...] = ()
    sandboxes: Mapping[str, Sandbox] = field(default_factory=dict)
    reviewers: tuple[Contribution[Any], ...] = ()
    filters: tuple[Contribution[Any], ...] = ()
    observers: tuple[Contribution[Any], ...] = ()
    middleware: tuple[Contribution[extensions.ProviderMiddleware], ...] = ()
    selector: Contribution[extensions.ModelSelector] | None = None
    engine: Contribution[extensions.ContextEngine] | None = None
    approver: Contribution[extensions.Approver] | None = None
    turn_log: Contribution[extensions.TurnLog] | None = None
    store: Contribution[extensions.SessionStore] | None = None
    key_variables: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    diagnostics: tuple[str, ...] = ()
    facts: tuple[ToolFact, ...] = ()

    def channel(self, name: str, account: str = "default") -> Channel | None:
        """The channel of this name that serves this account; None when there is none."""
        contribution = self.channels.get(channel_key(name, account))
        return contribution.value if contribution else None

    def channel_plugin(self, inbound: Inbound) -> str:
        """Return the id of the plugin that registered the channel of a message; that of core without one."""
        channel = self.channels.get(channel_key(inbound.address.channel, inbound.address.account))
        return channel.plugin if channel else BUILTIN

    def refusals(self, log: Callable[[str], None]) -> list[tuple[tuple[str, str], ...]]:
        """Return for each tool the providers that do not take its parameters, each with the reason.

        :param log: given a line about each provider that fails to say it.
        """
        found: list[list[tuple[str, str]]] = [[] for _ in self.tools]
        for name, one in self.providers.items():
            if problem_of := getattr(one.value, "tool_problem", None):
                try:
                    problems = run_bounded(partial(_answers, problem_of, self.tools), CHECK_SECONDS)
                except Exception as why:  # noqa: BLE001 - plugin code
                    log(t("plugin {id}: {problem}", id=one.plugin, problem=describe_exception(why)))
                    continue
                for refusals, problem in zip(found, problems, strict=True):
                    refusals.extend([(name, problem)] if problem else ())
        return [tuple(refusals) for refusals in found]


def _answers(problem_of: Callable[[Tool], object], tools: Sequence[Tool]) -> list[str]:
    return [str(problem_of(tool)) for tool in tools]


TOOLS_OF_ONE_PLUGIN = 500
_TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_COMMAND_NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")


class Hook(msgspec.Struct, frozen=True, rename="camel"):
    """A hook that every plugin is asked: its kind in manifests, and the members of every object that answers it.

    :param slot: the key under ``plugins.slots`` that chooses the one answer in force; empty when all are.
    :param on_demand: asked by the process that needs it: a plugin that answers nothing else is not loaded for a chat.
    """

    kind: Kind
    members: tuple[str, ...] = ()
    slot: str = ""
    on_demand: bool = False


HOOKS = msgspec.convert(read_table("host/hooks.json"), dict[str, Hook])
"""The hooks that every plugin is asked, in this order."""
SLOTS = {hook.slot: name for name, hook in HOOKS.items() if hook.slot}
"""The hooks of which one answer is in force, by the key under ``plugins.slots`` that chooses it."""
_DATA = frozenset(("name", "capabilities", "description", "parameters", "position", "probe", "summary"))
_FILTER_METHODS = ("inbound", "outbound", "describe")
_MADE_OF = {"register_tools": Tool, "register_prompt_sections": PromptSection}


@dataclass(frozen=True)
class HookRules:
    """The rules by which plugins are asked.

    :param slots: ``plugins.slots``: slot → the name of the answer that is in force.
    :param hooks: those that plugins are asked; all by default.
    """

    slots: Mapping[str, str] = field(default_factory=dict)
    hooks: tuple[str, ...] = tuple(HOOKS)
    timeouts: Timeouts = DEFAULT_TIMEOUTS


def check_answers(hook: str, things: Sequence[Any]) -> None:
    """Hold what one plugin answered to one hook against the bounds.

    :raises TypeError: an object is not what was asked for.
    :raises ValueError: it is, and is out of bounds.
    """
    for thing in things:
        kind, missing = type(thing).__name__, [one for one in HOOKS[hook].members if not hasattr(thing, one)]
        if missing:
            raise TypeError(f"{hook} answered with {kind}, which has no {', '.join(missing)}")
        for name in HOOKS[hook].members:
            if name not in _DATA and not callable(getattr(thing, name)):
                raise TypeError(f"{name} of a {kind} is not a function")
        if "name" in HOOKS[hook].members and not (isinstance(thing.name, str) and thing.name.strip()):
            raise TypeError(f"{hook} answered with one that is named {thing.name!r}, which is no text")
        if not isinstance(thing, _MADE_OF.get(hook, object)):
            raise TypeError(f"{hook} answered with {kind}, not {_MADE_OF[hook].__name__}")
        if hook == "register_filters" and not any(hasattr(thing, name) for name in _FILTER_METHODS):
            raise TypeError(f"{hook} answered with {kind}, which has none of {', '.join(_FILTER_METHODS)}")
        if isinstance(thing, PromptSection) and not isinstance(thing.position, int | float):
            raise TypeError(f"section {thing.name} stands at {thing.position!r}, which is no number")
    if hook == "register_tools":
        _check_tools(things)
    if hook == "register_chat_commands":
        _check_chat_commands(things)
    if hook == "register_provider_middleware":
        for thing in things:
            check_wrapped(thing.wrap(_PLAIN_PROVIDER))


_PLAIN_PROVIDER = SimpleNamespace(name="plain", stream=iter, context_tokens=len, credentials=list)
"""An object with the members that each provider has and no other, to try a middleware with."""


def check_wrapped(provider: object) -> None:
    """Check the answer of a middleware. :raises TypeError: it is no provider."""
    methods = HOOKS["register_providers"].members[1:]
    if missing := [name for name in methods if not callable(getattr(provider, name, None))]:
        raise TypeError(f"its middleware answers with a provider that has no {', '.join(missing)}")


def _check_chat_commands(commands: Sequence[Any]) -> None:
    for command in commands:
        name, changes = command.name, getattr(command, "changes", "never")
        if not _COMMAND_NAME.fullmatch(name):
            rule = "use lower-case letters, digits and _, a letter first, at most 32"
            raise ValueError(f"a chat command is named {name!r}: {rule}")
        if not isinstance(command.summary, str) or not isinstance(getattr(command, "usage", ""), str):
            raise TypeError(f"summary and usage of the chat command {name} are text")
        if changes not in get_args(ConversationChange):
            known = ", ".join(get_args(ConversationChange))
            raise ValueError(f"changes of the chat command {name} is {changes!r}, which is none of {known}")


def _check_tools(tools: Sequence[Any]) -> None:
    if len(tools) > TOOLS_OF_ONE_PLUGIN:
        raise ValueError(f"it brings {len(tools)} tools, and {TOOLS_OF_ONE_PLUGIN} are the most")
    for tool in tools:
        if not isinstance(tool.name, str) or not _TOOL_NAME.fullmatch(tool.name.strip()):
            raise ValueError(f"a tool is named {tool.name!r}: use letters, digits, _ and -, at most 64")


def check_manifest(manifest: Manifest | None, answers: Mapping[str, Sequence[Any]]) -> None:
    """Refuse a plugin whose manifest lists nothing, so that nothing of it is ever used.

    :raises ClawError: its code provides something.
    """
    hooks = ", ".join(hook for hook, things in answers.items() if things)
    lists = manifest and (manifest.kinds or manifest.tools or manifest.channels or manifest.providers)
    if hooks and manifest and not (lists or manifest.loads_at_start):
        fix = "its author runs claw plugins build, which writes the manifest"
        raise ClawError("its manifest lists nothing that {hooks} provides", fix=fix, hooks=hooks)


_TO_SCHEMA = "update the plugin, or ask its author for a sound schema"


def tool_problems(tools: Sequence[Tool], lines: Sequence[ToolDeclaration] | None = None) -> list[ClawError]:
    """Return an error for each name that one plugin gives to two tools, for each tool without a description or that
    model services would refuse, and for each that is in its manifest and not in its code, or the reverse, or differs.

    :param lines: of the manifest; None if it leaves the tools to the code.
    """
    declared, provided = {line.name: line for line in lines or ()}, {tool.name: tool for tool in tools}
    known = provided if lines is None else declared
    count, rebuild = Counter(tool.name for tool in tools), "its author must rebuild the manifest"
    twice = "its code provides the tool {tool} more than once; only one is used"
    bare = "its tool {tool} has no description, so a model cannot know what it does"
    unlisted = "its code provides the tool {tool}, which its manifest does not list"
    missing = "its manifest lists the tool {tool}, which its code does not provide"
    differ = "tool {tool}: manifest and code differ in {fields}"
    withheld = "its tool {tool} is withheld: model services do not accept its parameters: {why}"
    bare_names = [one.name for one in tools if not str(one.description or "").strip()]
    other = {name: _differences(declared[name], provided[name]) for name in declared.keys() & provided.keys()}
    unsound = {
        one.name: schema_problem(one.parameters, one.description)
        for one in (tools if lines is None else lines)
    }
    found = [
        *((twice, "its author must remove one", name) for name, times in count.items() if times > 1),
        *((bare, "its author must describe it", name) for name in bare_names),
        *((unlisted, rebuild, name) for name in sorted(provided.keys() - known.keys())),
        *((missing, rebuild, name) for name in sorted(known.keys() - provided.keys())),
        *((differ, "its author runs claw plugins build", name) for name in sorted(other) if other[name]),
        *((withheld, _TO_SCHEMA, name) for name, why in unsound.items() if why),
    ]
    values = {name: {"fields": other.get(name, ""), "why": unsound.get(name, "")} for _, _, name in found}
    return [ClawError(why, fix=fix, tool=name, **values[name]) for why, fix, name in found]


def _differences(declared: ToolDeclaration, provided: Tool) -> str:
    written, real = msgspec.to_builtins(declared), tool_line(provided)
    return ", ".join(key for key in written if written[key] != real[key])


def tool_line(tool: Tool) -> dict[str, Any]:
    """Return a tool as a manifest declares it: plain data by the names of the file."""
    names = zip(ToolDeclaration.__struct_encode_fields__, ToolDeclaration.__struct_fields__, strict=True)
    line = {shown: getattr(tool, name, None) for shown, name in names}
    line |= {"parameters": dict(tool.parameters)}
    line |= {"without": {name: tool_line(form) for name, form in (tool.without or {}).items()}}
    plain: dict[str, Any] = msgspec.to_builtins(line, enc_hook=repr, str_keys=True)
    return plain


MARK = "claw_spec"
"""The attribute that ``@hookspec`` leaves on a function: the project's name and ``_spec`` (pluggy, "HookspecMarker")."""


def answers_of(caller: Any, view: PluginConfig) -> list[Any]:
    """Return what one plugin answers to one hook, joined; a generator runs here, in isolation."""
    things: list[Any] = []
    for answer in caller(config=view):
        if inspect.iscoroutine(answer):
            answer.close()
            rule = "hooks are asked once, at start, and answer at once"
            raise TypeError(f"its hook is a coroutine function: {rule}")
        things += answer or ()
    return things


_IMPLEMENTS = "claw_impl"
"""The attribute that ``@hookimpl`` leaves on a function (pluggy, "HookimplMarker")."""


def hook_problems(module: ModuleType, specified: Iterable[str] = (), kinds: Names = ()) -> list[ClawError]:
    """Return an error for each hook of a plugin's module that nobody asks.

    A marked name that is near to no known hook may be one of a plugin that is not loaded.

    :param specified: the hooks that plugins specify.
    :param kinds: of its manifest; with one of ``WITHOUT_CODE`` it needs no hook.
    :raises ClawError: it has no hook that anybody asks, and needs one.
    """
    known = {*HOOKS, "register_commands", *specified}
    marked, unmarked = dict[str, Any](), list[str]()
    for name, thing in vars(module).items():
        if inspect.isfunction(thing) and hasattr(thing, _IMPLEMENTS):
            marked[getattr(thing, _IMPLEMENTS)["specname"] or name] = thing
        elif name in known and callable(thing):
            unmarked.append(name)
    misspelt = {name: near for name in marked if name not in known and (near := _near_hook(name, known))}
    empty = [name for name in marked if name in HOOKS and _returns_nothing(marked[name])]
    fix = "correct it if it is yours, or update or uninstall it"
    found = [
        *(("claw has no hook {name}; the nearest one is {near}", name) for name in misspelt),
        *(("its function {name} is not marked with @hookimpl", name) for name in unmarked),
        *(("its hook {name} returns nothing: it must return a list", name) for name in empty),
    ]
    problems = [ClawError(why, fix=fix, name=name, near=misspelt.get(name, "")) for why, name in found]
    if (
        hasattr(module, "hookspecs")
        or len(marked) > len(misspelt)
        or (WITHOUT_CODE & {*kinds} and not problems)
    ):
        return problems
    nothing = ClawError("its package {package} implements no hook", fix=fix, package=module.__name__)
    raise (problems or [nothing])[0]


def _returns_nothing(function: Any) -> bool:
    """Return true if a function has no ``yield`` and no ``return`` with a value, so that it can only return None."""
    nothing = ("LOAD_CONST", None)
    return not any(
        step.opname == "YIELD_VALUE"
        or (step.opname == "RETURN_CONST" and step.argval is not None)  # Python 3.12 and 3.13
        or (step.opname == "RETURN_VALUE" and (step.is_jump_target or (of.opname, of.argval) != nothing))
        for of, step in pairwise(dis.get_instructions(function))
    )


def _near_hook(name: str, known: Iterable[str]) -> str | None:
    """Return the hook that a misspelt name means. Most hooks begin alike, so the rest of the name decides."""
    prefix = "register_"
    near = nearest(name.removeprefix(prefix), [hook.removeprefix(prefix) for hook in known], 0.6)
    return nearest(name, known, 0.9) or (prefix + near if near and name.startswith(prefix) else None)


def specified_by(module: Any, taken: Mapping[str, str]) -> list[str]:
    """The hooks that a plugin specifies: the functions marked ``@hookspec`` of its ``hookspecs`` (a module or object).

    :raises TypeError: one of them asks for more than ``config``, which no caller passes.
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


CHECK_SECONDS = 10.0
"""Time limit of one diagnostic's check of the config file."""


def file_warnings(setup: Any, diagnostics: Iterable[Contribution[Diagnostic]]) -> Iterator[ConfigError]:
    """Yield the warnings of diagnostics (``check_config``) about the config file; one that fails is a warning too.

    :param setup: a ``claw.runtime.Setup``.
    """
    for one in diagnostics:
        if check := getattr(one.value, "check_config", None):
            try:
                found = run_bounded(partial(_findings_of, check, setup), CHECK_SECONDS)
            except (Exception, SystemExit) as why:  # noqa: BLE001 - plugin code
                name, cause = one.value.name, describe_exception(why)
                problem = t("its check {name} failed: {why}", name=name, why=cause)
                found = [Finding(one.plugin, "check", problem)]
            yield from (setup.config.error(each.about, each.problem, each.fix, each.grave) for each in found)


def _findings_of(check: Callable[[Any], Iterable[Finding]], setup: Any) -> list[Finding]:
    found = list(check(setup))
    if wrong := next((one for one in found if not isinstance(one, Finding)), None):
        raise TypeError(f"check_config answered with {type(wrong).__name__}, not Finding")
    return found
