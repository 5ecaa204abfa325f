"""The chat command ``/queue``: what happens to a message that comes while a turn runs."""

from claw import t
from claw.runtime import Conversation, FunctionCommand, parse_choice

QUEUE_MODES = ("steer", "collect", "followup", "interrupt")
_DEFAULT = "default"


async def _queue(arguments: str, conversation: Conversation) -> str:
    if not arguments:
        mode, known = conversation.overrides.queue or _DEFAULT, ", ".join((*QUEUE_MODES, _DEFAULT))
        return t("queue: {mode}. Available: {known}", mode=mode, known=known)
    mode = parse_choice(arguments, QUEUE_MODES)
    conversation.set_overrides(queue=mode)
    return t("queue: {mode}", mode=mode or _DEFAULT)


COMMANDS = (
    FunctionCommand(
        "queue",
        "how messages are handled while a turn runs",
        _queue,
        f"[{' | '.join(QUEUE_MODES)} | default]",
        changes="with-arguments",
        position=40,
    ),
)
