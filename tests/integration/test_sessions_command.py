"""``claw sessions``: conversations are listed, read, found, exported, archived and repaired without loss."""

import asyncio
import gzip
import html
import json
import os
import re
import shlex
import time
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from claw.cli.errors import report_error
from claw.cli.main import app
from claw.contracts.errors import UsageError
from claw.contracts.text import escape_controls
from claw.contracts.transcript import (
    Assistant,
    Image,
    Text,
    Thinking,
    ToolCall,
    ToolResultMessage,
    Usage,
    User,
)
from claw.storage.clock import Clock
from claw.storage.database import Database
from claw.storage.files import results_folder
from claw.storage.records import CompactionRecord, MessageRecord, Record, encode_record
from claw_config_sdk import lock_holder
from claw_context import results
from claw_sessions.index import SessionFile, list_sessions
from claw_sessions.maintenance import (
    apply_retention,
    bad_lines,
    plan_retention,
    purge_session,
    repair_session,
)
from claw_sessions.render import passages
from claw_sessions.search import search_sessions
from claw_sessions.session_file import parse_session
from claw_sessions.settings import Retention
from claw_sessions.store import JsonlSessionStore
from hypothesis import given, settings, strategies as st
from integration.test_manual import Example, examples, home_with
from typer.testing import CliRunner, Result

MAIN = "agent:default:main"
DAY = 86_400.0
MONDAY = 1_781_532_000.0  # 2026-06-15 14:00 UTC


def claw(*words: object) -> Result:
    return CliRunner().invoke(app, ["sessions", *map(str, words)])


def document_of(*words: object) -> dict[str, Any]:
    answer = claw(*words, "--json")
    return {"code": answer.exit_code, **json.loads(answer.stdout)}


def said(text: str) -> User:
    return User((Text(text),))


def answered(text: str, **usage: int) -> Assistant:
    return Assistant((Text(text),), model="offline/rules", usage=Usage(**usage))


def wrote(home: Path, key: str, *spoken: Any, at: float = MONDAY) -> Path:
    """A conversation as a turn leaves it, a minute for each message; the file's time is that of its last one."""
    minutes = iter(range(10_000))

    async def write() -> Path:
        database = Database(home / "state.db")
        sessions = JsonlSessionStore(home, database, Clock(now=lambda: at + 60 * next(minutes)))
        session = await sessions.open(key, key.split(":")[1])
        for one in spoken:
            session.append_entry(one) if isinstance(one, Record) else session.append(one)
        path = session.path
        session.release()
        sessions.close()
        database.close()
        return path

    path = asyncio.run(write())
    os.utime(path, (at + 60 * next(minutes),) * 2)
    return path


TOOLS = (
    said("what is in notes.txt?"),
    Assistant(
        (Thinking("a file", maker="x"), Text("I look."), ToolCall("c1", "read", {"path": "notes.txt"})),
        model="acme/large",
    ),
    ToolResultMessage("c1", "read", (Text("the green door\nis behind the house\nof Ann"),)),
    answered("A green door."),
)


# --- list


def test_a_list_says_who_where_how_much_and_when_the_newest_first(home: Path) -> None:
    wrote(home, MAIN, *TOOLS)
    wrote(
        home,
        "agent:coder:telegram:direct:7",
        said("hello"),
        answered("hi", input=9, output=2),
        at=MONDAY + DAY,
    )

    listed = document_of("list")
    newest, oldest = listed["sessions"]

    assert (listed["schemaVersion"], listed["code"], listed["total"]) == (1, 0, 2)
    assert (newest["key"], newest["agent"], newest["channel"]) == (
        "agent:coder:telegram:direct:7",
        "coder",
        "telegram",
    )
    assert (newest["messages"], newest["spentTokens"], newest["heldBy"]) == (2, 11, None)
    assert newest["lastHeardAt"] == "2026-06-16T14:01:00.000Z"
    assert (oldest["key"], oldest["channel"], oldest["messages"], oldest["state"]) == (MAIN, "", 3, "current")
    assert [one["key"] for one in document_of("list", "--agent", "default")["sessions"]] == [MAIN]
    assert document_of("list", "--limit", "1")["sessions"] == [newest]


def test_what_was_last_received_comes_first_whenever_a_summary_was_written(home: Path) -> None:
    older = wrote(home, MAIN, *TOOLS)
    wrote(home, "agent:default:door", said("hello"), answered("hi"), at=MONDAY + DAY)
    os.utime(older, (MONDAY + 3 * DAY,) * 2)

    assert [one["key"] for one in document_of("list")["sessions"]] == ["agent:default:door", MAIN]


def test_a_list_in_a_pipe_is_plain_and_a_home_without_conversations_says_so(home: Path) -> None:
    answer = claw("list")
    assert (answer.exit_code, answer.stdout, answer.stderr) == (0, "there are no conversations yet\n", "")
    wrote(home, MAIN, said("hello"))
    head, line = claw("list").stdout.splitlines()
    assert head.split("  ")[0] == "conversation" and line.split()[:3] == [MAIN, "1", "2"]


