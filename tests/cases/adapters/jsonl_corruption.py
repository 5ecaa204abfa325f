"""jsonl_corruption: damaged bytes → what comes back, and that the next append is safe.

The table's plain records are put into our shape; whatever is no whole record stays byte for byte as it is.
"""

import base64
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from claw.contracts.transcript import Message, Text, ToolCall, ToolResultMessage, User
from claw.storage.database import Database
from claw.storage.records import encode_record
from claw_sessions.session_file import SessionHeader
from claw_sessions.store import JsonlSessionStore, Session

FUNCTIONS = (
    "claw_sessions.store:JsonlSessionStore.open",
    "claw_sessions.store:Session.append",
    "claw.contracts.transcript:sendable",
)
_KEY = "agent:a:main"
_BOM = b"\xef\xbb\xbf"


async def check(case: dict[str, Any], tmp_path: Path) -> None:
    path = _sessions(tmp_path).path_of("a", "s1")
    path.parent.mkdir(parents=True)
    before = _file(case)
    path.write_bytes(before)
    _sidecars(case, path)
    inode, started = path.stat().st_ino, time.monotonic()

    first, messages = await _load(tmp_path, append=None)
    if case.get("unchanged"):
        assert (path.read_bytes(), path.stat().st_ino) == (before, inode)
    if case.get("backup"):
        assert before in [file.read_bytes() for file in path.parent.iterdir() if file != path]
    second, _ = await _load(tmp_path, append=User((Text("one more"),)))
    third, _ = await _load(tmp_path, append=None)

    assert time.monotonic() - started < case.get("limit_s", 10)
    optional = case.get("may_also", ())
    ids = [record for record in first if record in case["survive"] or record not in optional]
    assert ids == case["survive"], first
    assert second[:-1] == first
    assert third == second
    for record, text in case.get("text_equals", {}).items():
        assert first[record] == text
    _check_request(case, messages)


def _sessions(home: Path) -> JsonlSessionStore:
    sessions = JsonlSessionStore(home, Database(home / "state.db"))
    sessions.assign(_KEY, "a", "s1")
    return sessions


async def _load(home: Path, append: Message | None) -> tuple["_Records", tuple[Message, ...]]:
    sessions = _sessions(home)
    session = await sessions.open(_KEY, "a")
    if append:
        session.append(append)
        await session.flush()
    loaded = _Records(session), session.messages
    sessions.close()
    sessions.database.close()
    return loaded


class _Records(list[str]):
    """The ids of a session's records; by id, the text of one."""

    def __init__(self, session: Session) -> None:
        super().__init__(record.id for record in session.entries)
        self._entries = session.entries

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, str):
            return super().__getitem__(key)
        message = next(record.message for record in self._entries if record.id == key)
        return "".join(block.text for block in message.content if isinstance(block, Text))


def _file(case: dict[str, Any]) -> bytes:
    data = base64.b64decode(case["file_b64"])
    mark = _BOM if data.startswith(_BOM) else b""
    body, parent = [], None
    for line in data.removeprefix(mark).split(b"\n"):
        ours, parent = _line(line, parent)
        body.append(ours)
    header = encode_record(SessionHeader(id="s1", timestamp="2026-03-01T00:00:00.000Z", key=_KEY))[1]
    match case["header"]:
        case "auto":
            return header + mark + b"\n".join(body)
        case "after_bom":
            return mark + header + b"\n".join(body)
    return mark + b"\n".join(body)


def _line(line: bytes, parent: str | None) -> tuple[bytes, str | None]:
    """One line with its whole records in our shape, all other bytes as they are."""
    try:
        text = line.decode()
    except UnicodeDecodeError:
        return line, parent
    out, at = "", 0
    while (start := text.find('{"type"', at)) >= 0:
        out += text[at:start]
        try:
            raw, at = json.JSONDecoder().raw_decode(text, start)
        except (ValueError, RecursionError):
            out, at = out + text[start], start + 1
            continue
        out += _record(raw, parent) or text[start:at]
        parent = raw.get("id") if isinstance(raw.get("id"), str) else parent
    return (out + text[at:]).encode(), parent


def _record(raw: dict[str, Any], parent: str | None) -> str | None:
    if raw.get("type") != "message" or "content" not in raw:
        return None
    rest = {key: value for key, value in raw.items() if key not in ("role", "content", "stop_reason")}
    return json.dumps(rest | {"parentId": parent, "message": _message(raw)})


def _message(raw: dict[str, Any]) -> dict[str, Any]:
    content = raw["content"]
    message: dict[str, Any] = {"role": raw.get("role"), "content": content}
    if "stop_reason" in raw:
        message["stopReason"] = raw["stop_reason"]
    if not isinstance(content, list):
        return message
    for block in content:
        if isinstance(block, dict) and block.get("type") == "tool_result":
            inner = block.get("content", [])
            return {"role": "tool_result", "callId": block["tool_use_id"], "toolName": "", "content": inner}
    return message | {"content": [_block(block) for block in content]}


def _block(block: Any) -> Any:
    if not isinstance(block, dict) or block.get("type") != "tool_use":
        return block
    return {
        "type": "tool_call",
        "id": block.get("id"),
        "name": block.get("name"),
        "arguments": block.get("input"),
    }


def _sidecars(case: dict[str, Any], path: Path) -> None:
    if lock := case.get("lock"):
        beside = path.with_name(path.name + ".lock")
        beside.write_text("" if lock.get("empty") else json.dumps({"pid": lock.get("pid")}))
        then = time.time() - lock.get("age_s", 0)
        os.utime(beside, (then, then))
    if "tmp_b64" in case:
        path.with_name(path.name + ".tmp").write_bytes(base64.b64decode(case["tmp_b64"]))


def _check_request(case: dict[str, Any], messages: Sequence[Message]) -> None:
    results = [message.call_id for message in messages if isinstance(message, ToolResultMessage)]
    for place, message in enumerate(messages):
        calls = [block.id for block in message.content if isinstance(block, ToolCall)]
        behind = [
            m.call_id
            for m in messages[place + 1 : place + 1 + len(calls)]
            if isinstance(m, ToolResultMessage)
        ]
        assert behind == calls
    for call in case.get("context_must_answer", ()):
        assert call in results
    for call in case.get("context_must_not_contain_results", ()):
        assert call not in results
    for call, most in case.get("max_results", {}).items():
        assert results.count(call) <= most
    if case.get("no_empty_text"):
        assert all(block.text for message in messages for block in message.content if isinstance(block, Text))
