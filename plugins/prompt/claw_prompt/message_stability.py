"""The messages of ``claw prompt stability``: three turns in an empty home, with a provider that records its requests.

A provider caches the messages of a request too: those of one turn must come again, byte for byte, in the next. Context
engines, filters and provider middleware of plugins can change them.
"""

import json
import os
import tempfile
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
from claw import Assistant, Credential, Finished, Inbound, Message, Request, Text, TextDelta, hookimpl
from claw.runtime import SYSTEM_CLOCK, Clock, terminal_message

if TYPE_CHECKING:
    from claw.runtime import Setup

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


async def repeated_messages(setup: "Setup", message: Inbound) -> tuple[list[str], list[str]]:
    """Return the messages of a second request before the new one, and those in the same place of a third request.

    Both lists are empty when nobody would answer the message.
    """
    recorder, later = _Recorder(), [0.0]
    with tempfile.TemporaryDirectory(prefix="claw-stability-") as home:
        from claw.runtime import App, TurnOptions, load_setup
        from claw_config_sdk import file_of

        file = file_of(os.environ)
        environ = {**os.environ, "CLAW_HOME": home}
        own = load_setup(environ, setup.found, [_MODEL], file if file.exists() else None)
        clock = Clock(now=lambda: SYSTEM_CLOCK.now() + later[0])
        options = TurnOptions(model=_MODEL, fallbacks=())
        async with App(own, plugins={_NAME: recorder}, clock=clock) as app:
            for number, words in enumerate(_WORDS):
                said = replace(
                    message,
                    text=words,
                    message_id=f"m{number}",
                    event_id=f"stability-{number}",
                    sent_at=clock.now(),
                )
                await app.handle(said, _ignore, options)
                if len(recorder.requests) == number:  # this person is not admitted in the empty home
                    message = terminal_message("")
                    await app.handle(
                        replace(
                            said,
                            address=message.address,
                            sender=message.sender,
                            chat_type="direct",
                            event_id=f"{number}",
                        ),
                        _ignore,
                        options,
                    )
                later[0] += _PAUSE_SECONDS
    if len(recorder.requests) < len(_WORDS):
        return [], []
    second, third = recorder.requests[1], recorder.requests[2]
    return [_as_text(one) for one in second[:-1]], [_as_text(one) for one in third[: len(second) - 1]]


def _as_text(message: Message) -> str:
    plain: Any = msgspec.to_builtins(message, enc_hook=repr)
    return f"{type(message).__name__}: {json.dumps(plain.get('content'), ensure_ascii=False)}"