def test_a_list_leaves_out_what_says_nothing_and_names_archived_files_in_short(home: Path) -> None:
    wrote(home, MAIN, said("hello"))
    assert "channel" not in claw("list").stdout
    wrote(home, "agent:coder:telegram:direct:7", said("hello"))
    assert "channel" in claw("list").stdout

    claw("reset", MAIN)
    _, line = claw("list", "--aside").stdout.splitlines()
    conversation, *_, state, name = line.split()
    assert (conversation, state) == (MAIN, "reset")
    assert document_of("show", name)["state"] == "reset"


def test_what_a_repair_keeps_is_no_damage_any_more(home: Path) -> None:
    path = wrote(home, MAIN, said("hello"))
    path.write_bytes(path.read_bytes() + b"torn\n")
    listed = claw("list")
    assert (listed.exit_code, listed.stderr) == (1, "claw sessions repair --all repairs damaged ones\n")
    claw("repair", "--all")
    assert claw("list").exit_code == 0
    assert claw("list", "--aside").exit_code == 0


@pytest.mark.parametrize("command", ["reset", "delete"])
def test_an_archived_conversation_is_refused_with_the_command_that_reads_it(home: Path, command: str) -> None:
    wrote(home, MAIN, said("hello"))
    wrote(home, "agent:default:other", said("there"))
    claw(command, MAIN)
    with pytest.raises(
        UsageError, match=r"agent:default:main is archived. (claw sessions show \S+)"
    ) as refused:
        CliRunner().invoke(app, ["sessions", "show", "main"], catch_exceptions=False)
    words = str(refused.value).partition(". ")[2].split()
    assert document_of(*words[2:4])["key"] == MAIN


def test_a_conversation_that_a_process_holds_says_which_and_can_be_read(home: Path) -> None:
    path = wrote(home, MAIN, said("hello"))
    lock = JsonlSessionStore(home, Database(home / "state.db")).lock_of(MAIN, path)
    lock.take()

    assert document_of("list")["sessions"][0]["heldBy"] == os.getpid()
    assert f"process {os.getpid()} holds it" in claw("list").stdout
    assert "hello" in claw("show", "main").stdout

    lock.close()


def test_to_look_who_holds_a_conversation_blocks_no_turn(home: Path) -> None:
    path = wrote(home, MAIN, said("hello"))
    lock = JsonlSessionStore(home, Database(home / "state.db")).lock_of(MAIN, path)

    assert lock_holder(lock.path) is None
    lock.take()
    assert lock_holder(lock.path) == os.getpid()
    lock.free()
    assert lock_holder(lock.path) is None
    lock.close()


def test_a_lost_index_costs_the_list_nothing(home: Path) -> None:
    wrote(home, MAIN, said("hello"))
    for file in home.glob("state.db*"):
        file.unlink()

    assert [one["key"] for one in document_of("list")["sessions"]] == [MAIN]
    assert "hello" in claw("show", MAIN).stdout


# --- show


