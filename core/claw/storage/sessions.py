"""Sessions: the store that keeps conversations, and core's own, which forgets them when the process ends."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from claw.contracts.errors import ClawError, PluginError
from claw.contracts.messages import Inbound
from claw.i18n import t
from claw.storage.clock import Clock
from claw.storage.history import BaseSession
from claw.storage.overrides import Overrides
from claw.storage.records import Record

_OPEN_SECONDS = 30.0  # a network may be behind a store
_NOT_KEPT = (
    "this conversation is lost when this process ends: no session store is in use "
    "(claw-sessions keeps conversations)"
)


class MemorySession(BaseSession):
    """A session of this process alone."""

    def write(self, entry: Record, line: bytes) -> None:
        """Keep nothing beyond the history that the base class holds."""

    async def reset(self) -> None:
        """Forget the conversation."""
        self.start_over(str(uuid4()))


class MemorySessionStore:
    """The sessions of this process: core's own store, which is in use when no plugin provides one."""

    name = "memory"

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._sessions: dict[str, MemorySession] = {}

    async def open(self, key: str, agent_id: str) -> MemorySession:
        """Return the session of a key; the first one says that it is not kept."""
        session = self._sessions.get(key)
        if session:
            session.notices = ()
        else:
            session = MemorySession(key, agent_id, str(uuid4()), clock=self._clock)
            session.notices = () if self._sessions else (t(_NOT_KEPT),)
            self._sessions[key] = session
        return session


class Sessions:
    """The sessions of turns: opened in the store in force.

    :param store: as :class:`claw.SessionStore`.
    :param plugin: the plugin that provides the store.
    :param overrides: the settings that people chose for single conversations; they stay in ``state.db``.
    """

    def __init__(self, store: Any, plugin: str, overrides: Overrides, clock: Clock) -> None:
        self.store, self.plugin, self.overrides, self.clock = store, plugin, overrides, clock

    async def open(self, session_key: str, agent_id: str) -> BaseSession:
        """Open a session for one turn.

        :raises ClawError: the store failed; the error names its plugin.
        """
        with self._errors("its session store cannot open a session: {why}"):
            async with asyncio.timeout(_OPEN_SECONDS):
                session = await self.store.open(session_key, agent_id)
            if not isinstance(session, BaseSession):
                raise TypeError(f"open answered with {type(session).__name__}, which is no BaseSession")
        return session

    def has_expired(self, session: BaseSession, message: Inbound, agent: Any, config: Any) -> bool:
        """Return true if this message begins a new conversation; without ``expired`` of the store none does.

        :raises ClawError: the store failed; the error names its plugin.
        """
        expired = getattr(self.store, "expired", None)
        with self._errors("its session store cannot tell whether a conversation is over: {why}"):
            return bool(expired and expired(session, message, agent, config))

    @contextmanager
    def _errors(self, problem: str) -> Iterator[None]:
        try:
            yield
        except ClawError:
            raise
        except Exception as why:
            raise PluginError(self.plugin, "run", problem, why=f"{type(why).__name__}: {why}") from why
