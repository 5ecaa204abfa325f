"""The connection of one account: its state, its lines in the log, and calls that the start depends on."""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from claw import ChannelState, ConfigError, DeliveryError, t

from claw_telegram.api import BotApi
from claw_telegram.poller import PollFailure, PollTimings, poll_failure
from claw_telegram.settings import Account

_log = logging.getLogger(__name__)

_REFUSALS = 3
"""So many refusals of a token that worked before, one after another, and a person has to act: fewer are a fault of the
service, which passes."""


class AccountConnection:
    """The state of one account, as the channel shows it.

    :ivar note: a line for people while the channel is up.
    """

    def __init__(self, account: Account, log_name: str) -> None:
        self._account, self._log_name = account, log_name
        self.state = ChannelState()
        self.note = self._last_failure = ""
        self._has_worked, self._refusals = False, 0

    def update(self, **changes: Any) -> None:
        """Change fields of the state."""
        self.state = replace(self.state, **changes)

    def received(self, held: bool = True) -> None:
        """Note a response of the service; ``held``: one that shows that nothing disturbs the channel."""
        again = self.state.state in ("waiting", "failed")
        self._has_worked, self._refusals = True, 0
        if self._last_failure and held:
            self._last_failure = ""
            _log.info("%s: %s", self._log_name, t("receiving messages again"))
        self.update(
            state="up",
            detail=self.note,
            last_frame_at=time.time(),
            reconnects=self.state.reconnects + (1 if again else 0),
        )

    def failed(self, found: PollFailure, why: DeliveryError) -> None:
        """Note a failed call. Whatever the reason, it is tried again; a refused token also needs a person."""
        self._refusals = self._refusals + 1 if found.kind == "token" else 0
        needs_person = found.kind == "token" and (not self._has_worked or self._refusals >= _REFUSALS)
        if needs_person:
            detail = str(self._no_such_token())
        elif found.kind == "conflict":
            detail = t("another process polls with this bot's token; this one waits until you stop it")
        elif found.kind == "webhook":
            detail = t("a webhook was set for this bot and is removed; no waiting message is lost")
        else:
            detail = str(why)
        if found.kind != self._last_failure:
            self._last_failure = found.kind
            if not needs_person:  # the gateway logs what a failed channel says
                _log.warning("%s: %s", self._log_name, detail)
        self.update(state="failed" if needs_person else "waiting", detail=detail, last_error=detail)

    async def call_until_success(
        self, api: Callable[[], BotApi], pace: PollTimings, method: str, params: dict[str, Any] | None = None
    ) -> Any:
        """Repeat a call that the start depends on until it succeeds."""
        failures = 0
        while True:
            try:
                return await api().call(method, params)
            except DeliveryError as why:
                failures += 1
                found = poll_failure(why, failures, pace)
                self.failed(found, why)
                await asyncio.sleep(found.seconds)

    def _no_such_token(self) -> ConfigError:
        key, problem = self._account.key, "Telegram knows no bot with this token"
        fix = "Copy the token that @BotFather shows for this bot: claw config set {name}.botToken TOKEN"
        return ConfigError(f"{key}.botToken", problem, fix, name=key)
