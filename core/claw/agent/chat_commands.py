"""Chat commands, such as ``/status``, for admitted persons in any chat.

One table, one entry point (:func:`run`); a command acts through a :class:`Desk`, which every chat provides. The input
is always a person's own text: never quoted or forwarded text, never a model's.
"""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher, get_close_matches
from typing import Any, Protocol

from claw import ClawError, UsageError, t

THINKING_LEVELS = ("off", "minimal", "low", "medium", "high", "adaptive")
QUEUE_MODES = ("steer", "collect", "followup", "interrupt")
DECISIONS = ("once", "always", "deny")
DEFAULT = "default"
"""Clears an override: the agent's setting applies again."""

_LINE = re.compile(r"/([A-Za-z]+)(?:@[\w.-]+)?(?:\s+(.*))?", re.S)
_SIMILARITY = 0.7
_MAX_TOOLS = 12


@dataclass(frozen=True, slots=True)
class KnownModels:
    """The models that a command can select.

    :param current: the model in use.
    :param known: names and aliases from the settings.
    :param providers: the available providers; any of their models can be named too.
    """

    current: str
    known: tuple[str, ...]
    providers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RequestCosts:
    """The size of a request of this conversation, in tokens.

    :param used: input of the last model call.
    :param window: context window of the model.
    :param sections: sections of the prompt, in order, with their tokens.
    :param tools: tools, in order, with their tokens.
    :param spent: the money spent, as a text.
    """

    used: int
    window: int
    sections: tuple[tuple[str, int], ...]
    tools: tuple[tuple[str, int], ...]
    spent: str = ""


class Conversation(Protocol):
    """The actions that the sender of a command has on the conversation.

    ``owner``: the sender is an owner. ``direct``: the chat has no other people.
    """

    @property
    def owner(self) -> bool: ...

    @property
    def direct(self) -> bool: ...

    async def stop(self) -> str:
        """Stop the running turn; return a text about it."""
        ...

    async def reset(self) -> None:
        """Start a new session; the old one is archived."""
        ...

    async def submit(self, text: str) -> None:
        """Submit a text as the sender's next message, after the command."""
        ...

    async def status(self) -> Mapping[str, str]:
        """Return the status of the conversation: label → value."""
        ...

    async def tools(self) -> Sequence[tuple[str, str]]:
        """Return the tools of a turn, with their descriptions."""
        ...

    async def costs(self) -> RequestCosts:
        """Return the size of a request."""
        ...

    async def models(self) -> KnownModels:
        """Return the selectable models."""
        ...

    @property
    def overrides(self) -> Any:
        """The overrides in force: model, thinking, reasoning, queue."""
        ...

    def set_overrides(self, **fields: Any) -> None:
        """Set overrides of the conversation."""
        ...

    def clear_choices(self) -> None:
        """Clear all overrides."""
        ...

    def answer_request(self, id: str, verdict: str) -> str:
        """Decide an open approval request; return a text about the outcome."""
        ...

    def open_requests(self) -> Sequence[tuple[str, str]]:
        """Return the open approval requests that the sender may decide: id and subject."""
        ...

    async def compact(self, focus: str) -> str:
        """Compact the history; return a text about the outcome."""
        ...


@dataclass(frozen=True, slots=True)
class ChatCommand:
    """A chat command.

    :param meaning: summary; an English template.
    :param usage: the arguments, for the help.
    :param run: called with the text after the name; returns the reply.
    :param shared: it changes the conversation for everybody in the chat: in a group only owners may use it.
    :param long: it waits for a model, so that a channel runs it in the background.
    """

    name: str
    summary: str
    usage: str
    run: Callable[[str, Conversation], Awaitable[str]]
    is_shared: bool = False
    is_long: bool = False


def is_long_command(line: str) -> bool:
    """Return true if a line is a command that waits for a model."""
    found = _LINE.fullmatch(line.strip())
    command = COMMANDS.get(f"/{found[1].lower()}") if found else None
    return command is not None and command.is_long


async def run_chat_command(line: str, conversation: Conversation) -> str | None:
    """Run the command in a line and return the reply, an error as well; None when the line is an ordinary message.

    :param line: the person's whole text.
    """
    found = _LINE.fullmatch(line.strip())
    if found is None:
        return None
    name, rest = f"/{found[1].lower()}", (found[2] or "").strip()
    command = COMMANDS.get(name)
    if command is None:
        near = get_close_matches(name, COMMANDS, 1, _SIMILARITY)
        if rest or not near:
            return None
        return t("there is no command {name}; did you mean {near}?", name=name, near=near[0])
    changes = command.is_shared and (rest or command.run in _ALWAYS_CHANGE)
    if changes and not (conversation.direct or conversation.owner):
        return t("{name} would change this conversation for everybody: only an owner may", name=name)
    try:
        return await command.run(rest, conversation)
    except ClawError as failed:
        return str(failed)


