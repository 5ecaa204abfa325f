"""The model of the month: it understands what it reads and keeps nothing. What it says follows from one request's bytes.

It does what a sensible model does. A question is answered from the request; what is not there is looked for in
the memory, in the words of the question. Asked to save what matters, or to summarise, it copies the sentences that tell
something, as many as fit into what such a model writes.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from claw_context import instructions

from rigs.month.facts import meant
from rigs.month.words import ANSWERS, TELLING

Row = Mapping[str, Any]

NOTHING = "I looked, and I do not know."
NOTE_CHARS, SUMMARY_CHARS = 2_400, 3_600
"""Most characters that it writes: about 600 tokens of notes, 900 of a summary."""

_SILENT = "NO_REPLY"
_SAVE = "(From claw itself, not from a person.)"
_SUMMARY = "Summary:\n"
_FILE = re.compile(r"^File: (.+)$", re.MULTILINE)
_SENTENCE = re.compile(r"[^.?!。？！\n]*[^\s.?!。？！](?:\.(?=\w)[^.?!。？！\n]*)*[.?!。？！]?")
_BEFORE = re.compile(r"^\s*(?:- )?(?:[a-z]+: )?")
_SAID_BY = re.compile(r"^\[(\w+)[^\]\n]*\]", re.MULTILINE)
_TOLD = re.compile(r"^(?:- |\[user\] ?)", re.MULTILINE)
_WANTED = re.compile(r"report-\d|minutes-\d|customer \d")
_READ = re.compile(r"[Rr]ead (report-\d+\.txt)")
_CUSTOMER = re.compile(r"customer (\d+)")
_HEAD = re.compile(
    r"\A.*^\[message_id: [^\n]*\]\n", re.MULTILINE | re.DOTALL
)  # what the channel says of a message
_GREP = re.compile(r"[Ww]here do the reports mention (\w+)")
_MINUTES = re.compile(r"[Mm]inutes to (\S+\.md)")


@dataclass(frozen=True)
class Reply:
    """An answer of the model.

    :param calls: name and arguments of each tool it asks for.
    :param asked: that a question was answered; ``source`` its place: told, summary, memory, prompt or nothing.
    """

    text: str = ""
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()
    source: str = ""


def tokens(body: bytes) -> int:
    """Estimate the tokens that such a service counts: four bytes of English, one and a half Chinese characters each."""
    text = body.decode()
    wide = len(body) - len(text)  # two bytes more for each Chinese character
    return len(text) // 4 + wide // 4


def answer(data: bytes) -> Reply:
    """Return the next answer (Chat Completions)."""
    body = json.loads(data)
    system, *rows = body["messages"]
    if system["content"].startswith(instructions.SUMMARISE):
        return Reply(_summary(rows[-1]["content"]))
    newest = max(at for at, row in enumerate(rows) if row["role"] == "user")
    said, since = _HEAD.sub("", rows[newest]["content"]), rows[newest + 1 :]
    if said.startswith(_SAVE):
        return _save(said, rows[:newest], since)
    tools = {tool["function"]["name"] for tool in body.get("tools", ())}
    for sentence in sentences(said):
        if telling := meant(sentence):
            return _recall(sentence, telling, system["content"], rows, since, tools)
    return _work(said, since, tools) or Reply(_chat(said))


def sentences(text: str) -> Iterator[str]:
    """The sentences of a text, without the mark of a list item or the name of who says it before them."""
    for found in _SENTENCE.finditer(text):
        if sentence := _BEFORE.sub("", found[0]).strip():
            yield sentence


def is_worth_keeping(sentence: str) -> bool:
    """Return true if a sentence states a name, a figure or a choice that may be asked for later."""
    return (
        bool(TELLING.search(sentence)) and not _WANTED.search(sentence) and not sentence.endswith(("?", "？"))
    )


def _recall(
    question: str, telling: "re.Pattern[str]", system: str, rows: Sequence[Row], since: Sequence[Row], tools: set[str]
) -> Reply:  # fmt: skip
    for source, text in _read(system, rows):
        if found := telling.findall(text):
            return Reply(f"{question} → {found[-1]}", source=source)
    if "memory_search" in tools and not any(row["role"] == "tool" for row in since):
        return Reply(calls=(("memory_search", {"query": question}),))
    return Reply(NOTHING, source="nothing")


def _read(system: str, rows: Sequence[Row]) -> Iterator[tuple[str, str]]:
    """Yield the texts of the request, the newest first, each with its kind."""
    for row in reversed(rows):
        text = row.get("content") or ""
        summary = row["role"] == "assistant" and text.startswith(_SUMMARY)
        kind = "memory" if row["role"] == "tool" else "summary" if summary else "told"
        yield kind, text
    yield "prompt", system


def _save(said: str, before: Sequence[Row], since: Sequence[Row]) -> Reply:
    """Notes of what people said; what the request says was noted before is left out."""
    if any(row["role"] == "tool" for row in since):
        return Reply(_SILENT)
    user_texts = (
        one for row in before if row["role"] == "user" for one in sentences(_HEAD.sub("", row["content"]))
    )
    new = [one for one in dict.fromkeys(user_texts) if is_worth_keeping(one) and one not in said]
    if not new:
        return Reply(_SILENT)
    [path] = _FILE.findall(said)[-1:]
    return Reply(calls=(("write", {"file_path": path, "content": _lines(new, NOTE_CHARS)}),))


def _summary(material: str) -> str:
    """The facts of the summary so far and of what people said, and the newest that was asked for."""
    old, _, conversation = material.removesuffix("</conversation>").rpartition("<conversation>")
    parts = _SAID_BY.split(conversation)
    user_texts = [words for by, words in zip(parts[1::2], parts[2::2], strict=True) if by == "user"]
    lines = [one for text in (old, *user_texts) for one in sentences(text) if is_worth_keeping(one)]
    asked = [" ".join(text.split())[:120] for text in user_texts[-5:]]
    facts = _lines([*dict.fromkeys(lines)], SUMMARY_CHARS - sum(map(len, asked)))
    done = "\n".join(f"- {text}" for text in asked)
    return f"## Facts\n{facts}\n\n## Done, and still to do\n{done}"


def _lines(facts: Sequence[str], most_chars: int) -> str:
    """A list of them, the newest ones when not all fit."""
    kept: list[str] = []
    for fact in reversed(facts):
        most_chars -= len(fact) + 3
        if most_chars < 0:
            break
        kept.append(f"- {fact}")
    return "\n".join(reversed(kept))


def _work(said: str, since: Sequence[Row], tools: set[str]) -> Reply | None:
    """Return the tool calls that a message asks for; None when it asks for none."""
    results = [row["content"] for row in since if row["role"] == "tool"]
    if results:
        return Reply(
            " ".join(["Done."] + [f"It ends with: {' '.join(text[-160:].split())}" for text in results])
        )
    calls: list[tuple[str, dict[str, Any]]] = [("read", {"file_path": name}) for name in _READ.findall(said)]
    calls += [("customer", {"number": int(number)}) for number in _CUSTOMER.findall(said)]
    calls += [("grep", {"pattern": word}) for word in _GREP.findall(said)]
    calls += [("write", {"file_path": name, "content": said}) for name in _MINUTES.findall(said)]
    return Reply(calls=tuple(calls)) if calls else None


def _chat(said: str) -> str:
    """Something friendly of a few sentences."""
    dice = int.from_bytes(hashlib.sha1(said.encode(), usedforsecurity=False).digest()[:4])
    return " ".join(ANSWERS[(dice >> at) % len(ANSWERS)] for at in range(2 + dice % 5))
