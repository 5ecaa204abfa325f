"""The chat command ``/compact``: the context engine in force shortens the history of a conversation."""

from typing import TYPE_CHECKING

from claw.runtime import FunctionCommand, TurnContext, ask_engine, open_turn

if TYPE_CHECKING:
    from claw_channel_sdk import Conversation


async def compact_conversation(context: TurnContext, focus: str = "") -> str:
    """Have the engine in force shorten the history of a conversation; return its line for the person.

    :param context: that a turn would have now.
    """
    async with open_turn(context) as turn:
        return str(await ask_engine(turn, "compact", focus) or "")


async def _compact(focus: str, conversation: "Conversation") -> str:
    return str(await conversation.call(compact_conversation, await conversation.turn(), focus))


COMMANDS = (
    FunctionCommand(
        "compact",
        "compact the conversation history",
        _compact,
        "[what matters]",
        changes="always",
        is_long=True,
        position=50,
    ),
)
