"""The endpoints that this plugin knows, as data (``endpoints.json``): where they are, whose key, how they differ, what
their models read and cost.

Prices are US dollars for a million tokens, from the makers' own pages as the project genai-prices (pydantic, MIT) last
checked them; date and page stand in each row. Where a maker bills in another currency, or says nothing, there is none.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal

import msgspec
from claw import ModelFigures, model_figures

FILE = Path(__file__).with_name("endpoints.json")


class Model(ModelFigures, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """A model; ``thinks``: always or never, whatever it is told. Empty = as it is told."""

    thinks: Literal["", "always", "never"] = ""


class Endpoint(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """One service.

    :param base_url: may hold ``${NAME}``: an environment variable, without which nobody knows where it is.
    :param env: variables that may hold its key, in order.
    :param quirks: as under ``providers.NAME.quirks``.
    :param context_tokens: of a model that is not listed.
    :param source: of what stands here, and of the models' figures.
    """

    title: str
    base_url: str
    env: tuple[str, ...]
    source: str
    keyless: bool = False
    default_model: str = ""
    context_tokens: int | None = None
    quirks: dict[str, Any] = {}
    models: dict[str, Model] = {}

    def address(self, environ: Mapping[str, str]) -> str:
        """Where it is; empty when a variable that says so is not set."""
        name = self.variable
        value = environ.get(name, "").strip().rstrip("/")
        return self.base_url.replace(f"${{{name}}}", value) if value or not name else ""

    @property
    def variable(self) -> str:
        """The environment variable that its address needs; empty when it needs none."""
        return self.base_url.partition("${")[2].partition("}")[0]

    def model(self, name: str) -> Model | None:
        """What is known of one of its models."""
        return model_figures(self.models, name)


@cache
def endpoints() -> dict[str, Endpoint]:
    """All of them, by their names, the vendor first."""
    return msgspec.json.decode(FILE.read_bytes(), type=dict[str, Endpoint])
