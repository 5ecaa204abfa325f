"""The context of a turn before its history is loaded: agent, models, tools, prompt and workspace files."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from claw.agent.models import missing_model_error, models_of_agent, select_models, selector_of
from claw.agent.routing import Route, parse_key
from claw.agent.session_queue import SessionQueues
from claw.config.agents import Agent
from claw.config.loader import Config
from claw.config.summary import install_hint, plugins_that_bring
from claw.contracts.errors import ClawError
from claw.contracts.extensions import ModelOptions, TurnLog
from claw.contracts.messages import Inbound, Outbound, Receipt
from claw.contracts.prompt import FULL, MINIMAL, ContextFile, PromptFacts, RenderedSection, join_sections
from claw.contracts.provider import ModelCall, ModelRef, Request, SystemPrompt, ToolSpec
from claw.contracts.tool import Sandbox, Tool
from claw.host.calls import PluginSet, SectionCache
from claw.host.isolation import describe_exception
from claw.host.registry import Registry
from claw.host.worker import PluginWorker
from claw.i18n import t
from claw.policy.decision import Judgement
from claw.policy.engine import resolve_tools
from claw.policy.subjects import RunFacts, ToolFact
from claw.security.admission import TERMINAL, group_settings, history_limit
from claw.security.path_walk import Root
from claw.security.redaction import Redactor
from claw.security.rule_files import RuleFileWatch
from claw.security.untrusted_text import group_context, trusted_facts
from claw.security.workspace_fs import WorkspaceFiles, workspace_files
from claw.storage.files import make_folder, results_folder, safe_file_name
from claw.storage.overrides import Override
from claw.storage.sessions import Sessions

MEMORY = "MEMORY.md"
_UNKNOWN_WINDOW = 32_000
_KEPT_RULINGS = 1024  # one for each person and chat, the latest ones


@dataclass(frozen=True)
class TurnOptions:
    """The options of a turn beside its message; empty fields leave it to the configuration.

    :param session: name of a conversation, or a whole session key.
    :param model: to ask first, ``provider/model``; the fallbacks and the primary follow it.
    :param fallbacks: fallbacks in place of those and of the primary; empty = none.
    :param workspace: the folder to work in, whatever the agent names.
    :param folder: the folder of a terminal chat; used when the agent names no workspace.
    :param mode: of the prompt: full, minimal or none; empty = as the conversation asks.
    """

    agent: str = ""
    session: str = ""
    model: str = ""
    tool_choice: str = ""
    workspace: Path | None = None
    folder: Path | None = None
    mode: str = ""
    fallbacks: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Runtime:
    """Everything a turn walks through; built once by ``app``.

    :param plugins: the objects of plugins that turns call, the loops in which their code runs, and the log.
    :param rule_file_watch: on the rule files of all agents.
    :param tested_sandboxes: the names of the sandboxes that work here.
    """

    config: Config
    plugins: PluginSet
    sessions: Sessions
    turn_log: TurnLog
    session_queues: SessionQueues
    default_model: str
    deliver: Callable[[Outbound], Awaitable[Receipt]]
    redact: Redactor
    rule_file_watch: RuleFileWatch = field(default_factory=RuleFileWatch, compare=False)
    tested_sandboxes: set[str] = field(default_factory=set, compare=False)

    @property
    def registry(self) -> Registry:
        """The contributions of all plugins."""
        return self.plugins.registry

    @property
    def worker(self) -> PluginWorker:
        """The event loops of the plugins."""
        return self.plugins.worker

    @property
    def facts(self) -> tuple[ToolFact, ...]:
        """The policy facts of each tool, in the order of the registry."""
        return self.registry.facts

    def log(self, line: str) -> None:
        """Log a problem that stops nothing; secrets are masked."""
        self.plugins.log(line)

    def window_of(self, model: ModelRef) -> int:
        """Return how many tokens the model reads; a cautious number when its provider does not know."""
        provider = self.registry.providers.get(model.provider)
        return (provider and provider.value.context_tokens(model.model)) or _UNKNOWN_WINDOW

    @cached_property
    def section_cache(self) -> SectionCache:
        """The rendered prompt sections of the conversations used last."""
        prompt = self.config.settings.prompt
        return SectionCache(self.plugins, prompt.positions, prompt.disabled)

    @cached_property
    def rulings(self) -> Callable[[RunFacts, tuple[str, ...]], Judgement]:
        """The policy judgement of a run and its fallback models, cached: config and tools do not change in a Runtime."""
        return lru_cache(_KEPT_RULINGS)(lambda run, more: resolve_tools(self.config, run, self.facts, more))

    @cached_property
    def agents(self) -> Callable[[str, str, int | None], Agent]:
        """Return the agent of an id with another thinking level and history limit: one object for the same arguments."""

        def other(agent_id: str, thinking: str, limit: int | None) -> Agent:
            agent = self.config.agent(agent_id)
            chosen: dict[str, Any] = {"thinking_default": thinking} if thinking else {}
            chosen |= {} if limit is None else {"history_limit": limit}
            return replace(agent, settings=agent.settings.model_copy(update=chosen)) if chosen else agent

        return lru_cache(_KEPT_RULINGS)(other)


@dataclass(frozen=True)
class TurnContext:
    """The context of a turn: its agent, models, tools and prompt, before the history is loaded.

    :param keys: provider → the name of the key that a person wants used first.
    :param is_named: a person named the first model.
    :param own_workspace: the workspace is the agent's own: files there count as its words.
    :param given_files: the file access of the turn, where it is not that of the agent.
    """

    runtime: Runtime
    inbound: Inbound
    route: Route
    agent: Agent
    models: tuple[ModelRef, ...]
    judgement: Judgement
    tools: Mapping[str, Tool]
    workspace: Path
    own_workspace: bool = True
    sandbox: Sandbox | None = None
    keys: Mapping[str, str] = field(default_factory=dict)
    is_named: bool = False
    system: SystemPrompt = field(default_factory=lambda: SystemPrompt(""))
    rendered_sections: tuple[RenderedSection, ...] = ()
    files: tuple[ContextFile, ...] = ()
    given_files: WorkspaceFiles | None = None

    @cached_property
    def window_tokens(self) -> int:
        """The context window of the first model, or the one that the agent's settings name."""
        return self.agent.settings.context_tokens or self.runtime.window_of(self.models[0])

    @cached_property
    def fence(self) -> WorkspaceFiles:
        """The files that tools and attachments may use; made at first use, as most turns need none."""
        return self.given_files or _fence(self.agent, self.workspace, self.runtime, *self._roots_of_chat())

    @property
    def is_private(self) -> bool:
        """True in a direct chat of an owner alone, no sub-agent and no clock in it: what MEMORY.md says stays there
        (spec B4).

        The one rule for the prompt, the fence and the memory. A group's conversation stays one, whoever opens it at the
        terminal: what is said in it, the group hears.
        """
        key = parse_key(self.route.session_key)
        apart = key.is_subagent or key.is_cron or key.is_acp or key.chat_type in ("group", "channel")
        return self.route.owner and self.inbound.chat_type == "direct" and not apart

    @property
    def notes(self) -> Path:
        """Return the folder of daily notes: the agent's own, or those of this chat alone."""
        return notes_of(self.agent, self.route.session_key, self.is_private)

    def _roots_of_chat(self) -> list[Root]:
        """Return the roots of this chat alone: kept results, the memory it may see, the rule files of the agent."""
        own = self.agent.dir / "agent"
        roots = [Root(results_folder(self.agent.dir, self.route.session_key))]
        if self.is_private:
            roots.append(Root(own / MEMORY, write=True, marks_provenance=True))
        roots.append(Root(self.notes, write=True, marks_provenance=True))
        rules = (Path(file.path) for file in self.files if Path(file.path).parent == own)
        return [*roots, *(Root(path, write=True) for path in rules if path.name != MEMORY)]

    def tool_specs(self) -> tuple[ToolSpec, ...]:
        """Return the tools as a model is told of them."""
        return tuple(ToolSpec(tool.name, tool.description, tool.parameters) for tool in self.tools.values())

    def model_options(self, *, detached: bool = False) -> ModelOptions:
        """Return how a model call of this turn is made: with the keys of its agent, for its conversation.

        :param detached: a call beside the conversation: it waits for nothing, and its failures leave no mark on keys.
        """
        return ModelOptions(
            self.agent.dir, self.route.session_key, self.keys, detached=detached,
            key_variables=self.runtime.registry.key_variables, is_named=self.is_named,
        )  # fmt: skip

    def model_call(self, options: ModelOptions) -> ModelCall:
        """Return a call of the models of a turn, in order, with its instructions and tools."""
        settings = self.agent.settings
        request = Request(
            model="", system=self.system, messages=(), thinking=settings.thinking_default,
            max_tokens=settings.max_tokens, tools=self.tool_specs(),
        )  # fmt: skip
        return select_models(self.runtime.registry, self.models, request, options)


