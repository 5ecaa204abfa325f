"""Chat commands: what an admitted person may say to claw itself, ``/status`` and the like, in any chat.

One table, one entry point (:func:`run`); what a command may do is a :class:`Desk`, which every place to talk has. Only a
person's own words come here: never quoted or forwarded text, never a model's.
"""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher, get_close_matches
from typing import Any, Protocol

from claw import ClawError, UsageError, say

THINKING = ("off", "minimal", "low", "medium", "high", "adaptive")
QUEUE = ("steer", "collect", "followup", "interrupt")
VERDICTS = ("once", "always", "deny")
DEFAULT = "default"
"""Takes a choice back: what the agent's settings say holds again."""

_LINE = re.compile(r"/([A-Za-z]+)(?:@[\w.-]+)?(?:\s+(.*))?", re.S)
_LIKE = 0.7
_MOST_TOOLS = 12


@dataclass(frozen=True, slots=True)
class Models:
    """The models that can be named here.

    :param current: the one that answers now.
    :param known: names and aliases from the settings.
    :param providers: who can be asked; their other models can be named too.
    """

    current: str
    known: tuple[str, ...]
    providers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Costs:
    """What a request of this conversation takes, in tokens.

    :param used: what the last model call read.
    :param sections: of the prompt, in order; ``tools`` likewise.
    :param spent: what was paid, in words.
    """

    used: int
    window: int
    sections: tuple[tuple[str, int], ...]
    tools: tuple[tuple[str, int], ...]
    spent: str = ""


class Desk(Protocol):
    """What the person behind a message may do to their conversation.

    ``owner``: they are one. ``direct``: nobody else is in this chat.
    """

    @property
    def owner(self) -> bool: ...

    @property
    def direct(self) -> bool: ...

    async def stop(self) -> str:
        """Stop the turn that runs; in words, what was stopped."""
        ...

    async def forget(self) -> None:
        """Begin the conversation anew; the old one is kept aside."""
        ...

    async def hear(self, text: str) -> None:
        """Take this up as their next message, after the command."""
        ...

    async def status(self) -> Mapping[str, str]:
        """How the conversation stands: label → value, in words."""
        ...

    async def tools(self) -> Sequence[tuple[str, str]]:
        """The tools that a turn would have, with what they are for."""
        ...

    async def costs(self) -> Costs:
        """What a request takes."""
        ...

    async def models(self) -> Models:
        """What may be asked."""
        ...

    @property
    def chosen(self) -> Any:
        """The overrides in force: model, thinking, reasoning, queue."""
        ...

    def choose(self, **fields: Any) -> None:
        """Set overrides of this conversation."""
        ...

    def choose_nothing(self) -> None:
        """Take all overrides back."""
        ...

    def decide(self, id: str, verdict: str) -> str:
        """Answer an open question; in words, what came of it."""
        ...

    def questions(self) -> Sequence[tuple[str, str]]:
        """The open questions that this person may answer: id, and what it is about."""
        ...

    async def compact(self, focus: str) -> str:
        """Make the past shorter; in words, what came of it."""
        ...


@dataclass(frozen=True, slots=True)
class Command:
    """One command.

    :param meaning: English template.
    :param usage: what may follow the name.
    :param run: given what follows the name; answers in words.
    :param shared: it changes the conversation of everybody in the chat: in a group only an owner may.
    :param long: it waits for a model, so that a place where more comes in does it beside that.
    """

    name: str
    meaning: str
    usage: str
    run: Callable[[str, Desk], Awaitable[str]]
    shared: bool = False
    long: bool = False


def takes_long(line: str) -> bool:
    """Whether a line is a command that waits for a model."""
    found = _LINE.fullmatch(line.strip())
    command = COMMANDS.get(f"/{found[1].lower()}") if found else None
    return command is not None and command.long