async def _help(rest: str, conversation: Conversation) -> str:
    rows = [(f"{each.name} {each.usage}".strip(), t(each.summary)) for each in COMMANDS.values()]
    return "\n".join(f"{head} — {meaning}" for head, meaning in rows)


async def _reset(rest: str, conversation: Conversation) -> str:
    conversation.clear_choices()
    return await _new(rest, conversation)


async def _new(rest: str, conversation: Conversation) -> str:
    """Start a new session; a leading model name is selected, the remaining text is its first message."""
    first, _, text = rest.partition(" ")
    if "/" in first and not first.startswith("/"):
        models = await conversation.models()
        if first.partition("/")[0].lower() in models.providers:
            conversation.set_overrides(model=find_model(first, models))
            rest = text.strip()
    await conversation.reset()
    if rest:
        await conversation.submit(rest)
    return t("a new conversation")


async def _stop(rest: str, conversation: Conversation) -> str:
    return await conversation.stop()


async def _status(rest: str, conversation: Conversation) -> str:
    return "\n".join(f"{label}: {value}" for label, value in (await conversation.status()).items())


async def _tools(rest: str, conversation: Conversation) -> str:
    rows = [f"{name}: {meaning}" for name, meaning in await conversation.tools()]
    return "\n".join(rows) or t("no tools here")


async def _context(rest: str, conversation: Conversation) -> str:
    costs = await conversation.costs()
    percent = round(100 * costs.used / costs.window) if costs.window else 0
    used, window = f"{costs.used:,}", f"{costs.window:,}"
    head = t(
        "the last request: {used} of {window} tokens ({percent} %)", used=used, window=window, percent=percent
    )
    lines = [
        head,
        *([t("cost: {spent}", spent=costs.spent)] if costs.spent else []),
        t("of these, about:"),
    ]
    lines += [f"  {name}: {tokens:,}" for name, tokens in costs.sections]
    by_size = sorted(costs.tools, key=lambda row: -row[1])
    total = sum(tokens for _, tokens in by_size)
    lines.append(t("tools, {count} of them: {tokens}", count=len(by_size), tokens=f"{total:,}"))
    lines += [f"  {name}: {tokens:,}" for name, tokens in by_size[:_MAX_TOOLS]]
    if more := by_size[_MAX_TOOLS:]:
        lines.append(t("  {count} more: {tokens}", count=len(more), tokens=f"{sum(t for _, t in more):,}"))
    return "\n".join(lines)


async def _compact(rest: str, conversation: Conversation) -> str:
    return await conversation.compact(rest)


async def _model(rest: str, conversation: Conversation) -> str:
    models = await conversation.models()
    if not rest:
        known = ", ".join(models.known)
        return t("model: {model}. There are: {known}", model=models.current, known=known)
    if rest.lower() == DEFAULT:
        conversation.set_overrides(model="")
        return t("model: {model}", model=(await conversation.models()).current)
    model = find_model(rest, models)
    conversation.set_overrides(model=model)
    return t("model: {model}, until /reset", model=model)


def find_model(text: str, models: KnownModels) -> str:
    """Find a model by name: a known name or alias, its last part if unique, or ``provider/model`` of an available
    provider. A suffix ``@KEY`` is kept: the key to use first.

    :raises UsageError: there is none; the error names the nearest one.
    """
    wanted = text.strip()
    alike = [name for name in models.known if name.lower() == wanted.lower()]
    alike = alike or [name for name in models.known if name.partition("/")[2].lower() == wanted.lower()]
    if len(alike) == 1:
        return alike[0]
    head, _, key = wanted.rpartition("@")
    if head:
        return f"{find_model(head, models)}@{key}"
    provider, slash, model = wanted.partition("/")
    if slash and model and provider.lower() in models.providers:
        return f"{provider.lower()}/{model}"
    near = max(
        models.known, key=lambda name: SequenceMatcher(None, wanted.lower(), name.lower()).ratio(), default=""
    )
    if near:
        raise UsageError("there is no model {name}", fix="did you mean {near}?", name=wanted, near=near)
    raise UsageError("there is no model {name}", fix="write it as provider/model", name=wanted)


