"""Random damage to a conversation, made from a seed, and the reaction of strict model services to its messages."""

import random

import msgspec
from claw.contracts.provider import Request, SystemPrompt
from claw.contracts.transcript import Assistant, Image, Text, Thinking, ToolCall, ToolResultMessage, User
from claw.storage.records import CompactionRecord
from claw_anthropic.request import MessagesTurns, body as messages_body
from claw_google.request import GeminiTurns as GoogleTurns, body as google_body
from claw_mistral.request import MistralMessages as MistralRows, body as mistral_body
from claw_openai.chat import ChatMessages, body as chat_body
from claw_openai.config import Quirks
from claw_openai.responses import ResponseItems, body as responses_body
from claw_sessions.records import BranchSummary, CustomMessage, ModelChange
from claw_testing.protocols import RequestRefused, anthropic, chat, google, mistral, responses

HEADERS = {
    "x-api-key": "k",
    "authorization": "Bearer k",
    "anthropic-version": "2023-06-01",
    "x-goog-api-key": "k",
}
HEADERS |= {":path": "/v1/models/gemini-3-x:streamGenerateContent"}
MAKERS = ("anthropic/m1", "openai/m2", "google/gemini-3-x", "mistral/m4", "fake/m1")
SYSTEM = SystemPrompt("You are claw.")


def anthropics(messages):
    turns = MessagesTurns("anthropic", "m1")
    for message in messages:
        turns.add(message)
    return messages_body(Request("m1", SYSTEM, tuple(messages)), turns, 1000)


def chats(messages):
    rows = ChatMessages("openai", Quirks())
    for message in messages:
        rows.add(message)
    return chat_body(Request("m2", SYSTEM, tuple(messages)), rows, 1000, Quirks())


def responding(messages):
    items = ResponseItems("openai", "m2")
    for message in messages:
        items.add(message)
    return responses_body(Request("m2", SYSTEM, tuple(messages)), items, 1000)


def googles(messages):
    turns = GoogleTurns("google", "gemini-3-x", needs_signature=True)
    for message in messages:
        turns.add(message)
    return google_body(Request("gemini-3-x", SYSTEM, tuple(messages)), turns, 1000, "level")


def mistrals(messages):
    rows = MistralRows("mistral", "m4")
    for message in messages:
        rows.add(message)
    return mistral_body(Request("m4", SYSTEM, tuple(messages)), rows, 1000, "levels")


SERVICES = (
    (anthropic, anthropics),
    (chat, chats),
    (responses, responding),
    (google, googles),
    (mistral, mistrals),
)


def refused(messages, turn=None):
    """Return the error of a strict service for these messages; empty when it accepts them.

    :param turn: a number that chooses one service, as a check takes 2 ms; None asks all.
    """
    for service, body in SERVICES if turn is None else [SERVICES[turn % len(SERVICES)]]:
        try:
            service.check(HEADERS, msgspec.json.decode(msgspec.json.encode(body(messages))))
        except RequestRefused as refusal:
            return f"{service.__name__}: {refusal.message}"
    return ""


class Chaos:
    """Return a damaged conversation: parts of it come late, twice, never, or in another order.

    :param size: about how many characters a text has.
    """

    def __init__(self, seed, size=60):
        self.random, self.size, self.calls = random.Random(seed), size, 0

    def text(self):
        return self.random.choice(["", " \n", "好" * 9, "word ", "x"]) * self.random.randint(1, self.size)

    def call_id(self):
        self.calls += 1
        return self.random.choice(
            [f"call_{self.calls}", "call_1", f"toolu_{self.calls}|fc_9", "é" * 70 + str(self.calls)]
        )

    def user(self):
        blocks = [Text(self.text()) for _ in range(self.random.randint(0, 2))]
        return User((*blocks, *([Image("AAAA")] if self.random.random() < 0.1 else [])))

    def answer(self):
        maker = self.random.choice(MAKERS)
        content = []
        if self.random.random() < 0.3:
            seal = self.random.choice(["", "c2VhbGVk"])
            content.append(Thinking(self.text(), signature=seal, maker=maker.partition("/")[0]))
        if self.random.random() < 0.6:
            content.append(Text(self.text()))
        for _ in range(self.random.choice([0, 0, 1, 1, 3])):
            name = (
                self.random.choice(["read", "exec", "bad name", ""]) if self.random.random() < 0.1 else "read"
            )
            content.append(ToolCall(self.call_id(), name, {"path": self.text()}))
        stop = self.random.choice(["stop", "stop", "stop", "error", "aborted", "length"])
        return Assistant(tuple(content), model=maker, stop_reason=stop)

    def results(self, answer):
        answered = [
            ToolResultMessage(
                call.id, self.random.choice([call.name, ""]), (Text(self.text()),), is_error=bool(n % 2)
            )
            for n, call in enumerate(answer.tool_calls)
            if self.random.random() < 0.85
        ]
        if self.random.random() < 0.15:
            self.random.shuffle(answered)
        if answered and self.random.random() < 0.1:
            answered.append(answered[0])
        return answered

    def history(self, length):
        late, made = [], []
        for _ in range(length):
            made.append(self.user() if self.random.random() < 0.35 else self.answer())
            if isinstance(made[-1], Assistant):
                results = self.results(made[-1])
                (late if self.random.random() < 0.1 else made).extend(results)
            elif self.random.random() < 0.5:
                made += late
                late = []
        return made + (late if self.random.random() < 0.5 else [])

    def fill(self, session, length):
        """Write a history down, with records of other kinds between."""
        for message in self.history(length):
            session.append(message)
            dice = self.random.random()
            ids = [entry.id for entry in session.entries]
            if dice < 0.03:
                kept = self.random.choice([*ids, "deadbeef"])
                session.append_entry(CompactionRecord(summary=self.text(), first_kept_entry_id=kept))
            elif dice < 0.05:
                session.append_entry(BranchSummary(summary=self.text()))
            elif dice < 0.07:
                session.append_entry(CustomMessage(content=(Text(self.text()),)))
            elif dice < 0.09:
                session.append_entry(ModelChange(model=self.random.choice(MAKERS)))