def test_what_was_said_is_shown_with_calls_in_short(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrote(home, MAIN, *TOOLS)
    shown = [line.strip() for line in claw("show", "main").stdout.splitlines()]
    lines = [re.sub(r"^\d\d:\d\d\s+|\s+\[\w+\]$", "", line) for line in shown]
    assert lines[lines.index("person") :] == [
        "person",
        "what is in notes.txt?",
        "acme/large",
        "I look.",
        '→ read {"path": "notes.txt"}',
        "← read: the green door (and 2 more lines)",
        "offline/rules",
        "A green door.",
    ]


def test_a_summary_a_notice_and_a_failed_tool_are_reported_as_what_they_are(home: Path) -> None:
    wrote(
        home,
        MAIN,
        said("a"),
        CompactionRecord(summary="They spoke of doors."),
        User((Text("woke up"),), kind="heartbeat"),
        ToolResultMessage("c", "exec", (Text("no such file"),), is_error=True),
        Assistant((), stop_reason="error", error="429"),
    )
    entries = document_of("show", "main")["entries"]
    assert [(one["kind"], one["who"], one["text"]) for one in entries[1:]] == [
        ("summary", "", "They spoke of doors."),
        ("note", "heartbeat", "woke up"),
        ("result", "exec", "no such file"),
        ("agent", "", "(429)"),
    ]
    assert "← exec: no such file — failed" in claw("show", "main").stdout


def test_what_precedes_a_persons_words_in_a_request_is_not_shown(home: Path) -> None:
    block = 'Sender (untrusted metadata):\n```json\n{"id": "7"}\n```\n\n[message_id: 12]\n'
    wrote(home, MAIN, said(f"{block}open the door"))
    [entry] = document_of("show", "main")["entries"]
    assert entry["text"] == "open the door"


def test_a_screen_obeys_nothing_of_what_is_shown_and_no_secret_is_shown(home: Path) -> None:
    wrote(home, MAIN, said("\x1b[2J\x1b]0;owned\x07gone\u202e❤️"), answered("key: sk-ant-REDACTED"))
    for command in (
        ("show", "main"),
        ("export", "main"),
        ("export", "main", "--to", "html"),
        ("search", "gone"),
    ):
        out = claw(*command).stdout
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", out) and "⟨U+001B⟩" in out
        assert "abcdefghij0123456789" not in out
    assert "❤️" in claw("show", "main").stdout


def test_a_part_is_shown_and_raw_is_the_file_byte_for_byte(home: Path) -> None:
    path = wrote(home, MAIN, *(said(f"word {n}") for n in range(30)))
    assert [one["text"] for one in document_of("show", "main", "--last", "2")["entries"]] == [
        "word 28",
        "word 29",
    ]
    id = parse_session(path.read_bytes()).entries[10].id
    around = document_of("show", "main", "--around", id)["entries"]
    assert [one["text"] for one in around] == [f"word {n}" for n in range(6, 15)]
    assert claw("show", "main", "--raw").stdout_bytes == path.read_bytes()
    assert claw("show", "main", "--around", "none").exit_code != 0


def test_a_conversation_is_named_by_key_end_file_or_id_and_the_nearest_is_offered(home: Path) -> None:
    path = wrote(home, MAIN, said("hello"))
    wrote(home, "agent:coder:main", said("there"))
    wrote(home, "agent:coder:errands", said("milk"))
    for name in (MAIN, path.name, path.name.partition(".")[0]):
        assert document_of("show", name)["key"] == MAIN
    assert document_of("show", "errands")["key"] == "agent:coder:errands"
    with pytest.raises(UsageError, match="agent:coder:main"):
        CliRunner().invoke(app, ["sessions", "show", "main"], catch_exceptions=False)
    with pytest.raises(UsageError, match="did you mean agent:coder:errands") as refused:
        CliRunner().invoke(app, ["sessions", "show", "agent:coder:erands"], catch_exceptions=False)
    assert refused.value.exit_code == 2


# --- export


class Page(HTMLParser):
    """The text of a page as a browser would show it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words += data


def test_a_page_holds_everything_and_asks_for_nothing(home: Path) -> None:
    image = Image("iVBORw0KGgo=", "image/png")
    evil = Image('x" onerror="alert(1)', "image/png")
    script = "<script>alert(1)</script><img src=//evil.example/x>"
    wrote(
        home, MAIN, User((Text(f"{script} 门"), image, evil)),
        Assistant((ToolCall("c", "ls", {"p": "</pre>" + script}),)),
        ToolResultMessage("c", "ls", (Text("</details>" + script),)), answered("ok"),
    )  # fmt: skip
    page = Page(claw("export", "main", "--to", "html").stdout)

    assert page.words.count(script) >= 3 and "门" in page.words
    assert [tag for tag, _ in page.tags if tag in ("script", "link", "iframe", "object")] == []
    assert [attrs["src"] for tag, attrs in page.tags if tag == "img"] == [
        "data:image/png;base64,iVBORw0KGgo="
    ]
    assert any(
        "default-src 'none'" in (attrs.get("content") or "") for tag, attrs in page.tags if tag == "meta"
    )
    assert not any(name.startswith("on") for _, attrs in page.tags for name in attrs)


@given(st.lists(st.text(max_size=60), min_size=1, max_size=4))
@settings(max_examples=60, deadline=None)
def test_no_text_gets_out_of_its_place_in_a_page(texts: list[str]) -> None:
    from claw_sessions.document import render_html

    records = [MessageRecord(id=str(n), timestamp="", message=said(text)) for n, text in enumerate(texts)]
    document_of = list(passages(records))
    page = Page(render_html("head", [], document_of))
    plain = Page(
        render_html("head", [], list(passages([MessageRecord(id="0", message=said("a"))] * len(document_of))))
    )
    shown = [one for one in page.tags if one[0] != "p"]
    assert [tag for tag, _ in shown] == [tag for tag, _ in plain.tags if tag != "p"]


def test_markdown_keeps_a_result_in_its_fence(home: Path) -> None:
    wrote(home, MAIN, said("run it"), ToolResultMessage("c", "exec", (Text("```\n# no heading\n````"),)))
    written = claw("export", "main").stdout
    assert "`````\n```\n# no heading\n````\n`````" in written
    assert "## person · 2026-06-15 14:01:00 UTC\n\nrun it" in written


def test_json_has_every_record(home: Path) -> None:
    path = wrote(home, MAIN, *TOOLS)
    body = json.loads(claw("export", "main", "--to", "json").stdout)
    assert (body["schemaVersion"], body["kind"], body["key"]) == (1, "session-export", MAIN)
    assert [one["id"] for one in body["records"]] == [
        entry.id for entry in parse_session(path.read_bytes()).entries
    ]
    assert body["records"][2]["message"]["content"][0]["text"].startswith("the green door")


def test_another_form_than_there_is_is_refused_in_plain_words(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = CliRunner().invoke(app, ["sessions", "export", MAIN, "--to", "pdf"], standalone_mode=False)

    assert answer.exception is not None and report_error(answer.exception) == 2
    assert "claw: --to: pdf is not one of: md, html, json" in capsys.readouterr().err


def test_an_export_goes_into_a_file_that_only_we_read(home: Path, tmp_path: Path) -> None:
    wrote(home, MAIN, said("hello"))
    place = tmp_path / "main.html"
    assert claw("export", "main", "--to", "html", "--out", place).stdout == ""
    assert "hello" in place.read_text() and place.stat().st_mode & 0o777 == 0o600


# --- search


def found(*words: object) -> list[tuple[str, str]]:
    return [
        (hit["session"], f"{hit['before']}{hit['found']}{hit['after']}")
        for hit in document_of("search", *words)["hits"]
    ]


def test_words_are_found_in_all_conversations_of_all_agents_the_newest_first(home: Path) -> None:
    wrote(home, MAIN, *TOOLS)
    wrote(home, "agent:coder:main", said("Is the GREEN DOOR shut?"), at=MONDAY + DAY)

    assert (
        found("green door")
        == found("door", "Green")
        == [
            ("agent:coder:main", "Is the GREEN DOOR shut?"),
            (MAIN, "A green door."),
            (MAIN, "the green door is behind the house of Ann"),
        ]
    )
    assert [key for key, _ in found("green", "--agent", "default")] == [MAIN, MAIN]
    assert found("green", "--limit", "1") == [("agent:coder:main", "Is the GREEN DOOR shut?")]
    assert found("notes.txt") == [(MAIN, 'read {"path": "notes.txt"}'), (MAIN, "what is in notes.txt?")]


@pytest.mark.parametrize("query", ["绿色的门", "门", "钥匙 绿色", "ＡＢＣ", "abc", '"quoted"', "naïve"])
def test_chinese_needs_no_blanks_and_width_case_and_quotes_do_not_hide_a_word(home: Path, query: str) -> None:
    wrote(home, MAIN, said('钥匙在绿色的门后面。ABC "quoted" NAÏVE'))
    assert [key for key, _ in found(query)] == [MAIN]


def test_a_word_is_found_as_others_may_have_written_it(home: Path) -> None:
    path = wrote(home, MAIN, said("x"))
    line = {"type": "message", "id": "a1", "message": {"role": "user", "content": "绿色的门"}}
    path.write_bytes(path.read_bytes() + json.dumps(line).encode() + b"\n")
    assert [key for key, _ in found("绿色")] == [MAIN]


def test_a_hit_shows_the_command_that_shows_it_also_of_a_conversation_started_over(home: Path) -> None:
    wrote(home, MAIN, *(said(f"word {n}") for n in range(20)), said("the needle"), said("after"))
    claw("reset", MAIN)
    wrote(home, MAIN, said("hay"), at=MONDAY + DAY)

    [hit] = document_of("search", "needle")["hits"]
    shown = CliRunner().invoke(app, shlex.split(hit["show"])[1:])

    assert hit["state"] == "reset" and ".reset." in hit["session"]
    assert "the needle" in shown.stdout and "after" in shown.stdout and "word 1\n" not in shown.stdout


def test_nothing_found_is_said_and_is_an_exit_code(home: Path) -> None:
    wrote(home, MAIN, said("hay"))
    answer = claw("search", "needle")
    assert (answer.exit_code, answer.stdout, answer.stderr) == (1, "no matches\n", "")
    claw("delete", MAIN)
    assert claw("search", "hay").exit_code == 1
    assert document_of("search", "hay", "--deleted")["code"] == 0


@given(st.text(min_size=1, max_size=30), st.text(max_size=30), st.text(max_size=30))
@settings(max_examples=60, deadline=None)
def test_every_text_is_found_by_any_word_of_it(
    tmp_path_factory: pytest.TempPathFactory, word: str, before: str, after: str
) -> None:
    text = f"{before} {word} {after}"
    path = tmp_path_factory.mktemp("any") / "x.jsonl"
    record, line = encode_record(MessageRecord(id="1", timestamp="2026-06-15T14:00:00Z", message=said(text)))
    path.write_bytes(line)
    kept = SessionFile(MAIN, "default", "x", path, "current", 1, MONDAY)
    words = [part for part in next(passages([record], str)).text.split() if part]
    for each in words:
        assert len(search_sessions([kept], each)) == 1


# --- reset, delete


def test_a_conversation_that_is_reset_is_kept_and_starts_over(home: Path) -> None:
    before = wrote(home, MAIN, said("old words"))
    content = before.read_bytes()

    done = document_of("reset", "main")
    after = wrote(home, MAIN, said("new words"), at=MONDAY + DAY)

    assert (done["code"], done["state"]) == (0, "reset") and ".jsonl.reset." in done["file"]
    assert Path(done["file"]).read_bytes() == content and after != before
    assert [one["text"] for one in document_of("show", MAIN)["entries"]] == ["new words"]
    assert [(one["key"], one["state"]) for one in document_of("list", "--aside")["sessions"]] == [
        (MAIN, "reset")
    ]
    assert "old words" in claw("show", Path(done["file"]).name).stdout


def test_a_conversation_that_is_deleted_is_kept_and_on_no_list(home: Path) -> None:
    wrote(home, MAIN, said("old words"))
    done = document_of("delete", "main")
    assert ".jsonl.deleted." in done["file"] and Path(done["file"]).exists()
    assert document_of("list")["sessions"] == []
    wrote(home, MAIN, said("new words"), at=MONDAY + DAY)
    assert [one["text"] for one in document_of("show", MAIN)["entries"]] == ["new words"]


# --- purge

DOOR, CODER = "agent:default:door", "agent:coder:main"


def everything(home: Path) -> list[str]:
    """All files below the folders of agents that hold something of a conversation."""
    return sorted(path.name for path in home.glob("agents/**/*") if path.is_file())


def test_a_purge_removes_all_files_of_a_key_and_what_its_tools_returned(home: Path) -> None:
    wrote(home, MAIN, said("the old words"))
    kept = results_folder(home / "agents" / "default", MAIN)
    kept.mkdir(parents=True)
    (kept / "c1.txt").write_text("a long result with the words")
    claw("reset", "main")
    wrote(home, MAIN, said("the new words"))
    other = wrote(home, DOOR, said("hello"))

    done = document_of("purge", "main", "--yes")

    assert (done["code"], done["kind"], done["dryRun"], len(done["removed"]), done["refused"]) == (
        0, "sessions-purge", False, 2, [],
    )  # fmt: skip
    assert done["freedBytes"] > 0
    assert [name for name in everything(home) if not name.startswith(other.name)] == []
    assert [one["key"] for one in document_of("list")["sessions"]] == [DOOR]
    assert document_of("list", "--aside")["sessions"] == []
    assert claw("search", "words").exit_code == 1
    wrote(home, MAIN, said("again"))
    assert [one["text"] for one in document_of("show", "main")["entries"]] == ["again"]


@pytest.mark.parametrize(
    ("words", "left"),
    [
        (("--older-than", "30d"), [DOOR]),
        (("--older-than", "30d", "--agent", "coder"), [DOOR, MAIN]),
        (("--all", "--agent", "default"), [CODER]),
        (("--all",), []),
        (("door", "agent:coder:main"), [MAIN]),
    ],
)
def test_conversations_are_chosen_by_key_by_age_and_by_agent(
    home: Path, words: tuple[str, ...], left: list[str]
) -> None:
    wrote(home, MAIN, said("hello"))
    wrote(home, CODER, said("hello"))
    os.utime(wrote(home, DOOR, said("hello")))  # just now
    for path in home.glob("agents/*/sessions/*.jsonl"):
        if DOOR not in path.read_text():
            os.utime(path, (time.time() - 31 * DAY,) * 2)

    planned = document_of("purge", *words, "--dry-run")
    assert (planned["dryRun"], len(planned["removed"]), planned["freedBytes"]) == (True, 3 - len(left), 0)
    assert document_of("list")["total"] == 3
    done = document_of("purge", *words, "--yes")

    assert done["removed"] == planned["removed"]
    assert sorted(one["key"] for one in document_of("list")["sessions"]) == sorted(left)


def test_a_purge_by_the_name_of_a_file_removes_that_file_alone(home: Path) -> None:
    wrote(home, MAIN, said("old"))
    file = Path(document_of("reset", "main")["file"])
    current = wrote(home, MAIN, said("new"))

    assert document_of("purge", file.name, "--yes")["removed"] == [str(file)]
    assert current.exists()


def test_a_purge_asks_and_names_what_it_would_remove(home: Path) -> None:
    path = wrote(home, MAIN, said("hello"))
    ask = ["sessions", "purge", "main"]

    refused = CliRunner().invoke(app, ask, input="n\n")
    silent = CliRunner().invoke(app, ask, input="")

    assert f"would be removed: {path}" in refused.stdout and "Remove 1 file for good?" in refused.stdout
    assert (refused.exit_code, silent.exit_code, path.exists()) == (1, 1, True)
    assert "there is no terminal" in str(silent.exception) and "--yes" in str(silent.exception)
    done = CliRunner().invoke(app, ask, input="y\n")
    assert (done.exit_code, path.exists()) == (0, False)
    assert "1 file removed, " in done.stdout
    assert "no conversation fits" in claw("purge", "--all").stdout


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ((), "needs conversations, or --older-than, or --all"),
        (("main", "--all"), "needs conversations, or --older-than, or --all"),
        (("--older-than", "soon"), "soon is no time"),
        (("--all", "--json"), "with --json nobody can confirm"),
        (("mian", "--yes"), "there is no conversation mian"),
    ],
)
def test_a_purge_without_a_clear_order_removes_nothing(
    home: Path, words: tuple[str, ...], problem: str
) -> None:
    path = wrote(home, MAIN, said("hello"))

    answer = claw("purge", *words)

    assert isinstance(answer.exception, UsageError) and problem in str(answer.exception)
    assert path.exists()


def test_a_purge_leaves_what_a_process_holds_and_says_so(home: Path) -> None:
    held, free = wrote(home, MAIN, said("hello")), wrote(home, DOOR, said("hello"))
    lock = JsonlSessionStore(home, Database(home / "state.db")).lock_of(MAIN, held)
    lock.take()

    done = document_of("purge", "--all", "--yes")

    assert (done["code"], done["removed"], held.exists()) == (1, [str(free)], True)
    assert f"process {os.getpid()} is using this session" in done["refused"][0]
    lock.close()


def test_a_purge_by_the_end_of_a_key_refuses_two_keys_also_when_one_is_archived(home: Path) -> None:
    path = wrote(home, MAIN, said("hello"))
    wrote(home, CODER, said("hello"))
    claw("delete", CODER)

    answer = claw("purge", "main", "--yes")

    assert isinstance(answer.exception, UsageError) and path.exists()
    assert "main matches several conversations" in str(answer.exception)
    assert MAIN in str(answer.exception) and CODER in str(answer.exception)


def test_a_purge_removes_the_backup_of_a_repair_whose_header_is_lost(home: Path) -> None:
    path = wrote(home, MAIN, said("the words"))
    _, rest = path.read_bytes().split(b"\n", 1)
    path.write_bytes(b"damaged\n" + rest)
    kept = results_folder(home / "agents" / "default", MAIN)
    kept.mkdir(parents=True)
    (kept / "c1.txt").write_text("a long result with the words")
    assert document_of("repair", "main")["repaired"][0]["headerLost"]
    claw("reset", "main")

    assert len(document_of("purge", MAIN, "--yes")["removed"]) == 2

    assert everything(home) == []


def test_a_purge_goes_on_when_the_disk_refuses_one_and_can_be_repeated(home: Path) -> None:
    refused, free = wrote(home, MAIN, said("hello")), wrote(home, DOOR, said("hello"))
    kept = results_folder(home / "agents" / "default", MAIN)
    kept.mkdir(parents=True)
    (kept / "c1.txt").write_text("a long result")
    in_the_way = kept.with_name(refused.stem)
    in_the_way.write_text("a file in the place of a folder")

    done = document_of("purge", "--all", "--yes")

    assert (done["code"], done["removed"]) == (1, [str(free)])
    assert "cannot write: Not a directory" in done["refused"][0]
    assert refused.exists()
    in_the_way.unlink()
    assert document_of("purge", "--all", "--yes")["removed"] == [str(refused)]
    assert everything(home) == []


def test_results_are_archived_beside_those_of_an_attempt_that_was_interrupted(home: Path) -> None:
    path = wrote(home, MAIN, said("hello"))
    kept = results_folder(home / "agents" / "default", MAIN)
    for folder, name in ((kept, "c1.txt"), (kept.with_name(path.stem), "c2.txt")):
        folder.mkdir(parents=True)
        (folder / name).write_text("a long result")

    assert document_of("delete", "main")["code"] == 0

    assert not kept.exists()
    assert sorted(one.name for one in kept.with_name(path.stem).iterdir()) == ["c1.txt", "c2.txt"]


def test_a_purge_removes_a_file_that_was_compressed_in_the_meantime(home: Path) -> None:
    wrote(home, MAIN, said("hello"))
    claw("delete", "main")
    (listed,) = list_sessions(home)
    apply_retention(home, Retention(compress_after=1.0), Clock(now=lambda: time.time() + DAY))
    assert not listed.path.exists()

    purge_session(home, listed)

    assert everything(home) == []


@pytest.mark.parametrize("command", ["reset", "delete", "repair"])
def test_what_a_process_holds_is_refused_in_one_line_with_its_number(home: Path, command: str) -> None:
    path = wrote(home, MAIN, said("hello"))
    lock = JsonlSessionStore(home, Database(home / "state.db")).lock_of(MAIN, path)
    lock.take()

    answer = claw(command, "main")

    assert f"process {os.getpid()} is using this session" in str(answer.exception)
    assert "\n" not in str(answer.exception) and path.exists()
    lock.close()


def test_a_gateway_that_has_the_conversation_in_memory_sees_that_it_started_over(home: Path) -> None:
    async def serve() -> tuple[Sequence[Any], Sequence[Any]]:
        database = Database(home / "state.db")
        sessions = JsonlSessionStore(home, database)
        session = await sessions.open(MAIN, "default")
        session.append(said("old words"))
        session.release()
        before = session.messages
        await asyncio.to_thread(claw, "reset", MAIN)
        again = await sessions.open(MAIN, "default")
        after = again.messages
        again.release()
        sessions.close()
        database.close()
        return before, after

    before, after = asyncio.run(serve())
    assert (len(before), len(after)) == (1, 0)


def test_an_archived_file_is_read_but_not_changed_again(home: Path) -> None:
    wrote(home, MAIN, said("hello"))
    name = Path(document_of("delete", "main")["file"]).name
    for command in ("reset", "delete", "repair"):
        assert "is archived" in str(claw(command, name).exception)


# --- repair


def test_a_repair_says_which_bytes_it_left_out_and_where_they_are(home: Path) -> None:
    path = wrote(home, MAIN, said("one"), said("two"), said("three"))
    lines = path.read_bytes().splitlines(keepends=True)
    lines[2] = b'{"type": "mess\x00age\n'
    damaged = b"".join(lines)
    path.write_bytes(damaged)
    listed = document_of("list")
    assert (listed["code"], listed["sessions"][0]["damage"]) == (1, "damaged lines: 3")

    [done] = document_of("repair", "main")["repaired"]

    at = len(lines[0]) + len(lines[1])
    assert done["damages"] == [{"line": 3, "atByte": at, "bytes": len(lines[2]) - 1}]
    assert Path(done["keptAs"]).read_bytes() == damaged
    assert [one["text"] for one in document_of("show", "main")["entries"]] == ["one", "three"]
    assert (
        document_of("list")["code"] == 0
        and claw("repair", "main").stdout == "1 checked: nothing is damaged\n"
    )


def test_a_lost_first_line_costs_none_of_what_was_said(home: Path) -> None:
    path = wrote(home, MAIN, said("one"), said("two"))
    path.write_bytes(b"\xff\xff" + path.read_bytes()[2:])
    assert document_of("list")["sessions"][0]["damage"] == "its first line is not a header"
    assert "one" in claw("show", "main").stdout, "readable before it is mended"

    [done] = document_of("repair", "--all")["repaired"]

    assert done["headerLost"] and [one["text"] for one in document_of("show", MAIN)["entries"]] == [
        "one",
        "two",
    ]
    assert wrote(home, MAIN, said("three")) == path, "and the conversation goes on"


def test_all_are_repaired_but_the_one_that_is_held(home: Path) -> None:
    one, two = wrote(home, MAIN, said("a")), wrote(home, "agent:coder:main", said("b"))
    for path in (one, two):
        path.write_bytes(path.read_bytes() + b"torn\n")
    lock = JsonlSessionStore(home, Database(home / "state.db")).lock_of(MAIN, one)
    lock.take()
    done = document_of("repair", "--all")
    lock.close()
    assert done["code"] == 1 and [each["key"] for each in done["repaired"]] == ["agent:coder:main"]
    assert f"process {os.getpid()}" in done["refused"][0]


@given(st.data())
@settings(max_examples=80, deadline=None)
def test_whatever_happens_to_a_file_a_repair_loses_no_other_line(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    home = tmp_path_factory.mktemp("home")
    path = wrote(home, MAIN, *(said(f"word {n}") for n in range(6)))
    lines = path.read_bytes().splitlines(keepends=True)
    hit = data.draw(st.sets(st.integers(0, len(lines) - 1)))
    for number in hit:
        lines[number] = data.draw(st.binary(max_size=20)).replace(b"\n", b"") + b"\n"
    whole = b"".join(lines)
    path.write_bytes(whole)

    [kept] = list_sessions(home)
    done = repair_session(home, kept)

    texts = [passage.text for passage in passages(parse_session(path.read_bytes()).entries)]
    assert all(f"word {number - 1}" in texts for number in range(1, len(lines)) if number not in hit)
    if done.backup:
        assert done.backup.read_bytes() == whole
        for damage in done.bad_lines:
            assert whole[damage.at_byte : damage.at_byte + damage.bytes] == lines[damage.line - 1][:-1]


def test_damages_are_counted_behind_a_byte_order_mark() -> None:
    [damage] = bad_lines(b"\xef\xbb\xbfhead\nbad\n", (2,))
    assert (damage.line, damage.at_byte, damage.bytes) == (2, 8, 3)


@pytest.mark.parametrize("way", ["reset", "delete", "in the chat"])
def test_long_answers_of_tools_stay_with_the_conversation_that_they_belong_to(home: Path, way: str) -> None:
    path = wrote(home, MAIN, *TOOLS)
    agent = home / "agents" / "default"
    asyncio.run(results.store_result(results_folder(agent, MAIN), "c1", "long"))
    if way == "in the chat":
        asyncio.run(started_over(home))
    else:
        claw(way, MAIN)

    assert not results_folder(agent, MAIN).exists(), "the next conversation under this key reads them no more"
    [answer] = agent.glob("results/*/c1.txt")
    assert answer.read_text() == "long"

    other = results_folder(agent, "agent:default:other")
    asyncio.run(results.store_result(other, "c1", "another's"))
    apply_retention(home, Retention(removeAfter="1d"), Clock(now=lambda: time.time() + 2 * DAY))
    assert not list(path.parent.glob(f"{path.stem}.jsonl.*"))
    assert [file.parent for file in agent.glob("results/*/*")] == [other]


async def started_over(home: Path) -> None:
    database = Database(home / "state.db")
    sessions = JsonlSessionStore(home, database)
    await (await sessions.open(MAIN, "default")).reset()
    sessions.close()
    database.close()


# --- archive


def old(days: float, size: int = 10, name: str = "x.jsonl.reset.T") -> SessionFile:
    return SessionFile(MAIN, "default", "x", Path(name), "reset", size, MONDAY - days * DAY)


def test_by_default_everything_is_kept(home: Path) -> None:
    wrote(home, MAIN, said("hello"))
    claw("delete", MAIN)
    assert claw("archive").stdout == "everything is kept: session.keep sets no limit\n"
    assert plan_retention([old(5000)], Retention(), MONDAY).removed == ()


def test_age_compresses_then_removes_and_size_removes_the_oldest() -> None:
    ages = [old(days) for days in (1, 40, 400)]
    plan = plan_retention(ages, Retention(compress_after=30 * DAY, remove_after=365 * DAY), MONDAY)
    assert (plan.compressed, plan.removed) == ((ages[1],), (ages[2],))
    assert plan_retention(ages, Retention(max_size=20), MONDAY).removed == (ages[2],)
    assert (
        plan_retention([old(40, name="x.jsonl.reset.T.gz")], Retention(compress_after=DAY), MONDAY).compressed
        == ()
    )


def test_a_compressed_conversation_is_shown_and_searched_as_before(home: Path) -> None:
    (home / "config.yaml").write_text("session: {keep: {compressAfter: 30d, removeAfter: 365d}}\n")
    wrote(home, MAIN, said("the green door"))
    place = Path(document_of("reset", MAIN)["file"])
    content = place.read_bytes()
    keep = Retention(compress_after=30 * DAY, remove_after=365 * DAY)
    later = Clock(now=lambda: list_sessions(home)[0].changed_at + 31 * DAY)
    assert claw("archive").stdout == "nothing needs to be cleaned up\n"

    pretended = apply_retention(home, keep, later, pretend=True)
    assert place.exists() and [kept.path for kept in pretended.compressed] == [place]
    apply_retention(home, keep, later)

    packed = place.with_name(place.name + ".gz")
    assert not place.exists() and gzip.decompress(packed.read_bytes()) == content
    assert packed.stat().st_mode & 0o777 == 0o600
    assert found("green door") == [(packed.name, "the green door")]
    assert "the green door" in claw("show", packed.name).stdout
    apply_retention(home, keep, Clock(now=lambda: MONDAY + 10_000 * DAY))
    assert [path.name for path in home.glob("agents/*/sessions/*")] == []


def test_what_goes_on_is_never_archived(home: Path) -> None:
    path = wrote(home, MAIN, said("hello"), at=MONDAY - 1000 * DAY)
    keep = Retention(compress_after=DAY, remove_after=DAY, max_size=0)
    assert apply_retention(home, keep) == apply_retention(home, keep, pretend=True)
    assert path.exists()


# --- what people read


def test_the_command_speaks_chinese(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from claw import i18n as words

    wrote(home, MAIN, *TOOLS)
    words.use_language("zh")
    try:
        assert claw("list").stdout.split()[0] == "对话"
        assert "还有 2 行" in claw("show", "main").stdout
    finally:
        words.use_language("en")


def test_harmless_leaves_what_people_write_as_it_is() -> None:
    for text in ("门\tand\nlines", "❤️ 👩‍👩‍👧 नमस्ते می‌خواهم", html.escape("<b>")):
        assert escape_controls(text) == text


# --- docs/conversations.md


def as_printed_on_a_page(text: str) -> list[str]:
    """Times, ids and sizes as the page has them, columns two blanks apart."""
    for what, shown in (
        (r"\d{4}-\d\d-\d\d", "2026-06-15"), (r"\b\d\d:\d\d\b", "14:31"), (r"\b[0-9a-f]{8}\b", "6b0fdc08"),
        (r"\d[\d.]* k?B", "1.2 kB"), (r"all \d+ bytes", "all 7133 bytes"), (r"(?<=\S)  +(?=\S)", "  "),
        (r"\d+(?=  2026)", "92"),
    ):  # fmt: skip
        text = re.sub(what, shown, text)
    return [line.strip() for line in text.splitlines()]


@pytest.mark.parametrize("example", examples("conversations.md"), ids=str)
def test_conversations_are_handled_as_the_page_says(
    example: Example, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home_with(example.config, tmp_path)
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    assert example.commands, "an example shows what comes out"
    for command, shown in example.commands:
        answer = CliRunner().invoke(app, shlex.split(command)[1:])
        assert answer.exception is None or isinstance(answer.exception, SystemExit), command
        printed = iter(as_printed_on_a_page(answer.stdout))
        wanted = as_printed_on_a_page("\n".join(shown))
        assert all(line in printed for line in wanted), f"{command}\n{answer.stdout}\n{answer.stderr}"
