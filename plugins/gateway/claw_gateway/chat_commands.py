"""The chat commands ``/start`` (the first message of a Telegram user) and ``/queue``."""

from typing import TYPE_CHECKING

from claw import t
from claw.runtime import FunctionCommand
from claw_config_sdk import DEFAULT, parse_choice

if TYPE_CHECKING:
    from claw_channel_sdk import Conversation

QUEUE_MODES = ("steer", "collect", "followup", "interrupt")


async def _queue(arguments: str, conversation: "Conversation") -> str:
    if not arguments:
        mode, known = conversation.overrides.queue or DEFAULT, (*QUEUE_MODES, DEFAULT)
        return t("queue: {mode}. Available: {known}", mode=mode, known=known)
    mode = parse_choice(arguments, QUEUE_MODES)
    conversation.set_overrides(queue=mode)
    return t("queue: {mode}", mode=mode or DEFAULT)


async def _start(arguments: str, conversation: "Conversation") -> str:
    return t(
        "Hello, I am {agent}. Write to me as to a person; /help lists the commands.",
        agent=conversation.agent_id,
    )


COMMANDS = (
    FunctionCommand("start", "introduce the agent", _start, position=45),
    FunctionCommand(
        "queue",
        "how messages are handled while a turn runs",
        _queue,
        f"[{' | '.join(QUEUE_MODES)} | default]",
        changes="with-arguments",
        position=40,
    ),
)
