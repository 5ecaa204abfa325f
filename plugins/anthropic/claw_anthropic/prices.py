"""What is known of the vendor's models, as data (``models.json``): US dollars for a million tokens, and which of them
cannot think; each row with its date.

Read off the vendor's price page as the project genai-prices (pydantic, MIT) last checked it. Writing to the cache is the
price of the five-minute one, which is the one that requests ask for.
"""

from functools import cache
from pathlib import Path
from typing import Literal

import msgspec
from claw import ModelFigures, Price, model_figures


class Model(ModelFigures, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """A model; ``thinks``: never = it refuses a request that asks it to. Empty = as it is told."""

    thinks: Literal["", "never"] = ""


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file. ``source``: the page that its figures are from."""

    source: str
    models: dict[str, Model]


@cache
def table() -> Table:
    """Read once, when a price is first asked for."""
    return msgspec.json.decode(Path(__file__).with_name("models.json").read_bytes(), type=Table)


def price(model: str) -> Price | None:
    """What a model costs; None when the table does not know it."""
    known = model_figures(table().models, model)
    return known.price if known else None


def can_think(model: str) -> bool:
    """Whether a model may be asked to think; of one that the table does not know it is taken for granted."""
    known = model_figures(table().models, model)
    return not known or known.thinks != "never"
