"""Facts of the vendor's models, as data (``models.json``): US dollars for a million tokens, and which of them
cannot think; each row with its date.

Taken from the vendor's price page as the project genai-prices (pydantic, MIT) last checked it. The price of a
cache write is that of the five-minute cache, which the requests ask for.
"""

from functools import cache
from pathlib import Path
from typing import Literal

from claw_provider_sdk import ModelFigures, ModelTable, Price, model_figures

LONG_ANSWER_TOKENS, SHORT_ANSWER_TOKENS = 32_000, 8192


class AnthropicModel(ModelFigures, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """A model; ``thinks``: never = it refuses a request with thinking. Empty = configurable."""

    thinks: Literal["", "never"] = ""


@cache
def table() -> ModelTable[AnthropicModel]:
    """Load the file, on first use."""
    return ModelTable.read(Path(__file__).with_name("models.json").read_bytes(), AnthropicModel)


def price(model: str) -> Price | None:
    """Return the price of a model; None when the table does not have it."""
    return table().price(model)


def longest_answer(model: str) -> int:
    """Return the default limit of an answer, in tokens: 8,192 for a model without thinking or not in the table.

    Facts: docs.anthropic.com, "Models overview": every model that can think answers with up to 32,000 tokens or more.
    """
    known = model_figures(table().models, model)
    return LONG_ANSWER_TOKENS if known and known.thinks != "never" else SHORT_ANSWER_TOKENS


def can_think(model: str) -> bool:
    """Return true if a model supports thinking; also for a model that the table does not have."""
    known = model_figures(table().models, model)
    return not known or known.thinks != "never"
