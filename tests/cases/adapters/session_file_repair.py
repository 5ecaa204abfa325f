"""session_file_repair: the text of a session file → what is left of it once it was opened."""

import json
from pathlib import Path
from typing import Any

from claw.storage.database import Database
from claw_sessions.session_file import SessionHeader, parse_session
from claw_sessions.store import JsonlSessionStore

FUNCTIONS = ("claw_sessions.store:JsonlSessionStore.open", "claw_sessions.session_file:parse_session")


async def check(case: dict[str, Any], tmp_path: Path) -> None:
    before = case["input"]["file_text"].encode()
    reading = parse_session(before)
    sessions = JsonlSessionStore(tmp_path, Database(tmp_path / "state.db"))
    sessions.assign("agent:a:main", "a", "s1")
    path = sessions.path_of("a", "s1")
    path.parent.mkdir(parents=True)
    path.write_bytes(before)

    session = await sessions.open("agent:a:main", "a")

    after = path.read_bytes()
    repaired, kept = bool(session.notices), [record.id for record in session.entries]
    sessions.close()
    sessions.database.close()
    found = {
        "reason": reading.reason or None,
        "dropped_lines": len(reading.bad_lines),
        "repaired": repaired,
        "file_changed": after != before,
        "ends_with_newline": after.endswith(b"\n"),
        "surviving_ids": [json.loads(line)["id"] for line in after.split(b"\n") if line.strip()],
    }
    answers = [case["expect"], *case.get("also_ok", [])]
    assert any(all(found[key] == value for key, value in answer.items()) for answer in answers), found
    if reading.reason:
        # A lost first line costs no more than itself (P41): what else can be read goes on in the fresh session.
        assert kept == [record.id for record in parse_session(before, SessionHeader(id="s1")).entries]
        aside = [*path.parent.glob("*.bad.*"), *path.parent.glob("*.bak.*")]
        assert [file.read_bytes() for file in aside] == ([before] if before.strip() else [])
