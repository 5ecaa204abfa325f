"""Prices of the vendor's models, as data (``models.json``): US dollars for a million tokens, each figure with
its date.

Taken from the vendor's price page as the project genai-prices (pydantic, MIT) last checked it; for the newest
model as Vercel's gateway quotes that page, since the half price of its first weeks is over. A name that ends in
``-latest`` changes its model and price every few months, so it is left out; so is a model with two different
published prices.
"""

from functools import cache
from pathlib import Path

from claw_provider_sdk import ModelFigures, ModelTable, Price


@cache
def table() -> ModelTable[ModelFigures]:
    """Load the file, on first use."""
    return ModelTable.read(Path(__file__).with_name("models.json").read_bytes(), ModelFigures)


def price(model: str) -> Price | None:
    """Return the price of a model; None when the table does not have it."""
    return table().price(model)
