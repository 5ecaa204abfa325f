"""Rates: what is known of models, as data that a provider ships: window, longest answer, price, and who said so. Pure.

A figure that nobody knows is left out, never guessed.
"""

import re
from collections.abc import Mapping
from typing import TypeVar

import msgspec

from claw.usage import Price

_SNAPSHOT = re.compile(r"(?:-\d{8}|-\d{4}-\d{2}-\d{2}|-latest|@\d{8})\Z")


class ModelFigures(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """One model.

    :param checked: when its figures were last held against ``source``: ``2026-03-14``.
    :param source: address of the page that says so; empty = the one of the whole table.
    """

    context_tokens: int | None = None
    max_tokens: int | None = None
    price: Price | None = None
    checked: str
    source: str = ""


M = TypeVar("M", bound=ModelFigures)


def figures_of(models: Mapping[str, M], name: str) -> M | None:
    """What is known of a model; a snapshot (``NAME-2026-03-14``) is the model that it is one of, never another."""
    plain = _SNAPSHOT.sub("", name)
    return models.get(name) or models.get(plain) or models.get(plain.lower())
