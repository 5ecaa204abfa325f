"""What a turn that ended has to say, as messages of its channel: directives taken out, cut to fit, keyed."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from claw import directives
from claw.channel import Channel
from claw.chunking import split_text
from claw.envelope import in_house
from claw.event import TurnEnded
from claw.guests import filtered
from claw.media import carried_out
from claw.message import Attachment, Outbound
from claw.stage import Rooms, Stage
from claw.talk import OUTGOING
from claw.turn import Errand
from claw.words import say


async def letters(
    rooms: Rooms, channel: Channel, errand: Errand, ending: TurnEnded, stage: Stage | None
) -> tuple[Outbound, ...]:
    """The messages that an ended turn owes its chat, in order; none when it stays silent."""
    message = errand.message
    failed = ending.outcome == "failed"
    text = _notice(errand, ending, rooms) if failed else ending.text
    if ending.outcome == "stopped":
        return ()
    reply = directives.parse(text, silent_tokens=tokens_of(rooms), message_id=message.message_id)
    if not reply.text and not reply.media:
        return ()
    files, refused = await _files(rooms, channel, errand, stage, reply.media)
    words = "\n".join((reply.text, *refused)).strip()
    said = rooms.journal.said(errand.turn)
    blocks = [one.text for one in said if is_block(one.key)]
    words = _rest(words, blocks)
    if words and not refused and _was_said(words, said, message.address):
        words = ""
    if words and errand.shortened and not in_house(message.address.channel):
        words = "\n\n".join((words, *(f"({line})" for line in errand.shortened)))
    if words and not failed and _shows_thinking(rooms, errand):
        thoughts = rooms.redact.said.masked(errand.thinking.strip())
        words = "\n".join(f"> {line}" for line in thoughts.splitlines()) + f"\n\n{words}"
    whole = Outbound(
        ending.turn, message.address, words, reply_to=reply.reply_to or (None if blocks else quoted(errand)),
        attachments=files, voice=reply.voice, answers=message.message_id, tokens=errand.tokens,
    )  # fmt: skip
    let_out = await filtered(whole, "outbound", rooms.kit.filters, rooms.yard, rooms.complain)
    if let_out is None:
        return ()
    errand.answer = let_out.text
    return pieces(let_out, channel, rooms.journal.standing(errand.turn)[0])


def pieces(whole: Outbound, channel: Channel, shown: Sequence[str] = ()) -> tuple[Outbound, ...]:
    """One answer as messages that fit: texts first, then the files; the first quotes. Keys ``KEY``, ``KEY:1`` … are those
    of a stream too: what it posted just before a death is not posted beside it.

    :param shown: messages that a stream left; they become the first of these, the last takes what is left of them.
    """
    texts = _cut(whole.text, channel, whole.plain) if whole.text else ()
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


def tokens_of(rooms: Rooms) -> tuple[str, ...]:
    """The words by which an agent stays silent."""
    return directives.silent_tokens(rooms.config.settings.messages.silent_token)


def _cut(text: str, channel: Channel, is_plain: bool) -> tuple[str, ...]:
    if is_plain:  # with room for the signs by which a channel says that a letter stands for itself
        return split_text(text, replace(channel.limits, text_chars=channel.limits.text_chars * 9 // 10))
    split = getattr(channel, "split", None)
    if split is not None:
        try:
            return tuple(str(piece) for piece in split(text))
        except Exception:  # noqa: BLE001 - a stranger's code; the answer goes out all the same
            pass
    return split_text(text, channel.limits)


def quoted(errand: Errand) -> str | None:
    """In a group people see what is answered; between two it is plain."""
    message = errand.message
    return message.message_id or None if message.chat_type != "direct" else None


def _notice(errand: Errand, ending: TurnEnded, rooms: Rooms) -> str:
    """Why there is no answer: the owner hears the cause, everybody else that there was one."""
    if errand.route.owner:
        return say("No answer: {why}", why=rooms.redact(ending.text or say("the turn was cut off")))
    return errand.excuse or excuse()


def excuse() -> str:
    """What anybody may hear of a failure."""
    return say("Something went wrong here, and I could not answer. Please try again later.")


async def _files(
    rooms: Rooms, channel: Channel, errand: Errand, stage: Stage | None, paths: Sequence[str]
) -> tuple[tuple[Attachment, ...], tuple[str, ...]]:
    if not paths or stage is None:
        return (), ()
    folder: Path = rooms.config.home / OUTGOING
    limit = channel.limits.media_out_bytes
    here = [path for path in paths if not path.startswith(("http://", "https://"))]
    files, refused = await carried_out(here, stage.fence, folder, errand.turn, limit)
    return files, (*refused, *(path for path in paths if path not in here))  # an address stays a link


def _shows_thinking(rooms: Rooms, errand: Errand) -> bool:
    """Whether somebody here chose to see what the model thinks, and it thought."""
    chosen = rooms.overrides.of(errand.route.session_key).reasoning if rooms.overrides else None
    return bool(chosen and errand.thinking.strip())


def block_key(turn: str, number: int) -> str:
    """The delivery key of a part of an answer that went out before its end."""
    return f"{turn}:b{number}"


def is_block(key: str) -> bool:
    """Whether a message is such a part."""
    return key.partition(":")[2].startswith("b")


def _rest(text: str, blocks: Sequence[str]) -> str:
    """What of an answer is left behind the blocks that went out; all of it, when they are not a part of it as it is."""
    at = 0
    for block in blocks:
        found = text.find(block.strip(), at)
        if found >= 0:
            at = found + len(block.strip())
    return text[at:].strip() if at else text


def _was_said(text: str, said: Sequence[Outbound], address: object) -> bool:
    """The agent has said this there already, with the message tool."""
    plain = " ".join(text.split()).casefold()
    there = (" ".join(one.text.split()).casefold() for one in said if one.address == address)
    return any(plain == one or (len(plain) > 20 and plain in one) for one in there)
