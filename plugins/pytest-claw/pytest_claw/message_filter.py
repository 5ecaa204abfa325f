"""Conformance tests of a filter of messages."""

import inspect
import time
from dataclasses import replace
from typing import Any

import pytest
from claw import Address, Attachment, Inbound, Outbound, Sender

from pytest_claw.hook import HookSuite

_CHAT = Address("fake", "chat-1")
_HELLO = Inbound(_CHAT, "hello", Sender("u1", "Ann"), message_id="m1", event_id="e1")
_FILES = (Attachment("image", "cat.png", "image/png", path="/tmp/cat.png"),)
INBOUND = (
    _HELLO,
    replace(_HELLO, text=""),
    replace(_HELLO, text="你好 **bold** " * 5000),
    replace(_HELLO, kind="reaction", text="👍"),
    replace(_HELLO, text="", attachments=_FILES),
    replace(_HELLO, chat_type="group", mentions_us=True),
)
_REPLY = Outbound("turn-1:0", _CHAT, "Good day.", reply_to="m1")
OUTBOUND = (
    _REPLY,
    replace(_REPLY, text=""),
    replace(_REPLY, text="你好 **bold** " * 5000),
    replace(_REPLY, attachments=_FILES, text=""),
)
_KEPT = ("address", "sender", "message_id", "event_id", "kind", "key", "reply_to")


class FilterSuite(HookSuite):
    """The promises of a filter of messages. ``make`` is yours.

    :cvar messages: messages to filter beside the usual ones.
    :cvar quick_seconds: within which it must be done with a message.
    """

    is_named = False
    messages: tuple[Inbound | Outbound, ...] = ()
    quick_seconds = 0.5

    def test_it_has_the_members_of_its_hook(self, subject: Any) -> None:
        super().test_it_has_the_members_of_its_hook(subject)
        ways = [
            name for name in ("inbound", "outbound", "describe") if callable(getattr(subject, name, None))
        ]
        assert ways != [], f"a {type(subject).__name__} needs one of inbound, outbound and describe"

    def test_it_answers_with_a_message_or_nothing(self, subject: Any) -> None:
        for message in self._all(subject):
            answer = self._filtered(subject, message)
            assert answer is None or type(answer) is type(message), f"{message!r:.80} became {answer!r:.80}"

    def test_its_descriptions_are_lines(self, subject: Any) -> None:
        for message in INBOUND if hasattr(subject, "describe") else ():
            text = subject.describe(message, frozenset())
            assert isinstance(text, str), f"a description is text, not {type(text).__name__}"
            assert text == "" or text.endswith("\n"), (
                f"{text[-80:]!r}: the words of the message follow in this line"
            )

    def test_a_message_stays_where_it_belongs(self, subject: Any) -> None:
        for message in self._all(subject):
            if answer := self._filtered(subject, message):
                for name in _KEPT:
                    before = getattr(message, name, None)
                    assert getattr(answer, name, None) == before, f"{name} of a message must not change"

    def test_it_is_quick(self, subject: Any) -> None:
        for message in self._all(subject):
            begun = time.monotonic()
            self._filtered(subject, message)
            took = time.monotonic() - begun
            assert took <= self.quick_seconds, f"it took {took:.2f} s; after 5 s claw continues without it"

    def _all(self, subject: Any) -> list[Inbound | Outbound]:
        every = (*INBOUND, *OUTBOUND, *self.messages)
        return [message for message in every if hasattr(subject, _way(message))]

    def _filtered(self, subject: Any, message: Inbound | Outbound) -> Any:
        async def filtered() -> Any:
            answer = getattr(subject, _way(message))(message)
            return await answer if inspect.isawaitable(answer) else answer

        try:
            return self.run(filtered())
        except TimeoutError:
            raise
        except Exception as error:  # noqa: BLE001 - the filter's code
            pytest.fail(f"{message!r:.80}: it raised {error!r}, so claw would let the message pass")


def _way(message: Inbound | Outbound) -> str:
    return "inbound" if isinstance(message, Inbound) else "outbound"