async def resolve_turn(inbound: Inbound, route: Route, runtime: Runtime, options: TurnOptions) -> TurnContext:
    """Everything that is known before the session is opened: agent, models, rulings, tools, instructions."""
    override = runtime.sessions.overrides.of(route.session_key)
    limit = history_limit(inbound, runtime.config)
    agent = runtime.agents(route.agent_id, override.thinking or "", limit)
    folder, is_own = _workspace(agent, inbound, options)
    asked, keys = choose_model(options.model or override.model, agent, runtime, bool(options.model))
    models = models_of_agent(agent, runtime.config, runtime.default_model, asked, options.fallbacks)
    if not models:
        raise missing_model_error()
    sandbox = await _sandbox_of(agent, route, runtime)
    run_facts = RunFacts(
        agent_id=agent.id,
        channel=inbound.address.channel,
        account=inbound.address.account,
        group=inbound.address.chat if inbound.chat_type != "direct" else None,
        sender=inbound.sender,
        owner=route.owner,
        sandboxed=sandbox is not None,
    ).with_model(str(models[0]))
    judgement = runtime.rulings(run_facts, tuple(map(str, models[1:])))  # the nine layers
    tools = {one.name: one for one in map(runtime.registry.tools.__getitem__, judgement.positions)}
    tools = {name: one.among(tools) for name, one in tools.items()}
    context = TurnContext(
        runtime, inbound, route, agent, models, judgement, tools, folder, is_own, sandbox, keys, bool(asked)
    )
    facts = _prompt_facts(context, options.mode, override)
    facts, pieces = await runtime.section_cache.render(facts)  # the prompt
    for piece in (one for one in pieces if one.fault):
        runtime.log(_left_out(piece))
    return replace(context, system=join_sections(pieces), rendered_sections=pieces, files=facts.context_files)


