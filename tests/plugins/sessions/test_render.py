"""Passages of a conversation, as people read them."""

from claw.contracts.messages import MessageContext, QuotedMessage, Sender
from claw.security.untrusted_text import inbound_context, trusted_facts, user_text
from claw_gateway.metadata import metadata_before
from claw_sessions.render import strip_metadata
from core.test_untrusted_text import inbound_of, pieces
from hypothesis import given


@given(pieces, pieces)
def test_shown_to_people_only_the_words_are_left(text: str, name: str):
    inbound = inbound_of(
        text, sender=Sender("u1", name), around=MessageContext(chat_name=name, quoted=QuotedMessage(text))
    )
    words, trusted = user_text(inbound), inbound_context(trusted_facts(inbound))

    assert strip_metadata(f"{trusted}\n\n{metadata_before(inbound)}{words}") == words
    assert strip_metadata(metadata_before(inbound) + words) == words
    assert strip_metadata(words) == words
