"""What the vendor's models cost, as data (``models.json``): US dollars for a million tokens, each figure with its date.

Read off the vendor's price page as the project genai-prices (pydantic, MIT) last checked it; for the newest model as
Vercel's gateway quotes that page, since the half price of its first weeks is over. A name that ends in
``-latest`` is another model every few months, and so is its price: it is not here. Nor is one of which two are told.
"""

from functools import cache
from pathlib import Path

import msgspec
from claw import ModelFigures, Price, model_figures


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file. ``source``: the page that its figures are from."""

    source: str
    models: dict[str, ModelFigures]


@cache
def table() -> Table:
    """Read once, when a price is first asked for."""
    return msgspec.json.decode(Path(__file__).with_name("models.json").read_bytes(), type=Table)


def price(model: str) -> Price | None:
    """What a model costs; None when the table does not know it."""
    known = model_figures(table().models, model)
    return known.price if known else None
