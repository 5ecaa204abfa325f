"""What a message meets before the past is opened: its agent, models, tools, instructions and fence."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from claw.approval import Approvals
from claw.auth import no_such_key
from claw.compaction.cut import Costs
from claw.config import Agent, Config
from claw.envelope import group_context, trusted
from claw.errors import ClawError, UsageError
from claw.fallback import Bunch, ModelRef, candidates
from claw.growing import Growing
from claw.guard.admission import group_of, history_limit, owner_hash
from claw.guard.fence import Fence, fence_round
from claw.guard.names import safe_name
from claw.guard.redact import Redactor
from claw.guard.rules import Watch
from claw.guard.way import Root
from claw.guests import Rendered
from claw.journal import Journal
from claw.keys import Keys
from claw.kit import BUILTIN, Kit
from claw.lane import Lanes
from claw.message import Inbound, Outbound, Receipt
from claw.meter import Spending
from claw.overrides import NONE, Override, Overrides, split
from claw.policy import Judgement, Run, ToolFact, resolve
from claw.prompt import FULL, MINIMAL, ContextFile, Piece, PromptFacts, together
from claw.provider import SystemPrompt, ToolSpec
from claw.route import Route, parse_key
from claw.sandbox import Sandbox, choose
from claw.session import Sessions
from claw.shelf import folder_of
from claw.store import make_folder
from claw.tool import Tool
from claw.wall import name_of
from claw.words import say
from claw.yard import Yard

MEMORY = "MEMORY.md"
TOOL_CHOICES = ("auto", "none", "required")
"""What may be chosen beside the name of a tool."""

_UNKNOWN_WINDOW = 32_000
_KEPT_RULINGS = 1024  # one for each person and place that was last heard


@dataclass(frozen=True)
class Wish:
    """What the caller asks for beside the message; empty fields leave it to the configuration.

    :param session: name of a conversation, or a whole session key.
    :param model: to ask first, ``provider/model``; the spares and the primary stand behind it.
    :param fallbacks: spares in the place of those and of the primary; empty = none.
    :param workspace: the folder to work in, whatever the agent names.
    :param folder: where a terminal chat stands; worked in when the agent names no workspace.
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
class Rooms:
    """Everything a turn walks through; built once by ``app``."""

    config: Config
    kit: Kit
    sessions: Sessions
    journal: Journal
    lanes: Lanes
    default_model: str
    facts: tuple[ToolFact, ...]
    context_files: Callable[[Agent, Path, bool, bool], tuple[ContextFile, ...]]
    fetch: Any
    deliver: Callable[[Outbound], Awaitable[Receipt]]
    complain: Callable[[str], None]
    redact: Redactor
    yard: Yard
    machine: Mapping[str, str] = field(default_factory=dict)
    costs: Growing[Costs] = field(default_factory=lambda: Growing(Costs))
    approvals: Approvals | None = None
    overrides: Overrides | None = None
    keys: Keys = field(default_factory=Keys)
    spending: Spending = field(default_factory=Spending)
    watch: Watch = field(default_factory=Watch)
    repo: Callable[[Path], str] = lambda workspace: ""

    @cached_property
    def rendered(self) -> Rendered:
        """The prompt's sections, kept for the conversations that were last spoken in."""
        prompt = self.config.settings.prompt
        return Rendered(self.kit.sections, BUILTIN, prompt.positions, prompt.disabled)

    @cached_property
    def rulings(self) -> Callable[[Run, tuple[str, ...]], Judgement]:
        """The nine layers for a run and its spare models; kept for the runs that were asked about last, since nothing
        but the configuration and the tools decides, and both stand as long as these rooms."""
        return lru_cache(_KEPT_RULINGS)(lambda run, spares: resolve(self.config, run, self.facts, spares))

    @cached_property
    def agents(self) -> Callable[[str, str, int | None], Agent]:
        """An agent by its id with another thinking level and history limit; kept, as the rulings are: one that is made
        anew for each turn is another one to whoever keeps something for it."""

        def other(agent_id: str, thinking: str, limit: int | None) -> Agent:
            agent = self.config.agent(agent_id)
            chosen: dict[str, Any] = {"thinking_default": thinking} if thinking else {}
            chosen |= {} if limit is None else {"history_limit": limit}
            return replace(agent, settings=agent.settings.model_copy(update=chosen))

        return lru_cache(_KEPT_RULINGS)(other)


