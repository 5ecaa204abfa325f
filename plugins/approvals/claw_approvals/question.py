"""An approval request for one call: shown whole, bound by a digest to its effect, answered with once, always
or deny.

Pure: its text, its digest, its form as a message, and the parsing of its buttons.
"""

import hashlib
import json
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from claw.config.agents import is_interpreter
from claw.contracts.errors import ToolError
from claw.contracts.messages import Address, Button, Outbound
from claw.i18n import t
from claw.policy.catalog import normalise_tool_name
from claw.security.command_line import split_single_command

VERDICTS = ("once", "always", "deny")
MAX_SHOWN_CHARS = 3500
"""Limit of characters that fit whole into a few messages of any channel; a longer text cannot be approved."""

FOR_OWNERS = "owners:"
"""Prefix of the digest of a request that only owners may answer."""
_LAUNCHERS = frozenset({
    "sudo", "doas", "su", "nohup", "nice", "ionice", "timeout", "time", "stdbuf", "setsid", "chroot", "unshare",
    "nsenter", "ssh", "watch", "script", "strace", "ltrace", "gdb", "parallel", "npx", "npm", "pnpm", "yarn", "uv", "uvx",
    "pip", "pipx", "poetry", "make", "cmake", "ninja", "cargo", "go", "docker", "podman", "kubectl", "systemd-run",
    "at", "batch", "crontab", "exec", "eval", "command", "builtin", "source", "flock", "ld.so", "screen", "tmux",
    "pytest", "tox", "nox", "mvn", "gradle", "rake", "bundle", "just", "jest", "dotnet", "composer",
})  # fmt: skip
"""Programs that start another program, or obey files of the workspace: to allow them for always would allow
that too.
"""
# Characters without width or that look blank, beyond those of the hidden categories (Unicode 15).
_INVISIBLE = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zs", "Zl", "Zp"})
_VISIBLE_BLANKS = frozenset("\n\t \u3000")
_FENCE = re.compile("`{3,}")
_LONG_RUN = re.compile(r" {40,}|\t{8,}|\n{5,}")


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """A call that a person is to approve.

    :param turn: id of the turn that makes the call.
    :param shown: the whole command or difference, as :func:`visible` text.
    :param digest: of all that decides the effect (:func:`digest_of`): a pending request of the same session
        with the same digest is the same request, also after a restart.
    :param origin: the chat that the turn came from, where the request is shown.
    :param asked_by: the sender whose message led to the call, ``channel:id``.
    :param reachable: a person who may approve it can read that chat; False when the sender is alone there and
        may not.
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
    requested_by: str = ""
    grant: str = ""
    reachable: bool = True

    @property
    def for_owners(self) -> bool:
        """True if approvers who are not owners may not answer it; its digest says so."""
        return self.digest.startswith(FOR_OWNERS)


@dataclass(frozen=True, slots=True)
class PendingApproval:
    """An approval request that waits for an answer.

    :param id: short, cannot be guessed.
    :param expires_at_ms: milliseconds since 1970, UTC.
    """

    id: str
    request: ApprovalRequest
    asked_at_ms: int
    expires_at_ms: int

    @property
    def verdicts(self) -> tuple[str, ...]:
        """The possible answers."""
        return VERDICTS if self.request.grant else ("once", "deny")


def digest_of(*parts: Any) -> str:
    """Return a digest of JSON-like data: equal for equal data, independent of the order of keys."""
    written = json.dumps(parts, sort_keys=True, ensure_ascii=True, separators=(",", ":"), default=repr)
    return hashlib.sha256(written.encode()).hexdigest()


def visible(text: str) -> str:
    """Return the text with every character that a screen would hide or reorder written out, ``⟨U+202E⟩``.

    Line ends and tabs stay; a run of blanks that could push text out of sight is replaced by its length.
    """
    counted = _LONG_RUN.sub(lambda run: f"⟨{len(run[0])} × U+{ord(run[0][0]):04X}⟩", text)
    return "".join(reply if _is_visible(reply) else f"⟨U+{ord(reply):04X}⟩" for reply in counted)


def _is_visible(reply: str) -> bool:
    if reply in _VISIBLE_BLANKS:
        return True
    selector = 0xFE00 <= ord(reply) <= 0xFE0F or 0xE0100 <= ord(reply) <= 0xE01EF
    return unicodedata.category(reply) not in _HIDDEN and reply not in _INVISIBLE and not selector


def format_arguments(arguments: Mapping[str, Any]) -> str:
    """Return all arguments of a call as readable text: a line each, multi-line texts as an indented block."""
    lines = []
    for name, value in arguments.items():
        if isinstance(value, str) and "\n" in value:
            lines.append(f"{name}:\n" + "\n".join(f"    {line}" for line in value.split("\n")))
        else:
            plain = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=repr)
            lines.append(f"{name}: {plain}")
    return "\n".join(lines)


def can_allow_always(tool: str, arguments: Mapping[str, Any]) -> bool:
    """Return true if this call may be allowed for always: not when it runs what another text or program says."""
    name = normalise_tool_name(tool)
    if name != "exec":
        return name != "process"
    try:
        program = split_single_command(str(arguments.get("command", "")))[0]
    except ToolError:
        return False
    return not (is_interpreter(program) or program.rsplit("/", 1)[-1].lower() in _LAUNCHERS)


def headline(request: ApprovalRequest) -> str:
    """Return agent, tool and title on one line: line breaks in a title could imitate our own text."""
    head = t("Agent {agent} asks to run {tool}", agent=request.agent, tool=request.tool)
    title = " ".join(visible(request.title).split())
    return f"{head} — {title}" if title else head


def as_text(question: PendingApproval, seconds: float) -> str:
    """Return the request as Markdown.

    The shown text cannot end its code fence: runs of three backticks are split by a zero-width character,
    because some services (Discord) do not support a longer fence.

    :param seconds: how long it may still be answered.
    """
    head, shown = (
        _FENCE.sub(lambda run: "\u200b".join(run[0]), text)
        for text in (headline(question.request), question.request.shown)
    )
    how = t(
        "Answer within {minutes} min ({verdicts}): press a button, or reply /approve {id} VERDICT.",
        minutes=max(1, round(seconds / 60)), verdicts=", ".join(question.verdicts), id=question.id,
    )  # fmt: skip
    return f"{head}\n```\n{shown}\n```\n{how}"


def buttons(question: PendingApproval) -> tuple[Button, ...]:
    """Return the buttons below the request; their values are parsed by :func:`pressed`."""
    labels = {
        "once": Button(t("Allow once"), f"approve:{question.id}:once", "primary"),
        "always": Button(t("Always"), f"approve:{question.id}:always"),
        "deny": Button(t("Deny"), f"approve:{question.id}:deny", "danger"),
    }
    return tuple(labels[verdict] for verdict in question.verdicts)


def as_message(question: PendingApproval, seconds: float) -> Outbound:
    """Return the request as a message to the chat that its turn came from; its delivery key derives from its
    id.
    """
    origin = question.request.origin
    return Outbound(f"approve:{question.id}", origin, as_text(question, seconds), buttons=buttons(question))


def parse_button(value: str) -> tuple[str, str] | None:
    """Return id and verdict of one of our buttons; None for any other."""
    word, _, rest = value.partition(":")
    id, _, verdict = rest.partition(":")
    return (id, verdict) if word == "approve" and id and verdict in VERDICTS else None
