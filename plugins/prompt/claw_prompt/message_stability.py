"""The messages of ``claw prompt stability``: three turns in an empty home, with a provider that records its requests.

A provider caches the messages of a request too: those of one turn must come again, byte for byte, in the next. Context
engines, filters and provider middleware of plugins can change them.
"""

import json
import os
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import msgspec
from claw import (
    Assistant,
    Credential,
    Finished,
    Inbound,
    Message,
    PluginError,
    Request,
    Text,
    TextDelta,
    hookimpl,
)
from claw.runtime import SYSTEM_CLOCK, Clock, PluginHealth, terminal_message

if TYPE_CHECKING:
    from claw.runtime import App, Setup

_NAME = "prompt-stability"
_MODEL = f"{_NAME}/recorder"
_PAUSE_SECONDS = 61.0  # so that a clock of minutes differs
_WORDS = ("Good morning", "绿色的门在哪里？", "And where is its key?")


async def _ignore(event: object) -> None:
    """Ignore an event of the turns."""


class _Recorder:
    """A provider that records each request, and its plugin."""

    name = _NAME

    def __init__(self) -> None:
        self.requests: list[tuple[Message, ...]] = []

    @hookimpl
    def register_providers(self) -> "Sequence[_Recorder]":
        return (self,)

    def context_tokens(self, model: str) -> int:
        return 200_000

    def credentials(self) -> tuple[Credential, ...]:
        return (Credential("none", ""),)

    async def stream(self, request: Request) -> AsyncIterator[TextDelta | Finished]:
        self.requests.append(tuple(request.messages))
        text = f"answer {len(self.requests)}"
        yield TextDelta(text)
        yield Finished(Assistant((Text(text),), model=request.model))


FailedPart = tuple[str, str, str]
"""A plugin, the name of its part as health records have it, and why it failed."""


@dataclass(frozen=True)
class MessageTurns:
    """The result of the three turns.

    :param sent: the messages of the second request before the new one; ``repeated``: those in the same place of the
        third request. Both are empty when not every turn had a request.
    :param failed: the parts of plugins that failed meanwhile.
    """

    sent: Sequence[str] = ()
    repeated: Sequence[str] = ()
    failed: Sequence[FailedPart] = ()


async def repeated_messages(setup: "Setup", message: Inbound) -> MessageTurns:
    """Take three turns of one conversation, and compare what their requests repeat."""
    recorder, later, failed = _Recorder(), [0.0], dict[FailedPart, None]()
    with tempfile.TemporaryDirectory(prefix="claw-stability-") as home:
        from claw.runtime import App, TurnOptions, load_setup
        from claw_config_sdk import file_of

        file = file_of(os.environ)
        environ = {**os.environ, "CLAW_HOME": home}
        own = load_setup(environ, setup.found, [_MODEL], file if file.exists() else None)
        clock = Clock(now=lambda: SYSTEM_CLOCK.now() + later[0])
        options = TurnOptions(model=_MODEL, fallbacks=())
        async with App(own, plugins={_NAME: recorder}, clock=clock) as app:

            async def take(said: Inbound) -> None:
                try:
                    await app.handle(said, _ignore, options)
                except PluginError as why:
                    failed.setdefault((why.plugin, "", why.problem))
                failed.update(dict.fromkeys(_failed_parts(app)))

            for number, words in enumerate(_WORDS):
                said = replace(
                    message,
                    text=words,
                    message_id=f"m{number}",
                    event_id=f"stability-{number}",
                    sent_at=clock.now(),
                )
                await take(said)
                if len(recorder.requests) == number:  # this person is not admitted in the empty home
                    message = terminal_message("")
                    await take(
                        replace(
                            said,
                            address=message.address,
                            sender=message.sender,
                            chat_type="direct",
                            event_id=f"{number}",
                        )
                    )
                later[0] += _PAUSE_SECONDS
    if len(recorder.requests) < len(_WORDS):
        return MessageTurns(failed=tuple(failed))
    second, third = recorder.requests[1], recorder.requests[2]
    sent, repeated = (
        [_as_text(one) for one in messages] for messages in (second[:-1], third[: len(second) - 1])
    )
    return MessageTurns(sent, repeated, tuple(failed))


def _failed_parts(app: "App") -> Iterator[FailedPart]:
    """Yield plugin, name and cause of each part that has failed in a turn and not worked since."""
    health = PluginHealth(app.config.home / "plugins", app.database)
    for failures in health.failures().values():
        yield from ((one.plugin, one.part[1], one.why) for one in failures if any(one.part))


def _as_text(message: Message) -> str:
    plain: Any = msgspec.to_builtins(message, enc_hook=repr)
    return f"{type(message).__name__}: {json.dumps(plain.get('content'), ensure_ascii=False)}"