@dataclass(frozen=True)
class Stage:
    """What a message meets: the agent, its models, its tools and its instructions, before the past is opened."""

    route: Route
    agent: Agent
    models: tuple[ModelRef, ...]
    judgement: Judgement
    tools: Mapping[str, Tool]
    workspace: Path
    system: SystemPrompt
    pieces: tuple[Piece, ...]
    window_tokens: int
    fenced: Callable[[], Fence]
    sandbox: Sandbox | None = None
    files: tuple[ContextFile, ...] = ()
    is_private: bool = False
    keys: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def fence(self) -> Fence:
        """What tools and attachments may touch; made when the first of them asks, as most answers have neither."""
        return self.fenced()

    @property
    def notes(self) -> Path:
        """Where the notes of a day are: the agent's own, or those of this chat alone."""
        return notes_of(self.agent, self.route.session_key, self.is_private)


async def set_stage(inbound: Inbound, route: Route, rooms: Rooms, wish: Wish) -> Stage:
    """Everything that stands before the past is opened: agent, models, rulings, tools, instructions, fence."""
    config = rooms.config
    override = rooms.overrides.of(route.session_key) if rooms.overrides else NONE
    agent = _agent(inbound, route, rooms, override)
    workspace, own = _workspace(agent, inbound, wish)
    choice = agent.settings.model
    aliases = config.settings.models.aliases
    usual = (choice and choice.primary) or rooms.default_model
    asked, keys = _asked_for(wish, override, agent, rooms)
    spares = choice.fallbacks if choice else ()
    named = wish.fallbacks if wish.fallbacks is not None or (choice and choice.primary) else spares
    models = candidates(asked, usual, spares, aliases, named)  # what claw chose by itself is nobody's spare
    sandbox = choose(agent.settings.sandbox.mode, agent.settings.sandbox.backend or "", rooms.kit.sandboxes)
    run_facts = Run(
        agent_id=agent.id,
        channel=inbound.address.channel,
        account=inbound.address.account,
        group=inbound.address.chat if inbound.chat_type != "direct" else None,
        sender=inbound.sender,
        owner=route.owner,
        sandboxed=sandbox is not None,
    ).on(str(models[0]))
    judgement = rooms.rulings(run_facts, tuple(map(str, models[1:])))  # the nine layers
    tools = {rooms.facts[at].name: rooms.kit.tools[at] for at in judgement.positions}
    facts = replace(
        _prompt_facts(inbound, route, agent, tools, workspace, own, rooms, wish.mode),
        sandbox=_walls(sandbox),
        runtime={
            "agent": agent.id, "session": route.session_key, **rooms.machine, "repo": rooms.repo(workspace),
            "model": str(models[0]), "default_model": _other(models, usual, aliases) if asked else "",
            "thinking": agent.settings.thinking_default, "reasoning": "shown" if override.reasoning else "",
        },
    )  # fmt: skip
    private = is_private(inbound, route)
    pieces = await rooms.rendered.of(facts, rooms.yard)  # the prompt
    for piece in pieces:
        if piece.fault:
            rooms.complain(_left_out(piece))
    return Stage(
        route, agent, models, judgement, tools, workspace, together(pieces), pieces,
        agent.settings.context_tokens or window_of(models[0], rooms),
        lambda: _fence(agent, workspace, rooms, *_of_chat(agent, route, facts.context_files, private)),
        sandbox, facts.context_files, private, keys,
    )  # fmt: skip


def _agent(inbound: Inbound, route: Route, rooms: Rooms, override: Override) -> Agent:
    """The agent as it is in this conversation: what was chosen in it, and what the file says of its channel."""
    agent = rooms.config.agent(route.agent_id)
    thinking, limit = override.thinking, history_limit(inbound, rooms.config)
    return rooms.agents(agent.id, thinking or "", limit) if thinking or limit is not None else agent


