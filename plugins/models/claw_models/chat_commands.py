"""Chat commands that choose the model of a conversation: ``/model``, ``/think``, ``/reasoning``."""

from typing import TYPE_CHECKING

from claw import t
from claw.runtime import FunctionCommand
from claw_config_sdk import DEFAULT, parse_choice

from claw_models.known_models import known_models

if TYPE_CHECKING:
    from claw_channel_sdk import Conversation

THINKING_LEVELS = ("off", "minimal", "low", "medium", "high", "adaptive")


async def _model(arguments: str, conversation: "Conversation") -> str:
    if not arguments:
        agent = conversation.runtime.config.agent(conversation.agent_id)
        known = [*known_models(agent, conversation.runtime).known]
        return t("model: {model}. Available: {known}", model=await _current(conversation), known=known)
    if arguments.lower() == DEFAULT:
        conversation.set_overrides(model="")
        return t("model: {model}", model=await _current(conversation))
    model = conversation.find_model(arguments)
    conversation.set_overrides(model=model)
    return t("model: {model}, until /reset", model=model)


async def _current(conversation: "Conversation") -> str:
    """Return the model that a turn would use now."""
    return str((await conversation.turn()).models[0])


async def _think(arguments: str, conversation: "Conversation") -> str:
    if not arguments:
        level, known = conversation.overrides.thinking or DEFAULT, (*THINKING_LEVELS, DEFAULT)
        return t("thinking: {level}. Available: {known}", level=level, known=known)
    level = parse_choice(arguments, THINKING_LEVELS)
    conversation.set_overrides(thinking=level)
    return t("thinking: {level}", level=level or DEFAULT)


async def _reasoning(arguments: str, conversation: "Conversation") -> str:
    if arguments:
        word = parse_choice(arguments, ("on", "off"))
        conversation.set_overrides(reasoning={"on": True, "off": False, "": None}[word])
    shown = {True: "on", False: "off", None: DEFAULT}[conversation.overrides.reasoning]
    return t("show reasoning: {word}", word=shown)


COMMANDS = (
    FunctionCommand(
        "model",
        "show or choose the model",
        _model,
        "[provider/model[@key] | default]",
        changes="with-arguments",
        position=30,
    ),
    FunctionCommand(
        "think",
        "how much the model thinks",
        _think,
        f"[{' | '.join(THINKING_LEVELS)} | default]",
        changes="with-arguments",
        position=31,
    ),
    FunctionCommand(
        "reasoning",
        "show or hide the model's reasoning",
        _reasoning,
        "[on | off | default]",
        changes="with-arguments",
        position=32,
    ),
)
