"""The outcome of a turn whose model has finished: an answer, silence on purpose, or an error (pure).

The second half reads reply directives, the parts of an answer for claw and not for people: stay silent, quote a message,
send a file or voice note. Order: ``MEDIA:`` lines, then ``[[tags]]``, then the silent token (spec/runtime.md K1 to K3,
after OpenClaw 2026.3).
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from claw.agent.models import empty_answer_error
from claw.agent.routing import JOB_CHANNELS
from claw.contracts.errors import ClawError
from claw.contracts.events import TurnEnded
from claw.contracts.messages import Address
from claw.contracts.transcript import Assistant, Message, ToolResultMessage, User

_MESSAGE_TOOL = "message"


def turn_outcome(
    turn: str,
    answer: Assistant | None,
    spoken: Sequence[Message],
    here: Address,
    tokens: Sequence[str],
    ran_out: bool,
) -> TurnEnded:
    """Return the end of a turn whose loop returned.

    The text before its last calls is its answer when the last one is empty: the person was sent nothing else.

    :param spoken: the conversation, ``answer`` included. ``here``: the chat that is answered.
    :param tokens: the tokens by which an agent stays silent.
    :param ran_out: the model would have gone on, and had made all the calls that it may.
    :raises ClawError: there is no text, and not on purpose.
    """
    if answer is None:
        return TurnEnded(turn, "failed", "")
    if answer.stop_reason in ("error", "aborted"):
        failed = answer.stop_reason == "error"
        return TurnEnded(turn, "failed" if failed else "stopped", answer.text or answer.error)
    earlier = [message for message in _of_turn(spoken) if message is not answer]
    text, reply = answer.text, parse_reply(answer.text, silent_tokens=tokens)
    if not (reply.text.strip() or reply.media or reply.silent) and (text := _newest_text(earlier)):
        reply = parse_reply(text, silent_tokens=tokens)
    if reply.text.strip() or reply.media:
        return TurnEnded(turn, "delivered", text)
    ended_by_tool = bool(answer.tool_calls) and not ran_out
    if reply.silent or ended_by_tool or here.channel in JOB_CHANNELS or _was_sent(earlier, here):
        return TurnEnded(turn, "silent", text)
    if ran_out:
        raise ClawError(
            "the agent used all the model calls allowed for one message and gave no answer",
            fix="ask it to continue, or raise agents.defaults.maxTurns",
        )
    raise empty_answer_error(answer, answer.model)


def may_be_empty(messages: Sequence[Message], here: Address) -> bool:
    """Return true if the turn may end with an empty answer: it has spoken, or no person would read it.

    It has spoken in text before its calls, or with the message tool in this very chat.
    """
    turn = list(_of_turn(messages))
    return here.channel in JOB_CHANNELS or bool(_newest_text(turn)) or _was_sent(turn, here)


def _newest_text(turn: Sequence[Message]) -> str:
    """Return the newest text of the turn that was not cut off."""
    said = (m for m in turn if isinstance(m, Assistant) and m.stop_reason not in ("error", "aborted"))
    return next((message.text for message in said if message.text.strip()), "")


def _was_sent(turn: Sequence[Message], here: Address) -> bool:
    done: set[str] = set()
    for message in turn:
        if (
            isinstance(message, ToolResultMessage)
            and message.tool_name == _MESSAGE_TOOL
            and not message.is_error
        ):
            done.add(message.call_id)
        elif isinstance(message, Assistant):
            for call in message.tool_calls:
                if (
                    call.id in done
                    and call.arguments.get("action") != "delete"
                    and _is_to_chat(call.arguments, here)
                ):
                    return True
    return False


def _is_to_chat(arguments: dict[str, object], here: Address) -> bool:
    target = arguments.get("target") or arguments.get("to") or ""
    is_target = target in ("", here.chat, f"{here.channel}:{here.chat}")
    return is_target and (arguments.get("channel") or here.channel) == here.channel


def _of_turn(messages: Sequence[Message]) -> Iterator[Message]:
    """Yield the messages of this turn, the newest first."""
    for message in reversed(messages):
        if isinstance(message, User) and not message.kind:
            return
        yield message


# --- directives

ALSO_SILENT = ("__SILENT__", "🕊️_NO_REPLY")
"""Tokens that models know from other prompts; they count like the configured one."""


@dataclass(frozen=True, slots=True)
class ParsedReply:
    """A parsed answer.

    :param text: the text for people.
    :param silent: the answer has no text on purpose; media may still be sent.
    :param reply_to: id of the message to quote; None when the answer names no known one.
    :param to_current: it asked to quote the present message, even when its id is unknown.
    :param media: paths and http(s) addresses as written; not checked.
    :param voice: send the audio as a voice note.
    """

    text: str
    silent: bool = False
    reply_to: str | None = None
    to_current: bool = False
    media: tuple[str, ...] = ()
    voice: bool = False


def silent_tokens(configured: str) -> tuple[str, ...]:
    """Return all silent tokens, the configured one first."""
    return tuple(dict.fromkeys((configured, *ALSO_SILENT)))


def parse_reply(text: str, *, silent_tokens: Sequence[str], message_id: str = "") -> ParsedReply:
    """Parse a complete answer.

    :param message_id: of the message that is answered; empty when the channel has none.
    """
    words, media = _without_media(text.rstrip())
    words, tags = _without_tags(words)
    if media or tags:
        words = _clean_blanks(words)
    visible = _without_token(words, silent_tokens)
    silent = bool(words.strip()) and not visible
    ids = [id.strip() for id in tags if id and id.strip()]
    current = "" in tags
    return ParsedReply(
        visible,
        silent,
        reply_to=ids[-1] if ids else message_id or None if current else None,
        to_current=current,
        media=media,
        voice=None in tags,
    )


def may_become_silent(prefix: str, tokens: Sequence[str]) -> bool:
    """Return true if the beginning of an answer may still become only a silent token, so it must not be shown yet."""
    piece = prefix.lstrip()
    if not piece or piece != piece.upper():
        return False
    return any(
        token.startswith(piece) and ("_" in piece or (piece.isalpha() and token[len(piece)] == "_"))
        for token in tokens
    )


def visible_part(text: str, tokens: Sequence[str]) -> str:
    """Return the part of a streaming answer that may be shown: no directive, and no beginning of one."""
    if may_become_silent(text, tokens):
        return ""
    lines = text.split("\n")
    last = lines[-1].lstrip()
    if last and (last.startswith("MEDIA:") or "MEDIA:".startswith(last)):
        text = text[: len(text) - len(lines[-1])]
    elif (opened := text.rfind("[[", -_TAG_CHARS)) >= 0 and "]]" not in text[opened:]:
        text = text[:opened]
    elif text.endswith("["):
        text = text[:-1]
    elif last and not text[-1].isspace():
        word = last.split()[-1].rpartition("*")[2]
        if len(word) < len(text) and may_become_silent(word, tokens):
            text = text[: len(text) - len(word)].rstrip("*")
    return parse_reply(text, silent_tokens=tokens).text


# --- silence


def _without_token(text: str, tokens: Sequence[str]) -> str:
    """Remove silent tokens at the end of the text, after a blank, a line end or asterisks."""
    rest: str | None = text.rstrip()
    while rest is not None:
        text = rest
        rest = next((left for token in tokens if (left := _remove_token(text, token)) is not None), None)
    return text


def _remove_token(text: str, token: str) -> str | None:
    """Return the text before a token that ends it; None when it does not end with the token."""
    before = text.removesuffix(token)
    if before == text or (before and not before[-1].isspace() and before[-1] != "*"):
        return None
    return before.rstrip("*").rstrip() if before.endswith("*") else before.rstrip()


# --- tags

_TAG_CHARS = 200  # an id is shorter: an open bracket further back is no tag
_TAG = re.compile(
    r"\[\[\s{0,9}(?:(?P<current>reply_to_current)|reply_to\s{0,9}:\s{0,9}(?P<id>[^\]\s][^\]\n]{0,200})|audio_as_voice)"
    r"\s{0,9}\]\][ \t]*",
    re.IGNORECASE,
)


def _without_tags(text: str) -> tuple[str, list[str | None]]:
    """Return the text without tags, and their values in order: an id, empty for the present message, None for voice."""
    tag_values: list[str | None] = []

    def note(found: re.Match[str]) -> str:
        tag_values.append("" if found["current"] else found["id"])
        return " " if text[max(found.start() - 1, 0) : found.start()].strip() else ""

    return _TAG.sub(note, text), tag_values


def _clean_blanks(text: str) -> str:
    """Clean up after removing directives: double blanks inside a line, blanks at its end."""
    lines = [
        line if fenced else re.sub(r"(?<=\S)[ \t]{2,}", " ", line.rstrip()) for line, fenced in _lines(text)
    ]
    return "\n".join(lines).strip()


# --- media


def _lines(text: str) -> Iterator[tuple[str, bool]]:
    """Yield each line, and true if it belongs to a code fence (its two fence lines included)."""
    fence = ""
    for line in text.split("\n"):
        mark = re.match(r" {0,3}(`{3,}|~{3,})(.*)", line)
        inside = bool(fence)
        if mark and not fence:
            fence, inside = mark[1], True
        elif mark and mark[1].startswith(fence) and not mark[2].strip():
            fence = ""
        yield line, inside


def _without_media(text: str) -> tuple[str, tuple[str, ...]]:
    kept: list[str] = []
    media: list[str] = []
    for line, fenced in _lines(text):
        found = None if fenced else re.match(r"\s*MEDIA:\s*(\S.*)", line)
        sources, rest = _sources(found[1].strip()) if found else ([], "")
        if not sources:
            kept.append(line)
        elif rest:
            kept.append(rest)
        elif kept and not kept[-1].strip() and media:
            kept.pop()  # one empty line, not two, in the place of a paragraph of media
        media += sources
    return "\n".join(kept), tuple(media)


def _sources(payload: str) -> tuple[list[str], str]:
    """Return the files and addresses that a payload names, and the remaining words."""
    if len(payload) > 1 and payload[0] == payload[-1] and payload[0] in "\"'`":
        whole = _strip_quotes(payload[1:-1].strip())
        return ([whole], "") if _is_source(whole) or _EXTENSION.search(whole) else ([], "")
    items = [_strip_quotes(item.removeprefix("MEDIA:")) for item in payload.split()]
    good = [item for item in items if _is_source(item)]
    if len(good) < len(items) and _is_local(payload):
        return [_strip_quotes(payload)], ""
    if not good and len(items) == 1 and not _SCHEME.match(items[0]) and _EXTENSION.search(items[0]):
        return items, ""
    words = [raw for raw, item in zip(payload.split(), items, strict=True) if not _is_source(item)]
    return good, " ".join(words)


_MOST_CHARS = 4096
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_DRIVE = re.compile(r"[A-Za-z]:[\\/]")
_EXTENSION = re.compile(r"\.\w{1,10}\Z")


def _strip_quotes(item: str) -> str:
    return item.lstrip("`\"'[{(").rstrip("`\"'\\})],").removeprefix("file://")


def _is_source(item: str) -> bool:
    address = re.match(r"https?://\S", item, re.IGNORECASE)
    return 0 < len(item) <= _MOST_CHARS and (bool(address) or _is_local(item))


def _is_local(item: str) -> bool:
    if _DRIVE.match(item) or item.startswith(("/", "./", "../", "~", "\\\\", "file://")):
        return True
    return not _SCHEME.match(item) and ("/" in item or "\\" in item)