async def _sandbox_of(agent: Agent, route: Route, runtime: Runtime) -> Sandbox | None:
    """Return the sandbox of a turn; None when none is configured for it. Each is tested before its first use.

    ``non-main`` leaves out the main session of the agent, for an owner alone.

    :raises ClawError: one is configured, and none is installed or works here: the turn does not run without it.
    """
    settings, key = agent.settings.sandbox, runtime.config.settings.session.main_key.strip().lower() or "main"
    is_main = route.owner and parse_key(route.session_key).rest == key
    if settings.mode == "off" or (settings.mode == "non-main" and is_main):
        return None
    faults = []
    for name, sandbox in runtime.registry.sandboxes.items():
        if settings.backend not in (None, "", name):
            continue
        if name not in runtime.tested_sandboxes:
            if why := await _fault_of(name, sandbox, runtime.worker):
                faults.append(f"{name}: {why}")
                continue
            runtime.tested_sandboxes.add(name)
        return sandbox
    problem = "this agent runs in a sandbox, and no installed plugin provides {wanted}"
    known = plugins_that_bring("sandboxes")
    plugin = known.get(settings.backend or next(iter(known)), "")
    raise ClawError(
        "this agent runs in a sandbox, and none works here: {why}" if faults else problem,
        where="sandbox.mode",
        fix="{install}, or set sandbox.mode: off",
        install=install_hint(plugin) if plugin and not faults else t("install a plugin that provides one"),
        wanted=settings.backend or t("one"),
        why="; ".join(faults),
    )


async def _fault_of(name: str, sandbox: Sandbox, worker: PluginWorker) -> str:
    """Return the reason why a sandbox does not work here; empty when it does."""
    try:
        return str(await worker.call(sandbox.probe, seconds=worker.timeouts.hook_seconds, who=name))
    except Exception as why:  # noqa: BLE001 - plugin code
        return describe_exception(why)


def find_model(text: str, agent: Agent, runtime: Runtime) -> str:
    """Return the model that a person means by a text, as the selector in force finds it; else the text.

    :raises UsageError: there is none.
    """
    find = getattr(selector_of(runtime.registry), "find_model", None)
    return str(find(text, agent, runtime)) if find else text.strip()


