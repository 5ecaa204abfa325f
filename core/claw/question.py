"""A question to a person about one call: shown whole, bound to what it would do, answered with once, always or deny.

Pure: what it says, what binds it, how it is written into a message and read from a button.
"""

import hashlib
import json
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from claw.catalog import normalise
from claw.config.tools import is_interpreter
from claw.errors import ToolError
from claw.guard.command import split_plain
from claw.message import Address, Button, Outbound
from claw.words import say

VERDICTS = ("once", "always", "deny")
MOST_CHARS = 3500
"""What can be shown whole in a few messages of any channel; a longer text cannot be allowed by anybody."""

FOR_OWNERS = "owners:"
"""Begins the digest of a question that only owners may answer."""
_LAUNCHERS = frozenset({
    "sudo", "doas", "su", "nohup", "nice", "ionice", "timeout", "time", "stdbuf", "setsid", "chroot", "unshare",
    "nsenter", "ssh", "watch", "script", "strace", "ltrace", "gdb", "parallel", "npx", "npm", "pnpm", "yarn", "uv", "uvx",
    "pip", "pipx", "poetry", "make", "cmake", "ninja", "cargo", "go", "docker", "podman", "kubectl", "systemd-run",
    "at", "batch", "crontab", "exec", "eval", "command", "builtin", "source", "flock", "ld.so", "screen", "tmux",
    "pytest", "tox", "nox", "mvn", "gradle", "rake", "bundle", "just", "jest", "dotnet", "composer",
})  # fmt: skip
"""Programs that start another one, or what files of the workspace say: to allow them for always would allow that."""
# Letters that take no room or look like a blank, beyond what their category says (Unicode 15).
_UNSEEN = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zs", "Zl", "Zp"})
_SEEN_BLANKS = frozenset("\n\t \u3000")
_FENCE = re.compile("`{3,}")
_LONG_RUN = re.compile(r" {40,}|\t{8,}|\n{5,}")


@dataclass(frozen=True, slots=True)
class Request:
    """What a person is to allow.

    :param turn: id of the turn that would do it.
    :param shown: the whole command or difference, as :func:`visible` text.
    :param digest: of all that decides what would happen (:func:`digest_of`): a pending request of the same session with
        the same digest is the same request, also after a restart.
    :param origin: the chat that the turn came from, where the question is put.
    :param asked_by: whose message led to it, ``channel:id``.
    :param reachable: somebody who may allow it can read that chat; False when the asker is alone there and may not.
    :param grant: digest of the arguments that an ``always`` is kept for; empty = it can only be allowed once.
    """

    session_key: str
    agent: str
    turn: str
    tool: str
    title: str
    shown: str
    digest: str
    origin: Address
    asked_by: str = ""
    grant: str = ""
    reachable: bool = True

    @property
    def for_owners(self) -> bool:
        """Whether approvers who are no owners may not answer it; its digest says so."""
        return self.digest.startswith(FOR_OWNERS)


@dataclass(frozen=True, slots=True)
class Question:
    """A request that waits for an answer.

    :param id: short, cannot be guessed.
    :param expires_at_ms: milliseconds since 1970, UTC.
    """

    id: str
    request: Request
    asked_at_ms: int
    expires_at_ms: int

    @property
    def verdicts(self) -> tuple[str, ...]:
        """What may be answered."""
        return VERDICTS if self.request.grant else ("once", "deny")


def digest_of(*parts: Any) -> str:
    """One name for data: equal for equal JSON-like data, whatever the order of its keys."""
    written = json.dumps(parts, sort_keys=True, ensure_ascii=True, separators=(",", ":"), default=repr)
    return hashlib.sha256(written.encode()).hexdigest()


def visible(text: str) -> str:
    """The text with everything that a screen would hide or turn round written out, ``⟨U+202E⟩``.

    Line ends and tabs stay; a run of blanks that could push words out of sight is counted instead.
    """
    counted = _LONG_RUN.sub(lambda run: f"⟨{len(run[0])} × U+{ord(run[0][0]):04X}⟩", text)
    return "".join(letter if _is_seen(letter) else f"⟨U+{ord(letter):04X}⟩" for letter in counted)


def _is_seen(letter: str) -> bool:
    if letter in _SEEN_BLANKS:
        return True
    selector = 0xFE00 <= ord(letter) <= 0xFE0F or 0xE0100 <= ord(letter) <= 0xE01EF
    return unicodedata.category(letter) not in _HIDDEN and letter not in _UNSEEN and not selector


def laid_out(arguments: Mapping[str, Any]) -> str:
    """All arguments of a call for a person to read: a line each, texts of several lines as an indented block."""
    lines = []
    for name, value in arguments.items():
        if isinstance(value, str) and "\n" in value:
            lines.append(f"{name}:\n" + "\n".join(f"    {line}" for line in value.split("\n")))
        else:
            plain = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=repr)
            lines.append(f"{name}: {plain}")
    return "\n".join(lines)


def may_last(tool: str, arguments: Mapping[str, Any]) -> bool:
    """Whether this call may be allowed for always: not when it starts whatever another text or program says."""
    name = normalise(tool)
    if name != "exec":
        return name != "process"
    try:
        program = split_plain(str(arguments.get("command", "")))[0]
    except ToolError:
        return False
    return not (is_interpreter(program) or program.rsplit("/", 1)[-1].lower() in _LAUNCHERS)


def headline(request: Request) -> str:
    """Who wants to do what, on one line: a title with lines of its own could pass for ours."""
    head = say("{agent} wants to use {tool}", agent=request.agent, tool=request.tool)
    title = " ".join(visible(request.title).split())
    return f"{head} — {title}" if title else head


def as_text(question: Question, seconds: float) -> str:
    """The question as Markdown. Nothing in what is shown can end the fence that it stands in: three backticks together
    are parted by what has no width, as not every service (Discord) knows a longer fence.

    :param seconds: for how long it may be answered.
    """
    head, shown = (
        _FENCE.sub(lambda run: "\u200b".join(run[0]), text)
        for text in (headline(question.request), question.request.shown)
    )
    how = say(
        "Answer within {minutes} min: {verdicts}, by button or as /approve {id} VERDICT.",
        minutes=max(1, round(seconds / 60)), verdicts=", ".join(question.verdicts), id=question.id,
    )  # fmt: skip
    return f"{head}\n```\n{shown}\n```\n{how}"


def buttons(question: Question) -> tuple[Button, ...]:
    """What may be pressed below the question; the values are read by :func:`pressed`."""
    labels = {
        "once": Button(say("Allow once"), f"approve:{question.id}:once", "primary"),
        "always": Button(say("Always"), f"approve:{question.id}:always"),
        "deny": Button(say("Deny"), f"approve:{question.id}:deny", "danger"),
    }
    return tuple(labels[verdict] for verdict in question.verdicts)


def as_message(question: Question, seconds: float) -> Outbound:
    """The question as a message to the chat that its turn came from; its key is the question's own."""
    origin = question.request.origin
    return Outbound(f"approve:{question.id}", origin, as_text(question, seconds), buttons=buttons(question))


def pressed(value: str) -> tuple[str, str] | None:
    """Id and verdict of a button of ours; None for any other."""
    word, _, rest = value.partition(":")
    id, _, verdict = rest.partition(":")
    return (id, verdict) if word == "approve" and id and verdict in VERDICTS else None