def _asked_for(wish: Wish, override: Override, agent: Agent, rooms: Rooms) -> tuple[str, Mapping[str, str]]:
    """The model that is asked first, as a person named it, and the key they want. A key that was chosen once and is gone
    is nobody's fault in this turn."""
    try:
        return chosen_by(wish.model or override.model, agent, rooms)
    except UsageError:
        if wish.model:
            raise
        return split(override.model)[0], {}


def choosable(choice: str, stage: Stage) -> str:
    """A tool choice that a turn of this stage can follow.

    :raises UsageError: it names a tool that the turn would not have.
    """
    if choice in TOOL_CHOICES or choice in stage.tools:
        return choice
    ruling = stage.judgement.rulings.get(choice)
    raise UsageError(
        "the tool {name} was asked for by tool choice, and this turn does not have it: {why}",
        fix="claw tools explain {name} says how to let it through",
        name=choice,
        why=ruling.reason if ruling else say("no such tool is installed"),
    )


def chosen_by(text: str, agent: Agent, rooms: Rooms) -> tuple[str, Mapping[str, str]]:
    """What a person named: the model, and provider → the key that is to be used first.

    :param text: ``provider/model``, an alias, each with ``@KEY`` or without; empty = nothing.
    :raises UsageError: the provider has no such key.
    """
    model, key = split(text)
    aliases, choice = rooms.config.settings.models.aliases, agent.settings.model
    if not key or text in aliases:
        return text, {}
    usual = (choice and choice.primary) or rooms.default_model
    provider = candidates(model, usual, (), aliases, ())[0].provider
    brought = rooms.kit.providers.get(provider)
    names = [one.name for one in rooms.keys.of(brought.thing, agent.dir)] if brought else []
    if key not in names:
        raise no_such_key(provider, key, names)
    return model, {provider: key}


def window_of(model: ModelRef, rooms: Rooms) -> int:
    """How many tokens the model reads, by its provider; a cautious number when that one does not know."""
    provider = rooms.kit.providers.get(model.provider)
    try:
        known = provider.thing.context_tokens(model.model) if provider else 0
        return known if isinstance(known, int) and known > 0 else _UNKNOWN_WINDOW
    except Exception as why:  # noqa: BLE001 - a stranger's code
        rooms.complain(say("provider {name} failed: {why}", name=model.provider, why=name_of(why)))
        return _UNKNOWN_WINDOW


def bunch_of(stage: Stage, rooms: Rooms) -> Bunch:
    """The keys that a turn on this stage may use."""
    wait = rooms.config.settings.models.wait
    return Bunch(rooms.keys, stage.agent.dir, stage.route.session_key, wait, stage.keys)


def _workspace(agent: Agent, inbound: Inbound, wish: Wish) -> tuple[Path, bool]:
    """Where tools work, and whether that folder is the agent's own (its files there count as its own words)."""
    if wish.workspace:
        return wish.workspace, False
    if wish.folder and inbound.address.channel == "terminal" and not agent.names_workspace:
        return wish.folder, False
    return agent.workspace, True


def fence_of(agent_id: str, rooms: Rooms) -> Fence:
    """The fence of an agent that works in its own workspace, as every channel but the terminal's."""
    agent = rooms.config.agent(agent_id)
    return _fence(agent, agent.workspace, rooms)


def notes_of(agent: Agent, session_key: str, private: bool) -> Path:
    """Where an agent notes what a chat told it on a day. Other chats than an owner's own see nothing of each other."""
    memory = agent.dir / "agent" / "memory"
    return memory if private else memory / "chats" / safe_name(session_key)


def _of_chat(agent: Agent, route: Route, files: Sequence[ContextFile], private: bool) -> list[Root]:
    """What only this chat may touch: its kept results, the memory as far as it may see it, the agent's own rule files."""
    own = agent.dir / "agent"
    roots = [Root(folder_of(agent.dir, route.session_key))]
    if private:
        roots.append(Root(own / MEMORY, write=True, notes=True))
    roots.append(Root(notes_of(agent, route.session_key, private), write=True, notes=True))
    rules = (Path(file.path) for file in files if Path(file.path).parent == own)
    return [*roots, *(Root(path, write=True) for path in rules if path.name != MEMORY)]


