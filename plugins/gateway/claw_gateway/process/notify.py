"""Messages to the service manager: sd_notify(3) and sd_watchdog_enabled(3) of systemd."""

import asyncio
import os
import socket
from collections.abc import MutableMapping
from contextlib import suppress


class ServiceManager:
    """The service manager that started this process; without one, nothing is sent.

    :param environ: its variables are taken out, as child processes must not send in our place.
    :ivar watchdog_seconds: the longest time between two signs of life; 0 = none are expected.
    """

    def __init__(self, environ: MutableMapping[str, str]) -> None:
        self._address = environ.pop("NOTIFY_SOCKET", "")
        interval, pid = environ.pop("WATCHDOG_USEC", ""), environ.pop("WATCHDOG_PID", "")
        is_ours = pid in ("", str(os.getpid()))
        self.watchdog_seconds = int(interval) / 1e6 if is_ours and interval.isdigit() else 0.0

    def send(self, state: str) -> None:
        """Send ``READY=1``, ``WATCHDOG=1`` or ``STOPPING=1``."""
        if self._address:
            address = f"\0{self._address[1:]}" if self._address.startswith("@") else self._address
            with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sending:
                sending.setblocking(False)
                sending.sendto(state.encode(), address)

    async def report_life(self) -> None:
        """Send a sign of life three times in each interval, until cancelled. A loop that hangs sends none, and the
        service manager restarts the process.
        """
        while self.watchdog_seconds:
            self.send("WATCHDOG=1")
            await asyncio.sleep(self.watchdog_seconds / 3)
