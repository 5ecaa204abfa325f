"""The presentation of an approval request: its text, its form as a message, its buttons. Pure."""

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from claw import ApprovalRequest, Button, Outbound, ToolError, t
from claw.runtime import normalise_tool_name
from claw_channel_sdk import PendingApproval
from claw_tool_sdk import is_decided_by_words, split_single_command

VERDICTS = ("once", "always", "deny")
MAX_SHOWN_CHARS = 3500
"""Limit of characters that fit whole into a few messages of any channel; a longer text cannot be approved."""

# Characters without width or that look blank, beyond those of the hidden categories (Unicode 15).
_INVISIBLE = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zs", "Zl", "Zp"})
_VISIBLE_BLANKS = frozenset("\n\t \u3000")
_FENCE = re.compile("`{3,}")
_LONG_RUN = re.compile(r" {40,}|\t{8,}|\n{5,}")


def visible(text: str) -> str:
    """Return the text with every character that a screen would hide or reorder written out, ``⟨U+202E⟩``.

    Line ends and tabs stay; a run of blanks that could push text out of sight is replaced by its length.
    """
    counted = _LONG_RUN.sub(lambda run: f"⟨{len(run[0])} × U+{ord(run[0][0]):04X}⟩", text)
    return "".join(char if _is_visible(char) else f"⟨U+{ord(char):04X}⟩" for char in counted)


def _is_visible(char: str) -> bool:
    if char in _VISIBLE_BLANKS:
        return True
    selector = 0xFE00 <= ord(char) <= 0xFE0F or 0xE0100 <= ord(char) <= 0xE01EF
    return unicodedata.category(char) not in _HIDDEN and char not in _INVISIBLE and not selector


def can_allow_always(tool: str, arguments: Mapping[str, Any]) -> bool:
    """Return true if this call may be allowed for always: only when its arguments alone decide what it does, no file."""
    name = normalise_tool_name(tool)
    if name != "exec":
        return name != "process"
    try:
        return is_decided_by_words(split_single_command(str(arguments.get("command", ""))))
    except ToolError:
        return False


def presentable(request: ApprovalRequest) -> ApprovalRequest:
    """Return the request as it is shown: nothing in it is hidden, and it is lasting only if the call can be."""
    shown = visible(request.shown) if len(request.shown) <= MAX_SHOWN_CHARS else request.shown
    grant = request.grant if can_allow_always(request.tool, request.arguments) else ""
    return replace(request, shown=shown, grant=grant)


def asked_by(request: ApprovalRequest) -> str:
    """Return the person whose message led to the request, ``channel:id``; empty when it is not known."""
    return f"{request.address.channel}:{request.sender.id}" if request.sender else ""


def headline(request: ApprovalRequest) -> str:
    """Return agent, tool and title on one line: line breaks in a title could imitate our own text."""
    head = t("Agent {agent} asks to run {tool}", agent=request.agent, tool=request.tool)
    title = " ".join(visible(request.title).split())
    return f"{head} — {title}" if title else head


def as_text(question: PendingApproval, seconds: float, outcome: str = "") -> str:
    """Return the request as Markdown.

    The shown text cannot end its code fence: runs of three backticks are split by a zero-width character,
    because some services (Discord) do not support a longer fence.

    :param seconds: how long it may still be answered.
    :param outcome: of a decided request, in place of how to answer it.
    """
    head, shown = (
        _FENCE.sub(lambda run: "\u200b".join(run[0]), text)
        for text in (headline(question.request), question.request.shown)
    )
    how = outcome or t(
        "Answer within {minutes} min ({verdicts}): press a button, or reply /approve {id} VERDICT.",
        minutes=max(1, round(seconds / 60)), verdicts=[*question.verdicts], id=question.id,
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
    return Outbound(
        f"approve:{question.id}",
        question.request.address,
        as_text(question, seconds),
        buttons=buttons(question),
    )


def parse_button(value: str) -> tuple[str, str] | None:
    """Return id and verdict of one of our buttons; None for any other."""
    word, _, rest = value.partition(":")
    id, _, verdict = rest.partition(":")
    return (id, verdict) if word == "approve" and id and verdict in VERDICTS else None
