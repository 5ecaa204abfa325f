"""The outcome of a turn whose model has finished: an answer, silence on purpose, or an error (pure).

An agent stays silent by a token (spec/runtime.md K1, after OpenClaw 2026.3); tags in an answer are for the channel.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from claw.agent.models import empty_answer_error
from claw.agent.routing import JOB_CHANNELS
from claw.contracts.errors import ClawError, ProviderError
from claw.contracts.events import TurnEnded
from claw.contracts.messages import Address
from claw.contracts.transcript import Assistant, Message, ToolResultMessage, User


def turn_outcome(
    turn: str,
    answer: Assistant | None,
    messages: Sequence[Message],
    here: Address,
    tokens: Sequence[str],
    ran_out: bool,
) -> TurnEnded:
    """Return the end of a turn whose loop returned.

    The text before its last calls is its answer when the last one is empty: the person was sent nothing else.

    :param messages: the conversation, ``answer`` included. ``here``: the chat that is answered.
    :param tokens: the tokens by which an agent stays silent.
    :param ran_out: the model would have gone on, and had made all the calls that it may.
    :raises ClawError: there is no text, and not on purpose; the model or its service refused.
    """
    if answer is None:
        return TurnEnded(turn, "failed", "")
    if answer.stop_reason == "error":
        raise ProviderError("{why}", reason="content_filter", where=answer.model, why=answer.error)
    if answer.stop_reason == "aborted":
        return TurnEnded(turn, "stopped", answer.text)
    earlier = [message for message in _of_turn(messages) if message is not answer]
    text = answer.text if REPLY_TAG.sub("", answer.text).strip() else _newest_text(earlier)
    words = REPLY_TAG.sub(" ", text).strip()
    if words and not is_silent(words, tokens):
        return TurnEnded(turn, "delivered", text)
    is_meant = answer.stop_reason == "max_tokens" or (bool(answer.tool_calls) and not ran_out)
    if words or is_meant or here.channel in JOB_CHANNELS or _has_answered(earlier):
        return TurnEnded(turn, "silent", text)
    if ran_out:
        raise ClawError(
            "the agent used all the model calls allowed for one message and gave no answer",
            fix="ask it to continue, or raise agents.defaults.maxTurns",
        )
    raise empty_answer_error(answer, answer.model)


def may_be_empty(messages: Sequence[Message], here: Address) -> bool:
    """Return true if the turn may end with an empty answer: it has spoken, or no person would read it.

    It has spoken in text before its calls, or by a tool that wrote to this very chat.
    """
    turn = list(_of_turn(messages))
    return here.channel in JOB_CHANNELS or bool(_newest_text(turn)) or _has_answered(turn)


def _newest_text(turn: Sequence[Message]) -> str:
    """Return the newest text of the turn that was not cut off."""
    said = (m for m in turn if isinstance(m, Assistant) and m.stop_reason not in ("error", "aborted"))
    return next((message.text for message in said if message.text.strip()), "")


def _has_answered(turn: Sequence[Message]) -> bool:
    """Return true if a tool of this turn wrote to its chat, as the details of the result say (:class:`ToolResult`)."""
    results = (one for one in turn if isinstance(one, ToolResultMessage) and not one.is_error)
    return any(isinstance(one.details, Mapping) and one.details.get("answers") is True for one in results)


def _of_turn(messages: Sequence[Message]) -> Iterator[Message]:
    """Yield the messages of this turn, the newest first."""
    for message in reversed(messages):
        if isinstance(message, User) and not message.kind:
            return
        yield message


# --- silence

ALSO_SILENT = ("__SILENT__", "🕊️_NO_REPLY")
"""Tokens that models know from other prompts; they count like the configured one."""
REPLY_TAG = re.compile(
    r"\[\[\s{0,9}(?:(?P<current>reply_to_current)|reply_to\s{0,9}:\s{0,9}(?P<id>[^\]\s][^\]\n]{0,200})|audio_as_voice)"
    r"\s{0,9}\]\][ \t]*",
    re.IGNORECASE,
)
"""A tag of an answer: quote the present message, quote the message ``id``, or send audio as a voice note."""


def silent_tokens(configured: str) -> tuple[str, ...]:
    """Return all silent tokens, the configured one first."""
    return tuple(dict.fromkeys((configured, *ALSO_SILENT)))


def is_silent(text: str, tokens: Sequence[str]) -> bool:
    """Return true if a text is only silent tokens; one may be in backticks or bold, or have a full stop behind it.

    Of a token in underscores the bold form is text: Markdown reads ``**__SILENT__**`` as an emphasised word.
    """
    bare = text.strip("`*.!,…。！ \t\n")
    return (bare in tokens and not (bare[0] == "_" and "*" in text)) or not without_silent_token(text, tokens)


def without_silent_token(text: str, tokens: Sequence[str]) -> str:
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
