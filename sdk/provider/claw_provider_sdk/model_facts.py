"""Model data that a provider ships: context window, longest answer, price, and the source of each figure.
Pure.

An unknown figure is left out, never guessed.
"""

import re
from collections.abc import Mapping
from typing import Generic, TypeVar

import msgspec

from claw_provider_sdk.usage import Price

_SNAPSHOT = re.compile(r"(?:-\d{8}|-\d{4}-\d{2}-\d{2}|-latest|@\d{8})\Z")


class ModelFigures(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """The figures of one model.

    :param checked: date of the last comparison with ``source``: ``2026-03-14``.
    :param source: address of the page with the figures; empty = that of the whole table.
    """

    context_tokens: int | None = None
    max_tokens: int | None = None
    price: Price | None = None
    checked: str
    source: str = ""


M = TypeVar("M", bound=ModelFigures)


class ModelTable(msgspec.Struct, Generic[M], frozen=True, forbid_unknown_fields=True):
    """A data file with the models of one vendor. ``source``: the page of its figures."""

    source: str
    models: dict[str, M]

    @classmethod
    def read(cls, data: bytes, row: type[M]) -> "ModelTable[M]":
        """Read a data file, its rows as ``row``.

        :raises msgspec.ValidationError: a field of it is wrong.
        """
        return msgspec.json.decode(data, type=ModelTable[row])  # type: ignore[valid-type]

    def price(self, model: str) -> Price | None:
        """Return the price of a model; None when the table does not have it."""
        known = model_figures(self.models, model)
        return known.price if known else None


def model_figures(models: Mapping[str, M], name: str) -> M | None:
    """Return the figures of a model; a snapshot (``NAME-2026-03-14``) has those of its own model, never of
    another.
    """
    plain = _SNAPSHOT.sub("", name)
    return models.get(name) or models.get(plain) or models.get(plain.lower())
