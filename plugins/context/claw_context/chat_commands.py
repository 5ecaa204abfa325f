"""The chat command ``/compact``: the context engine in force shortens the history of a conversation."""

from claw import Inbound
from claw.runtime import Conversation, FunctionCommand, Runtime, TurnContext, ask_engine, open_turn


async def compact_conversation(
    runtime: Runtime, inbound: Inbound, context: TurnContext, focus: str = ""
) -> str:
    """Have the engine in force shorten the history of a conversation; return its line for the person.

    :param inbound: the message that holds the command. ``context``: that a turn would have now.
    """
    async with open_turn(runtime, inbound, context) as turn:
        return str(await ask_engine(turn, "compact", focus) or "")


async def _compact(focus: str, conversation: Conversation) -> str:
    values = conversation.runtime, conversation.inbound, await conversation.turn(), focus
    return str(await conversation.call(compact_conversation, *values))


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
