"""Passages of a conversation, as people read them."""

from claw.contracts.messages import MessageContext, QuotedMessage, Sender
from claw.security.untrusted_text import metadata_before, user_text
from claw_sessions.render import strip_metadata
from core.test_untrusted_text import inbound_of, pieces, request
from hypothesis import given


@given(pieces, pieces)
def test_shown_to_people_only_the_words_are_left(text: str, name: str):
    inbound = inbound_of(
        text, sender=Sender("u1", name), around=MessageContext(chat_name=name, quoted=QuotedMessage(text))
    )
    words = user_text(inbound)

    assert strip_metadata(request(inbound)) == words
    assert strip_metadata(metadata_before(inbound) + words) == words
    assert strip_metadata(words) == words
