"""The memories of all agents, and the background thread that keeps their indexes up to date.

The thread starts with the first turn of an agent that may search. It waits a little first, so that a single
question on the command line pays nothing, and works on one file or a few texts at a time.
"""

import logging
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from claw import ToolError

from claw_memory.settings import MemorySearch, MemorySettings

if TYPE_CHECKING:  # search and index are imported on first use, not at start
    from claw_memory.hookspecs import Embedder
    from claw_memory.memory import Memory

_log = logging.getLogger(__name__)


class Memories:
    """The memories of all agents.

    :param state_dir: folder of the plugin; it holds the index of an agent as ``ID.sqlite``.
    :param others: returns the embedders that other plugins registered.
    """

    def __init__(
        self, state_dir: Path, settings: MemorySettings, others: "Callable[[], Iterable[Embedder]]" = tuple
    ) -> None:
        self.settings = settings
        self._state_dir, self._others = state_dir, others
        self._own: tuple[Embedder, ...] | None = None
        self._of: dict[str, Memory] = {}
        self._watched: dict[str, Any] = {}
        self._failing: set[str] = set()
        self._lock = threading.Lock()
        self._end = threading.Event()
        self._thread: threading.Thread | None = None

    def of(self, agent: Any) -> "Memory":
        """Return the memory of an agent (``claw.config.agents.Agent``)."""
        from claw_memory.memory import Memory

        with self._lock:
            if agent.id not in self._of:
                index = self._state_dir / f"{agent.id}.sqlite"
                self._of[agent.id] = Memory(agent.dir / "agent", index, self.settings)
            return self._of[agent.id]

    def embedder(self, agent: Any) -> "Embedder | None":
        """Return the embedder of this agent's notes; None when they are searched by words alone.

        :raises ToolError: its settings name one that no plugin registered.
        """
        from claw_memory.embedder import built_in, choose

        if self._own is None:
            self._own = built_in()
        wanted = agent.section("memorySearch", MemorySearch)
        return choose((*self._own, *self._others()), wanted.provider, wanted.model)

    def watch(self, agent: Any) -> None:
        """Keep the agent's index up to date from now on, in the background."""
        if self._watched.get(agent.id) is agent or not self.settings.watch:
            return
        with self._lock:
            self._watched[agent.id] = agent
            if self._thread is None and not self._end.is_set():
                self._thread = threading.Thread(target=self._run, name="claw-memory", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """End the thread and close the files."""
        self._end.set()
        if self._thread is not None:
            self._thread.join()
        for memory in self._of.values():
            memory.index.close()

    def _run(self) -> None:
        rests_ns = int(self.settings.debounce_seconds * 1e9)
        wait = self.settings.debounce_seconds
        while not self._end.wait(wait):
            later = 0
            for agent in tuple(self._watched.values()):
                later += self._update(agent, rests_ns)
            wait = self.settings.debounce_seconds if later else self.settings.watch_seconds

    def _update(self, agent: Any, rests_ns: int) -> int:
        """Update an agent's index once; return the number of files that changed too recently to be
        indexed.
        """
        memory = self.of(agent)
        try:
            later = memory.sync(lambda done, all_: not self._end.is_set(), rests_ns)
            embedder = self.embedder(agent)
            if embedder is not None:
                done = memory.embed(embedder, lambda done: not self._end.is_set())
                if done:
                    _log.info("memory of %s: %d texts embedded", agent.id, done)
            self._failing.discard(agent.id)
            return later
        except ToolError:
            return 0  # the next search reports it
        except Exception as why:  # noqa: BLE001 - an embedder is third-party code, and a disk may be full
            if agent.id not in self._failing:
                _log.warning("the memory of %s is not indexed", agent.id, exc_info=why)
            self._failing.add(agent.id)
            return 0