async def run(line: str, desk: Desk) -> str | None:
    """Do what a line says and answer in words, also when it could not be done; None: it is no command of ours, so it is
    an ordinary message.

    :param line: the person's own words, whole.
    """
    found = _LINE.fullmatch(line.strip())
    if found is None:
        return None
    name, rest = f"/{found[1].lower()}", (found[2] or "").strip()
    command = COMMANDS.get(name)
    if command is None:
        near = get_close_matches(name, COMMANDS, 1, _LIKE)
        if rest or not near:
            return None
        return say("there is no command {name}; did you mean {near}?", name=name, near=near[0])
    changes = command.shared and (rest or command.run in _ALWAYS_CHANGE)
    if changes and not (desk.direct or desk.owner):
        return say("{name} would change this conversation for everybody: only an owner may", name=name)
    try:
        return await command.run(rest, desk)
    except ClawError as failed:
        return str(failed)


async def _help(rest: str, desk: Desk) -> str:
    rows = [(f"{each.name} {each.usage}".strip(), say(each.meaning)) for each in COMMANDS.values()]
    return "\n".join(f"{head} — {meaning}" for head, meaning in rows)


async def _reset(rest: str, desk: Desk) -> str:
    desk.choose_nothing()
    return await _new(rest, desk)


async def _new(rest: str, desk: Desk) -> str:
    """A fresh conversation; a model at the head of the rest is chosen, what remains is its first message."""
    first, _, text = rest.partition(" ")
    if "/" in first and not first.startswith("/"):
        models = await desk.models()
        if first.partition("/")[0].lower() in models.providers:
            desk.choose(model=named(first, models))
            rest = text.strip()
    await desk.forget()
    if rest:
        await desk.hear(rest)
    return say("a new conversation")


async def _stop(rest: str, desk: Desk) -> str:
    return await desk.stop()


async def _status(rest: str, desk: Desk) -> str:
    return "\n".join(f"{label}: {value}" for label, value in (await desk.status()).items())


async def _tools(rest: str, desk: Desk) -> str:
    rows = [f"{name}: {meaning}" for name, meaning in await desk.tools()]
    return "\n".join(rows) or say("no tools here")


async def _context(rest: str, desk: Desk) -> str:
    costs = await desk.costs()
    percent = round(100 * costs.used / costs.window) if costs.window else 0
    used, window = f"{costs.used:,}", f"{costs.window:,}"
    head = say(
        "the last request: {used} of {window} tokens ({percent} %)", used=used, window=window, percent=percent
    )
    lines = [
        head,
        *([say("cost: {spent}", spent=costs.spent)] if costs.spent else []),
        say("of these, about:"),
    ]
    lines += [f"  {name}: {tokens:,}" for name, tokens in costs.sections]
    dear = sorted(costs.tools, key=lambda row: -row[1])
    total = sum(tokens for _, tokens in dear)
    lines.append(say("tools, {count} of them: {tokens}", count=len(dear), tokens=f"{total:,}"))
    lines += [f"  {name}: {tokens:,}" for name, tokens in dear[:_MOST_TOOLS]]
    if more := dear[_MOST_TOOLS:]:
        lines.append(say("  {count} more: {tokens}", count=len(more), tokens=f"{sum(t for _, t in more):,}"))
    return "\n".join(lines)


async def _compact(rest: str, desk: Desk) -> str:
    return await desk.compact(rest)


async def _model(rest: str, desk: Desk) -> str:
    models = await desk.models()
    if not rest:
        known = ", ".join(models.known)
        return say("model: {model}. There are: {known}", model=models.current, known=known)
    if rest.lower() == DEFAULT:
        desk.choose(model="")
        return say("model: {model}", model=(await desk.models()).current)
    model = named(rest, models)
    desk.choose(model=model)
    return say("model: {model}, until /reset", model=model)


def named(text: str, models: Models) -> str:
    """The model that somebody means: a known name or alias, its last part when that is one's alone, or
    ``provider/model`` of a provider that is here. ``@KEY`` behind it stays: the key to use first.

    :raises UsageError: none; it names the nearest one.
    """
    wanted = text.strip()
    alike = [name for name in models.known if name.lower() == wanted.lower()]
    alike = alike or [name for name in models.known if name.partition("/")[2].lower() == wanted.lower()]
    if len(alike) == 1:
        return alike[0]
    head, _, key = wanted.rpartition("@")
    if head:
        return f"{named(head, models)}@{key}"
    provider, slash, model = wanted.partition("/")
    if slash and model and provider.lower() in models.providers:
        return f"{provider.lower()}/{model}"
    near = max(
        models.known, key=lambda name: SequenceMatcher(None, wanted.lower(), name.lower()).ratio(), default=""
    )
    if near:
        raise UsageError("there is no model {name}", fix="did you mean {near}?", name=wanted, near=near)
    raise UsageError("there is no model {name}", fix="write it as provider/model", name=wanted)


