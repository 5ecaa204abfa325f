"""The services of a gateway: background tasks that plugins bring, from the start to the stop of the process."""

import asyncio
import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from claw import Service, t
from claw.runtime import App, Contribution, describe_exception, is_own_exit

if TYPE_CHECKING:
    from claw_gateway.supervisor import ChannelServer


class ChannelService:
    """The gateway's own service: it serves the channels.

    :ivar server: None until it runs.
    """

    name = "channels"

    def __init__(self) -> None:
        self.server: ChannelServer | None = None

    async def run(self, runtime: Any, stop: asyncio.Event) -> None:
        """Serve the channels of a running claw until ``stop`` is set."""
        from claw_gateway.supervisor import ChannelServer  # a command that serves no channel does without it

        self.server = self.server or ChannelServer(runtime)
        await self.server.run(stop)


class ServiceRunner:
    """The services of all plugins beside the gateway's own. One that fails is quarantined, the others go on."""

    def __init__(self) -> None:
        self._grace_seconds = 0.0
        self._stop = asyncio.Event()
        self._running: dict[str, tuple[Contribution[Service], asyncio.Task[None]]] = {}

    async def start(self, app: App) -> None:
        """Ask the plugins of ``app`` for their services, and run each."""
        self._grace_seconds, self._stop = app.timeouts.grace_seconds, asyncio.Event()
        services = await asyncio.to_thread(app.host.on_demand, "register_services")
        for one in services:
            if not isinstance(one.value, ChannelService):
                task = asyncio.ensure_future(self._run(app, one, self._stop))
                self._running[f"{one.plugin}/{one.value.name}"] = one, task

    async def stop(self) -> None:
        """Ask every service to end, and cancel those that do not end in time."""
        self._stop.set()
        left = {task for _, task in self._running.values() if not task.done()}
        self._running = {}
        if left:
            _, left = await asyncio.wait(left, timeout=self._grace_seconds)
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=self._grace_seconds)

    def health(self) -> dict[str, Mapping[str, Any]]:
        """Return what each service says of itself, by plugin and name; one that says nothing is left out."""
        found: dict[str, Mapping[str, Any]] = {}
        for name, (one, _) in self._running.items():
            with contextlib.suppress(Exception):  # a plugin's code
                said: Any = getattr(one.value, "health", dict)()
                if isinstance(said, Mapping) and said:
                    found[name] = said
        return found

    async def _run(self, app: App, one: Contribution[Service], stop: asyncio.Event) -> None:
        try:
            await one.value.run(app, stop)
        except BaseException as failed:
            if is_own_exit(failed):
                raise
            why = t("service {name} failed: {why}", name=one.value.name, why=describe_exception(failed))
            app.host.quarantine(one.plugin, "run", why)
