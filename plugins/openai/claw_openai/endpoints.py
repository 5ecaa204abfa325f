"""The known endpoints, as data (``endpoints.json``): addresses, key variables, differences, and the context sizes
and prices of their models.

Prices are US dollars for a million tokens, from the makers' own pages as the project genai-prices (pydantic, MIT)
last checked them; date and page stand in each row. A maker that bills in another currency, or publishes none, has
no price.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal

import msgspec
from claw_provider_sdk import ModelFigures, model_figures

FILE = Path(__file__).with_name("endpoints.json")


class EndpointModel(ModelFigures, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """A model; ``thinks``: always or never, regardless of the request. Empty = configurable."""

    thinks: Literal["", "always", "never"] = ""


class Endpoint(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """One service.

    :param base_url: may hold ``${NAME}``: an environment variable that the address requires.
    :param env: variables that may hold its key, in order.
    :param quirks: as under ``providers.NAME.quirks``.
    :param context_tokens: of a model that is not listed.
    :param source: of this row, and of the models' figures.
    """

    title: str
    base_url: str
    env: tuple[str, ...]
    source: str
    keyless: bool = False
    default_model: str = ""
    context_tokens: int | None = None
    quirks: dict[str, Any] = {}
    models: dict[str, EndpointModel] = {}

    def address(self, environ: Mapping[str, str]) -> str:
        """Return its address; empty when a variable in it is not set."""
        name = self.variable
        value = environ.get(name, "").strip().rstrip("/")
        return self.base_url.replace(f"${{{name}}}", value) if value or not name else ""

    @property
    def variable(self) -> str:
        """The environment variable that its address needs; empty when it needs none."""
        return self.base_url.partition("${")[2].partition("}")[0]

    def model(self, name: str) -> EndpointModel | None:
        """Return the facts of one of its models."""
        return model_figures(self.models, name)


@cache
def endpoints() -> dict[str, Endpoint]:
    """Return all endpoints by name, the vendor first."""
    return msgspec.json.decode(FILE.read_bytes(), type=dict[str, Endpoint])
