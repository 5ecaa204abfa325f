"""Message metadata and pictures that a turn adds to the person's words in its requests and that the history drops."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from claw.agent.turn_context import Runtime, TurnContext
from claw.contracts.messages import AcceptedEvent, Inbound
from claw.contracts.transcript import Image, Message, Text, User
from claw.host.calls import describe_message
from claw.security.admission import configured_owners, is_owner
from claw.security.untrusted_text import inbound_context, trusted_facts, user_text
from claw.security.workspace_fs import WorkspaceFiles


class MessageMetadata(NamedTuple):
    """The additions: ``head`` before the words, ``pictures`` after them."""

    head: str
    pictures: tuple[Image, ...]

    def apply_to(self, message: User) -> User:
        """Return the message with the additions."""
        first, *rest = message.content
        head = Text(self.head + first.text) if isinstance(first, Text) else first
        return User((head, *rest, *self.pictures), message.kind, message.source)


class TurnMetadata:
    """The metadata of the messages of one turn, added to these messages whenever they are sent.

    :param taken: the events that the turn answers.
    :param prompt: their message; None when the session holds it.
    :param messages: those of the turn that the session holds already, after a restart.
    """

    def __init__(
        self, context: TurnContext, taken: Sequence[AcceptedEvent] = (), prompt: User | None = None,
        messages: Sequence[Message] = (),
        pictures_of: Callable[[Inbound, Callable[[], WorkspaceFiles]], tuple[Image, ...]] = lambda inbound, fence: (),
    ) -> None:  # fmt: skip
        self._context, self._pictures_of = context, pictures_of
        self._sent: dict[int, tuple[User, User]] = {}  # id of a message → that message, and as it is sent
        known = {str(one.number): one.inbound for one in taken}
        self._by_source = {prompt.source: self._metadata([one.inbound for one in taken])} if prompt else {}
        for message in messages:
            if isinstance(message, User) and message.source.rpartition(",")[2] in known:
                those = [known[one] for one in message.source.split(",") if one in known]
                self._by_source[message.source] = self._metadata(those)

    def message_of(self, event: AcceptedEvent) -> User:
        """Return the message of an event that joins the running turn."""
        user = message_of([event], self._context.runtime)
        if user.source:
            self._by_source[user.source] = self._metadata([event.inbound])
        return user

    def learn(self, messages: Sequence[Message], start: int) -> None:
        """Learn which messages are those of the turn: the ones from ``start`` on."""
        for message in messages[start:]:
            if isinstance(message, User) and id(message) not in self._sent:
                metadata = self._by_source.get(message.source)
                if metadata and any(metadata):
                    self._sent[id(message)] = message, metadata.apply_to(message)

    def apply(self, messages: Sequence[Message]) -> list[Message]:
        """Return the messages as they are sent; a message of the turn becomes the same object every time."""
        sent = self._sent
        if not sent:
            return list(messages)
        return [sent[id(one)][1] if id(one) in sent else one for one in messages]

    def _metadata(self, taken: Sequence[Inbound]) -> MessageMetadata:
        """Return the additions for messages that form one user message, oldest first: the newest head, all pictures."""
        context = self._context
        pictures = (image for one in taken for image in self._pictures_of(one, lambda: context.fence))
        return MessageMetadata(_head(taken[-1], context.runtime), tuple(pictures))


def _head(inbound: Inbound, runtime: Runtime) -> str:
    """Return the metadata before the person's words; the history keeps the plain words."""
    settings = runtime.config.settings
    owner = is_owner(inbound.address.channel, inbound.sender, configured_owners(settings))
    in_message = settings.prompt.inbound_meta == "user"
    described = describe_message(inbound, _capabilities(inbound, runtime), runtime.plugins)
    if not in_message and not (owner and inbound.chat_type != "direct"):
        return described
    facts = trusted_facts(inbound, owner) if in_message else {"sender_is_owner": True}
    return inbound_context(facts) + "\n\n" + described


def message_of(taken: Sequence[AcceptedEvent], runtime: Runtime) -> User:
    """Return the events as one message of the person: the text, and where it came from."""
    texts = [user_text(one.inbound, _capabilities(one.inbound, runtime)) for one in taken]
    source = ",".join(str(one.number) for one in taken if one.number)
    return User((Text("\n\n".join(texts)),), source=source)


def _capabilities(inbound: Inbound, runtime: Runtime) -> frozenset[str]:
    channel = runtime.registry.channel(inbound.address.channel, inbound.address.account)
    return frozenset() if channel is None else frozenset(channel.capabilities)