def _fence(agent: Agent, workspace: Path, rooms: Rooms, *more: Root) -> Fence:
    """The roots of this agent: its workspace, the folders of its skills, ``more``; the rule files are held apart."""
    if workspace == agent.workspace and not agent.names_workspace:
        _make_own(workspace, rooms)
    roots = [*more, Root(workspace, write=True)]
    for section in rooms.kit.sections:
        try:
            folders = section.readable(agent) if section.readable else ()
        except Exception as why:  # noqa: BLE001 - a stranger's code
            rooms.complain(_left_out(Piece(section, "", fault=name_of(why))))
            continue
        roots += [Root(folder, write=False) for folder in folders]
    is_free = agent.settings.rule_files == "allow"
    rules = () if is_free else (agent.dir / "agent", agent.workspace, workspace)
    return fence_round(roots, workspace, rooms.config.home, rules)


def _make_own(workspace: Path, rooms: Rooms) -> None:
    """The folder that nobody named is made when a tool first wants it; one that the operator named is there, or wrong."""
    try:
        make_folder(workspace)
    except ClawError as why:
        rooms.complain(str(why))


def _left_out(piece: Piece) -> str:
    section = piece.section
    return say(
        "prompt section {name} of plugin {id} is left out: {why}",
        name=section.name, id=section.plugin, why=piece.fault,
    )  # fmt: skip


def _prompt_facts(
    inbound: Inbound, route: Route, agent: Agent, tools: Mapping[str, Tool], workspace: Path, own: bool, rooms: Rooms,
    mode: str,
) -> PromptFacts:  # fmt: skip
    settings, key = rooms.config.settings, parse_key(route.session_key)
    group = None if inbound.chat_type == "direct" else group_of(inbound, rooms.config)
    secret = agent.settings.identity.owner_display_secret
    owners = (*settings.owners, *agent.settings.identity.owner_numbers)
    channel = rooms.kit.channel(inbound.address.channel, inbound.address.account)
    meta = trusted(inbound) if settings.prompt.inbound_meta == "system" else None
    return PromptFacts(
        agent=agent,
        mode=mode or (MINIMAL if key.is_subagent else FULL),
        tools=tuple(ToolSpec(tool.name, tool.description, tool.parameters) for tool in tools.values()),
        workspace=workspace,
        channel=inbound.address.channel,
        capabilities=tuple(sorted(channel.capabilities)) if channel else (),
        zone=agent.settings.user_timezone or "",
        owners=tuple(owner_hash(owner, secret.reveal() if secret else "") for owner in owners),
        context_files=rooms.context_files(agent, workspace, own, is_private(inbound, route)),
        extra=group_context(inbound, (group and group.system_prompt) or ""),
        inbound_meta=meta,
        silent_token=settings.messages.silent_token,
        model_aliases=tuple(settings.models.aliases.items()),
        docs=settings.prompt.docs_path or "",
    )


def is_private(inbound: Inbound, route: Route) -> bool:
    """A direct chat of an owner alone, no sub-agent and no clock in it: what MEMORY.md says stays there (spec B4).

    The one rule for the prompt, the fence and the memory. A group's conversation stays one, whoever opens it at the
    terminal: what is said in it, the group hears.
    """
    key = parse_key(route.session_key)
    apart = key.is_subagent or key.is_cron or key.is_acp or key.chat_type in ("group", "channel")
    return route.owner and inbound.chat_type == "direct" and not apart


def _walls(sandbox: Sandbox | None) -> str:
    return f"{sandbox.name}, writing only below the working folder." if sandbox else ""


def _other(models: Sequence[ModelRef], usual: str, aliases: Mapping[str, str]) -> str:
    """The agent's usual model, when this turn has another one."""
    known = candidates("", usual, (), aliases)
    return str(known[0]) if known and known[0] != models[0] else ""