async def _think(rest: str, conversation: Conversation) -> str:
    if not rest:
        now = conversation.overrides.thinking or DEFAULT
        return t(
            "thinking: {level}. There are: {known}", level=now, known=", ".join((*THINKING_LEVELS, DEFAULT))
        )
    level = _one_of(rest, THINKING_LEVELS)
    conversation.set_overrides(thinking=level)
    return t("thinking: {level}", level=level or DEFAULT)


async def _queue(rest: str, conversation: Conversation) -> str:
    if not rest:
        now = conversation.overrides.queue or DEFAULT
        return t("queue: {mode}. There are: {known}", mode=now, known=", ".join((*QUEUE_MODES, DEFAULT)))
    mode = _one_of(rest, QUEUE_MODES)
    conversation.set_overrides(queue=mode)
    return t("queue: {mode}", mode=mode or DEFAULT)


async def _reasoning(rest: str, conversation: Conversation) -> str:
    if rest:
        word = _one_of(rest, ("on", "off"))
        conversation.set_overrides(reasoning={"on": True, "off": False, "": None}[word])
    now = {True: "on", False: "off", None: DEFAULT}[conversation.overrides.reasoning]
    return t("reasoning is shown: {word}", word=now)


async def _approve(rest: str, conversation: Conversation) -> str:
    words = rest.split()
    if not words:
        rows = [f"{id}: {about}" for id, about in conversation.open_requests()]
        return "\n".join(rows) or t("nothing waits for an answer of yours")
    verdict = words[1].lower() if len(words) > 1 else "once"
    if verdict not in DECISIONS or len(words) > 2:
        raise UsageError("/approve takes an id and once, always or deny", fix="/approve ID deny")
    return conversation.answer_request(words[0], verdict)


def _one_of(word: str, known: Sequence[str]) -> str:
    """Return the known word; empty for ``default``.

    :raises UsageError: the word is unknown; the error names a near one.
    """
    wanted = word.strip().lower()
    if wanted == DEFAULT:
        return ""
    if wanted in known:
        return wanted
    near = get_close_matches(wanted, known, n=1, cutoff=_SIMILARITY)
    raise UsageError(
        "{word} is none of {known}",
        fix="did you mean {near}?" if near else "",
        word=word,
        known=", ".join((*known, DEFAULT)),
        near=near[0] if near else "",
    )


_ALWAYS_CHANGE = (_new, _reset, _compact)
COMMANDS: dict[str, ChatCommand] = {
    each.name: each
    for each in (
        ChatCommand("/help", "show these commands", "", _help),
        ChatCommand(
            "/new",
            "start a new conversation; the old one is kept aside",
            "[provider/model] [text]",
            _new,
            True,
        ),
        ChatCommand(
            "/reset",
            "the same, and what was chosen here is taken back",
            "[provider/model] [text]",
            _reset,
            True,
        ),
        ChatCommand("/stop", "stop the turn that runs", "", _stop),
        ChatCommand("/status", "agent, model, conversation, how full the context is", "", _status),
        ChatCommand("/context", "what a request takes: sections of the prompt, tools", "", _context),
        ChatCommand("/tools", "the tools of this agent here", "", _tools),
        ChatCommand("/model", "which model answers here", "[provider/model[@key] | default]", _model, True),
        ChatCommand(
            "/think", "how much the model thinks", f"[{' | '.join(THINKING_LEVELS)} | default]", _think, True
        ),
        ChatCommand(
            "/reasoning", "whether what it thinks is shown", "[on | off | default]", _reasoning, True
        ),
        ChatCommand(
            "/queue",
            "what a message does while a turn runs",
            f"[{' | '.join(QUEUE_MODES)} | default]",
            _queue,
            True,
        ),
        ChatCommand("/compact", "make the past shorter", "[what matters]", _compact, True, is_long=True),
        ChatCommand(
            "/approve", "answer what an agent asked to be allowed", "[ID [once | always | deny]]", _approve
        ),
    )
}
"""All commands by their names, in the order of ``/help``."""


def chat_menu() -> tuple[tuple[str, str, str], ...]:
    """Return the chat commands for the menu of a chat service: the name without its slash, the summary in the language
    in use, and the arguments."""
    return tuple((each.name[1:], t(each.summary), each.usage) for each in COMMANDS.values())
