"""How a turn ends that its model has ended: with words, silent on purpose, or with why there is nothing to say (pure)."""

from collections.abc import Iterator, Sequence

from claw.directives import parse
from claw.errors import ClawError
from claw.event import TurnEnded
from claw.fallback import nothing_said
from claw.message import Address
from claw.meter import CLOCKS
from claw.transcript import Assistant, Message, ToolResult, User

_SENDS = "message"


def outcome(
    turn: str, answer: Assistant | None, spoken: Sequence[Message], here: Address, tokens: Sequence[str], ran_out: bool
) -> TurnEnded:  # fmt: skip
    """The end of a turn whose loop came back.

    Words that stand before its last calls are its answer when the last one is empty: nobody was told anything else.

    :param spoken: the conversation, ``answer`` included. ``here``: the chat that is answered.
    :param tokens: the words by which an agent stays silent.
    :param ran_out: the model would have gone on, and had made all the calls that it may.
    :raises ClawError: nothing was said, and not on purpose.
    """
    if answer is None:
        return TurnEnded(turn, "failed", "")
    if answer.stop_reason in ("error", "aborted"):
        failed = answer.stop_reason == "error"
        return TurnEnded(turn, "failed" if failed else "stopped", answer.text or answer.error)
    earlier = [message for message in _since_asked(spoken) if message is not answer]
    text, reply = answer.text, parse(answer.text, silent_tokens=tokens)
    if not (reply.text.strip() or reply.media or reply.silent) and (text := _words(earlier)):
        reply = parse(text, silent_tokens=tokens)
    if reply.text.strip() or reply.media:
        return TurnEnded(turn, "delivered", text)
    ended_by_tool = bool(answer.tool_calls) and not ran_out
    if reply.silent or ended_by_tool or here.channel in CLOCKS or _was_sent(earlier, here):
        return TurnEnded(turn, "silent", text)
    if ran_out:
        raise ClawError(
            "the agent made all the model calls that one message may take, and gave no answer",
            fix="ask it to go on, or allow more: agents.defaults.maxTurns",
        )
    raise nothing_said(answer, answer.model)


def is_said(messages: Sequence[Message], here: Address) -> bool:
    """Whether an empty answer would be no silence: this turn has spoken before, or there is nobody to hear it.

    It has spoken in words before its calls, or with the message tool in this very chat.
    """
    turn = list(_since_asked(messages))
    return here.channel in CLOCKS or bool(_words(turn)) or _was_sent(turn, here)


def _words(turn: Sequence[Message]) -> str:
    """The newest words in it that were said to their end."""
    said = (m for m in turn if isinstance(m, Assistant) and m.stop_reason not in ("error", "aborted"))
    return next((message.text for message in said if message.text.strip()), "")


def _was_sent(turn: Sequence[Message], here: Address) -> bool:
    done: set[str] = set()
    for message in turn:
        if isinstance(message, ToolResult) and message.tool_name == _SENDS and not message.is_error:
            done.add(message.call_id)
        elif isinstance(message, Assistant):
            for call in message.tool_calls:
                if (
                    call.id in done
                    and call.arguments.get("action") != "delete"
                    and _is_here(call.arguments, here)
                ):
                    return True
    return False


def _is_here(arguments: dict[str, object], here: Address) -> bool:
    target = arguments.get("target") or arguments.get("to") or ""
    named = target in ("", here.chat, f"{here.channel}:{here.chat}")
    return named and (arguments.get("channel") or here.channel) == here.channel


def _since_asked(messages: Sequence[Message]) -> Iterator[Message]:
    """The messages of this turn, the newest first."""
    for message in reversed(messages):
        if isinstance(message, User) and not message.kind:
            return
        yield message