async def _think(rest: str, desk: Desk) -> str:
    if not rest:
        now = desk.chosen.thinking or DEFAULT
        return say("thinking: {level}. There are: {known}", level=now, known=", ".join((*THINKING, DEFAULT)))
    level = _one_of(rest, THINKING)
    desk.choose(thinking=level)
    return say("thinking: {level}", level=level or DEFAULT)


async def _queue(rest: str, desk: Desk) -> str:
    if not rest:
        now = desk.chosen.queue or DEFAULT
        return say("queue: {mode}. There are: {known}", mode=now, known=", ".join((*QUEUE, DEFAULT)))
    mode = _one_of(rest, QUEUE)
    desk.choose(queue=mode)
    return say("queue: {mode}", mode=mode or DEFAULT)


async def _reasoning(rest: str, desk: Desk) -> str:
    if rest:
        word = _one_of(rest, ("on", "off"))
        desk.choose(reasoning={"on": True, "off": False, "": None}[word])
    now = {True: "on", False: "off", None: DEFAULT}[desk.chosen.reasoning]
    return say("reasoning is shown: {word}", word=now)


async def _approve(rest: str, desk: Desk) -> str:
    words = rest.split()
    if not words:
        rows = [f"{id}: {about}" for id, about in desk.questions()]
        return "\n".join(rows) or say("nothing waits for an answer of yours")
    verdict = words[1].lower() if len(words) > 1 else "once"
    if verdict not in VERDICTS or len(words) > 2:
        raise UsageError("/approve takes an id and once, always or deny", fix="/approve ID deny")
    return desk.decide(words[0], verdict)


def _one_of(word: str, known: Sequence[str]) -> str:
    """The known word; empty for ``default``.

    :raises UsageError: it is none of them; one that is near is named.
    """
    wanted = word.strip().lower()
    if wanted == DEFAULT:
        return ""
    if wanted in known:
        return wanted
    near = get_close_matches(wanted, known, n=1, cutoff=_LIKE)
    raise UsageError(
        "{word} is none of {known}",
        fix="did you mean {near}?" if near else "",
        word=word,
        known=", ".join((*known, DEFAULT)),
        near=near[0] if near else "",
    )


_ALWAYS_CHANGE = (_new, _reset, _compact)
COMMANDS: dict[str, Command] = {
    each.name: each
    for each in (
        Command("/help", "show these commands", "", _help),
        Command(
            "/new",
            "start a new conversation; the old one is kept aside",
            "[provider/model] [text]",
            _new,
            True,
        ),
        Command(
            "/reset",
            "the same, and what was chosen here is taken back",
            "[provider/model] [text]",
            _reset,
            True,
        ),
        Command("/stop", "stop the turn that runs", "", _stop),
        Command("/status", "agent, model, conversation, how full the context is", "", _status),
        Command("/context", "what a request takes: sections of the prompt, tools", "", _context),
        Command("/tools", "the tools of this agent here", "", _tools),
        Command("/model", "which model answers here", "[provider/model[@key] | default]", _model, True),
        Command("/think", "how much the model thinks", f"[{' | '.join(THINKING)} | default]", _think, True),
        Command("/reasoning", "whether what it thinks is shown", "[on | off | default]", _reasoning, True),
        Command(
            "/queue",
            "what a message does while a turn runs",
            f"[{' | '.join(QUEUE)} | default]",
            _queue,
            True,
        ),
        Command("/compact", "make the past shorter", "[what matters]", _compact, True, long=True),
        Command(
            "/approve", "answer what an agent asked to be allowed", "[ID [once | always | deny]]", _approve
        ),
    )
}
"""All commands by their names, in the order of ``/help``."""


def chat_menu() -> tuple[tuple[str, str, str], ...]:
    """The chat commands, for a service that lists them itself: the name without its slash, what it does (in the language
    in use), and what may follow it, empty when nothing may."""
    return tuple((each.name[1:], say(each.meaning), each.usage) for each in COMMANDS.values())