def choose_model(
    text: str, agent: Agent, runtime: Runtime, is_new: bool = True
) -> tuple[str, Mapping[str, str]]:
    """Return the model that a person chose, and provider → the key that is to be used first, as the selector in force
    reads it.

    :param text: ``provider/model`` or an alias; empty = nothing.
    :param is_new: it is chosen just now: a part of it that does not exist is an error.
    :raises UsageError: there is no such key.
    """
    read = getattr(selector_of(runtime.registry), "read_choice", None)
    return read(text, agent, runtime, is_new) if read and text else (text, {})


def _workspace(agent: Agent, inbound: Inbound, options: TurnOptions) -> tuple[Path, bool]:
    """Return the working folder of tools, and true when it is the agent's own (files there count as its words)."""
    if options.workspace:
        return options.workspace, False
    if options.folder and inbound.address.channel == TERMINAL and not agent.has_configured_workspace:
        return options.folder, False
    return agent.workspace, True


def fence_of(agent_id: str, runtime: Runtime) -> WorkspaceFiles:
    """Return the file access of an agent in its own workspace, as all channels but the terminal have it."""
    agent = runtime.config.agent(agent_id)
    return _fence(agent, agent.workspace, runtime)


def notes_of(agent: Agent, session_key: str, private: bool) -> Path:
    """Return the folder of an agent's daily notes; only an owner's private chat shares the agent's own."""
    memory = agent.dir / "agent" / "memory"
    return memory if private else memory / "chats" / safe_file_name(session_key)


def _fence(agent: Agent, workspace: Path, runtime: Runtime, *more: Root) -> WorkspaceFiles:
    """The roots of this agent: its workspace, the folders of its skills, ``more``; the rule files are held apart."""
    if workspace == agent.workspace and not agent.has_configured_workspace:
        try:  # the default folder; a configured one must exist
            make_folder(workspace)
        except ClawError as why:
            runtime.log(str(why))
    roots = [*more, Root(workspace, write=True)]
    for section in runtime.registry.sections:
        try:
            folders = section.readable(agent) if section.readable else ()
            roots += [Root(folder, write=False) for folder in folders]
        except Exception as why:  # noqa: BLE001 - plugin code
            runtime.log(_left_out(RenderedSection(section, "", fault=describe_exception(why))))
    is_free = agent.settings.rule_files == "allow"
    rules = () if is_free else (agent.dir / "agent", agent.workspace, workspace)
    return workspace_files(roots, workspace, runtime.config.home, rules)


def _left_out(piece: RenderedSection) -> str:
    names = {"name": piece.section.name, "id": piece.section.plugin, "why": piece.fault}
    return t("prompt section {name} of plugin {id} is left out: {why}", **names)


def _prompt_facts(context: TurnContext, mode: str, override: Override) -> PromptFacts:
    """Return the facts for the sections of the prompt.

    :param mode: empty = as the conversation asks.
    """
    inbound, route, agent, runtime = context.inbound, context.route, context.agent, context.runtime
    settings, address, sandbox = runtime.config.settings, inbound.address, context.sandbox
    group = None if inbound.chat_type == "direct" else group_settings(inbound, runtime.config)
    channel = runtime.registry.channel(address.channel, address.account)
    owner = route.owner and inbound.chat_type == "direct"  # in a group the message itself says it
    usual = models_of_agent(agent, runtime.config, runtime.default_model)[:1] if context.is_named else ()
    return PromptFacts(
        agent=agent,
        mode=mode or (MINIMAL if parse_key(route.session_key).is_subagent else FULL),
        tools=context.tool_specs(),
        workspace=context.workspace,
        own_workspace=context.own_workspace,
        channel=address.channel,
        capabilities=tuple(sorted(channel.capabilities)) if channel else (),
        is_private=context.is_private,
        extra=group_context(inbound, (group and group.system_prompt) or ""),
        inbound_meta=trusted_facts(inbound, owner) if settings.prompt.inbound_meta == "system" else None,
        sandbox=f"{sandbox.name}, writing only below the working folder." if sandbox else "",
        runtime={
            "agent": agent.id, "session": route.session_key, "model": str(context.models[0]),
            "default_model": str(usual[0]) if usual and usual[0] != context.models[0] else "",
            "thinking": agent.settings.thinking_default, "reasoning": "shown" if override.reasoning else "",
        },
    )  # fmt: skip
