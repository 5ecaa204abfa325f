"""Prices of the vendor's models, as data (``models.json``): US dollars for a million tokens, each figure with
its date.

Taken from the vendor's price page as the project genai-prices (pydantic, MIT) last checked it; for the newest
model as the project api-evangelist quotes that page. For text and pictures; audio costs more with some models.
The half price of the Flash models from 3.6 on, until the end of 2026, is left out, so that a spending cap stays
correct after it ends.
"""

from functools import cache
from pathlib import Path

from claw_provider_sdk import ModelFigures, ModelTable, Price


@cache
def table() -> ModelTable[ModelFigures]:
    """Load the file, on first use."""
    return ModelTable.read(Path(__file__).with_name("models.json").read_bytes(), ModelFigures)


def price(model: str) -> Price | None:
    """Return the price of a model; None when the table does not have it.

    :param model: ``gemini-…``, also as the service lists it: ``models/gemini-…``.
    """
    return table().price(model.removeprefix("models/"))
