"""The replies of an ended turn, as messages of its channel: directives removed, cut to fit, with delivery
keys."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from claw import Attachment, Channel, Outbound, TurnEnded, t
from claw.runtime import (
    OPERATOR_ONLY,
    WAITS_FOR_REPLY,
    Runtime,
    TurnContext,
    run_filters,
    silent_tokens,
)
from claw_channel_sdk import split_text

from claw_gateway.attachments import copy_attachments
from claw_gateway.channel_turn import ChannelTurn
from claw_gateway.chat_api import OUTGOING
from claw_gateway.directives import parse_reply
from claw_gateway.journal import Journal, journal_of


async def replies_of_turn(
    runtime: Runtime, channel: Channel, turn: ChannelTurn, ending: TurnEnded, context: TurnContext | None
) -> tuple[Outbound, ...]:
    """Return the replies of an ended turn, in order; none when it stays silent."""
    message = turn.message
    failed = ending.outcome == "failed"
    text = _notice(turn, ending, runtime) if failed else ending.text
    if ending.outcome == "stopped":
        return ()
    reply = parse_reply(text, silent_tokens=silent_tokens_of(runtime), message_id=message.message_id)
    if ending.outcome == "silent":  # the token may be in backticks, or have a full stop
        reply = replace(reply, text="")
    if not reply.text and not reply.media:
        blank = Outbound(ending.turn, message.address, "", answers=message.message_id, tokens=turn.tokens)
        cut = turn.stop_reason == "length" and WAITS_FOR_REPLY in channel.capabilities
        return (replace(blank, stop_reason="length"),) if cut else ()
    files, refused = await _files(runtime, channel, turn, context, reply.media)
    body = "\n".join((reply.text, *refused)).strip()
    journal = journal_of(runtime)
    said = journal.replies_of(turn.id)
    blocks = [one.text for one in said if is_block(one.key)]
    body = _without_blocks(body, blocks)
    if body and not refused and _was_sent(body, said, message.address):
        body = ""
    if body and turn.notices and OPERATOR_ONLY not in channel.capabilities:
        body = "\n\n".join((body, *(f"({line})" for line in turn.notices)))
    if body and not failed and _shows_thinking(runtime, turn):
        thoughts = runtime.redact.answer_mask.masked(turn.thinking.strip())
        body = "\n".join(f"> {line}" for line in thoughts.splitlines()) + f"\n\n{body}"
    whole = Outbound(
        ending.turn, message.address, body, reply_to=reply.reply_to or (None if blocks else quoted_message_id(turn)),
        attachments=files, voice=reply.voice, answers=message.message_id, tokens=turn.tokens,
        stop_reason=_stop_reason(turn, failed),
    )  # fmt: skip
    allowed = await run_filters(whole, "outbound", runtime.plugins)
    if allowed is None:
        return ()
    turn.answer = allowed.text
    return split_reply(allowed, channel, replaceable(journal, channel, turn.id))


def replaceable(journal: Journal, channel: Channel, turn: str) -> tuple[str, ...]:
    """Return the messages of a stream that the replies of its turn replace.

    Where one more may be left whose id is lost, and can be found later, none is replaced: all are deleted then. A search
    needs a message behind the lost one.
    """
    shown, lost = journal.streamed(turn)
    return () if lost and hasattr(channel, "find_sent") else shown


def _stop_reason(turn: ChannelTurn, failed: bool) -> str:
    """Return the end of the answer in the words of ``Outbound.stop_reason``: no failure is called stop."""
    if failed:
        return "error" if turn.stop_reason in ("stop", "length") else turn.stop_reason
    return "length" if turn.ran_out else turn.stop_reason


def split_reply(whole: Outbound, channel: Channel, shown: Sequence[str] = ()) -> tuple[Outbound, ...]:
    """Split one answer into messages that fit: texts first, then the files; the first one quotes.

    The keys ``KEY``, ``KEY:1`` … are those of a stream too: what it posted just before a crash is not posted
    twice.

    :param shown: messages that a stream left; the first of these replace them, the last one all that are
        left.
    """
    texts = _split(whole.text, channel, whole.plain) if whole.text else ()
    plain = replace(whole, attachments=(), buttons=(), voice=False, replaces=())
    out = [replace(plain, text=text) for text in texts]
    for at in range(min(len(out), len(shown))):
        last = at == len(out) - 1
        out[at] = replace(out[at], replaces=tuple(shown[at:] if last else shown[at : at + 1]))
    if out and whole.buttons:
        out[-1] = replace(out[-1], buttons=whole.buttons)
    out += [replace(plain, text="", attachments=(file,), voice=whole.voice) for file in whole.attachments]
    behind = (replace(one, key=f"{whole.key}:{at}", reply_to=None) for at, one in enumerate(out[1:], 1))
    return (*out[:1], *behind)


def silent_tokens_of(runtime: Runtime) -> tuple[str, ...]:
    """Return the tokens by which an agent stays silent."""
    return silent_tokens(runtime.config.settings.messages.silent_token)


def _split(text: str, channel: Channel, is_plain: bool) -> tuple[str, ...]:
    if is_plain:  # with room for the channel's escape characters
        return split_text(text, replace(channel.limits, text_chars=channel.limits.text_chars * 9 // 10))
    split = getattr(channel, "split", None)
    if split is not None:
        try:
            return tuple(str(piece) for piece in split(text))
        except Exception:  # noqa: BLE001 - plugin code; the answer goes out all the same
            pass
    return split_text(text, channel.limits)


def quoted_message_id(turn: ChannelTurn) -> str | None:
    """Return the id of the message to quote: in groups only; a direct chat needs no quotation."""
    message = turn.message
    return message.message_id or None if message.chat_type != "direct" else None


def _notice(turn: ChannelTurn, ending: TurnEnded, runtime: Runtime) -> str:
    """Return the text for a turn without an answer: the cause for the owner, an apology for others."""
    if turn.route.owner:
        return t("No answer: {why}", why=runtime.redact(ending.text or t("the turn was interrupted")))
    return turn.excuse or _EXCUSES.get(turn.stop_reason, public_failure_text)()


_EXCUSES = {
    "empty": lambda: t("The model gave an empty answer. Please ask again."),
    "content_filter": lambda: t("The model or its service refused to answer this."),
    "no_call": lambda: t("The model did not call the tool that was asked for."),
}
"""By the reason of a failure, what everyone in the chat may read."""


def public_failure_text() -> str:
    """Return the text that anybody may see about a failure."""
    return t("Something went wrong here, and I could not answer. Please try again later.")


async def _files(
    runtime: Runtime, channel: Channel, turn: ChannelTurn, context: TurnContext | None, paths: Sequence[str]
) -> tuple[tuple[Attachment, ...], tuple[str, ...]]:
    if not paths or context is None:
        return (), ()
    folder: Path = runtime.config.home / OUTGOING
    limit = channel.limits.media_out_bytes
    here = [path for path in paths if not path.startswith(("http://", "https://"))]
    files, refused = await copy_attachments(here, context.fence, folder, turn.id, limit)
    return files, (*refused, *(path for path in paths if path not in here))  # a URL stays a link


def _shows_thinking(runtime: Runtime, turn: ChannelTurn) -> bool:
    """Return true if the thinking of the model was chosen to be shown here, and there is some."""
    chosen = runtime.sessions.overrides.of(turn.route.session_key).reasoning
    return bool(chosen and turn.thinking.strip())


def block_key(turn: str, number: int) -> str:
    """Return the delivery key of a part of an answer that goes out before its end."""
    return f"{turn}:b{number}"


def is_block(key: str) -> bool:
    """Return true if a delivery key is one of :func:`block_key`."""
    return key.partition(":")[2].startswith("b")


def _without_blocks(text: str, blocks: Sequence[str]) -> str:
    """Return the answer without the blocks that went out; all of it, when it does not contain them."""
    at = 0
    for block in blocks:
        found = text.find(block.strip(), at)
        if found >= 0:
            at = found + len(block.strip())
    return text[at:].strip() if at else text


def _was_sent(text: str, said: Sequence[Outbound], address: object) -> bool:
    """Return true if the agent has sent this text there already, with the message tool."""
    plain = " ".join(text.split()).casefold()
    there = (" ".join(one.text.split()).casefold() for one in said if one.address == address)
    return any(plain == one or (len(plain) > 20 and plain in one) for one in there)
