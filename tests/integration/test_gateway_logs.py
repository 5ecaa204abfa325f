"""The log of the gateway: one object a line, no secret, never too large, and never the reason why something stops."""

import asyncio
import json
import logging
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from claw.contracts.messages import Address
from claw.security.redaction import Redactor
from claw.storage.clock import SYSTEM_CLOCK, Clock
from claw.storage.files import SYSTEM_DISK
from claw_gateway.process.log_reader import LogFilter, LogReader
from claw_gateway.process.logs import (
    LINE_CHARS,
    LogHandler,
    RotatingLogFile,
    format_line,
    install_handler,
    rotated_path,
)
from claw_gateway.process.repeats import BURST
from claw_gateway.process.report import LOG_CONTEXT, log_context_of
from hypothesis import given, strategies as st

SECRET = "sk-live-0123456789abcdef0123456789abcdef"


@contextmanager
def log_in(
    folder: Path, screen: Any = None, clock: Clock = SYSTEM_CLOCK, **book: Any
) -> Iterator[tuple[logging.Logger, LogHandler]]:
    sink = LogHandler(RotatingLogFile(folder / "claw.jsonl", **book), screen, clock)
    sink.redact = Redactor([SECRET])
    with install_handler(sink) as log:
        yield log, sink


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "claw.jsonl").read_text(encoding="utf-8").splitlines()]


def test_a_line_is_an_object_that_says_when_how_grave_where_and_what(tmp_path):
    with log_in(tmp_path / "logs") as (log, _):
        log.warning("it waits", extra={"channel": "telegram", "account": "work", "session": "agent:x:main"})

    [line] = lines(tmp_path / "logs")
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "warning", "logger": "claw", "channel": "telegram", "account": "work", "session": "agent:x:main",
        "text": "it waits",
    }  # fmt: skip


def test_only_this_user_may_read_it(tmp_path):
    with log_in(tmp_path / "logs") as (log, _):
        log.info("hello")

    assert (tmp_path / "logs").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "logs" / "claw.jsonl").stat().st_mode & 0o777 == 0o600


def test_no_secret_is_in_any_part_of_it_nor_on_the_screen(tmp_path):
    screen = StringIO()
    with log_in(tmp_path, screen) as (log, _):
        log.error("it said %s", SECRET, extra={"channel": SECRET, "session": f"x:{SECRET}"})
        try:
            raise ValueError(f"token {SECRET} refused")
        except ValueError:
            log.exception("refused")
        logging.getLogger("discord.gateway").warning("Authorization: Bearer %s", SECRET)

    assert SECRET not in (tmp_path / "claw.jsonl").read_text() + screen.getvalue()
    assert "ValueError" in lines(tmp_path)[1]["error"]


def test_libraries_are_logged_from_warnings_on_and_we_from_information_on(tmp_path):
    with log_in(tmp_path) as (log, sink):
        logging.getLogger("httpx2").info("a request")
        logging.getLogger("uvicorn.error").warning("a library warns")
        log.debug("a detail")
        log.getChild("serve").info("a step")
        sink.own_level = logging.ERROR
        log.warning("too little now")

    assert [(line["logger"], line["text"]) for line in lines(tmp_path)] == [
        ("uvicorn.error", "a library warns"),
        ("claw.serve", "a step"),
    ]


def test_a_plugin_is_logged_as_claw_is_while_it_is_loaded(tmp_path):
    plugin, other = logging.getLogger("claw_acme.channel"), logging.getLogger("claw_acme2")
    with log_in(tmp_path) as (_, sink):
        plugin.info("not yet")
        sink.set_levels(["claw_acme", "", "deep.package"], logging.INFO)
        plugin.info("listening")
        plugin.debug("a detail")
        other.info("no plugin of ours")
        logging.getLogger().info("nobody")
        sink.set_levels(["claw_acme"], logging.DEBUG)
        plugin.debug("every request")
        sink.set_levels([], logging.INFO)
        plugin.info("no longer")
    plugin.info("after all")

    assert [line["text"] for line in lines(tmp_path)] == ["listening", "every request"]
    assert not plugin.isEnabledFor(logging.INFO), "as it was"


def test_a_line_of_a_hundred_thousand_characters_is_cut_and_says_so(tmp_path):
    with log_in(tmp_path) as (log, _):
        log.warning("a word " * 20_000)

    [line] = lines(tmp_path)
    assert len(line["text"]) < LINE_CHARS + 100
    assert "140000" in line["text"]


@given(st.integers(0, 300_000), st.integers(0, 20_000))
def test_no_cut_lets_a_part_of_a_secret_through(before, masked):
    secret = "Zq8" + "xK4tPw9" * 9
    sink = LogHandler(RotatingLogFile(Path("unused")))
    sink.redact = Redactor([secret])
    text = (secret + " ") * (masked // 100) + "." * before + secret + "." * 40_000

    shown = sink.redacted(text)

    assert secret[:12] not in shown
    assert len(shown) < LINE_CHARS + 100


def test_a_full_file_is_put_aside_and_only_so_many_stay(tmp_path):
    folder = tmp_path / "logs"
    with log_in(folder, max_bytes=2000, keep=2) as (log, _):
        for number in range(100):
            log.info("line %d", number)

    files = sorted(path.name for path in folder.iterdir())
    assert files == ["claw.jsonl", "claw.jsonl.1", "claw.jsonl.2"]
    assert all((folder / name).stat().st_size <= 2000 for name in files)
    with closing(LogReader(folder / "claw.jsonl")) as reader:
        kept = [line["text"] for line in reader.newest(LogFilter(), None)]
    assert kept == [f"line {number}" for number in range(100 - len(kept), 100)]


class Moody:
    """A disk that refuses writes on request."""

    def __init__(self) -> None:
        self.refuses = False
        self.disk = replace(SYSTEM_DISK, write=self._write)

    def _write(self, fd: int, data: bytes) -> int:
        if self.refuses:
            raise OSError(28, "No space left on device")
        return os.write(fd, data)


def test_a_broken_disk_stops_nobody_and_the_loss_is_reported_once_it_works_again(tmp_path):
    moody, screen = Moody(), StringIO()
    with log_in(tmp_path, screen, disk=moody.disk) as (log, _):
        log.info("before")
        moody.refuses = True
        log.info("lost")
        log.info("lost too")
        moody.refuses = False
        log.info("after")

    assert [line["text"] for line in lines(tmp_path)] == [
        "before",
        "2 lines of the log could not be written",
        "after",
    ]
    assert "lost too" in screen.getvalue()


def test_a_folder_that_cannot_be_made_or_a_closed_screen_stops_nobody(tmp_path):
    (tmp_path / "logs").write_text("a file is in the way")
    screen = StringIO()
    screen.close()
    with log_in(tmp_path / "logs", screen) as (log, _):
        log.error("nobody hears this")


def test_of_the_same_cause_one_line_a_second_is_written_and_the_others_are_counted(tmp_path):
    moment = [100.0]
    with log_in(tmp_path, clock=Clock(monotonic=lambda: moment[0])) as (log, sink):
        for number in range(5000):
            log.warning("/home/a/%032x.jsonl: cannot open: Too many open files (pid %d)", number, number)
        log.warning("the channel post is up again")
        at_once = lines(tmp_path)
        moment[0] += 1.0
        for number in range(2):
            log.warning("/home/a/%032x.jsonl: cannot open: Too many open files (pid %d)", number, number)
        moment[0] += 1.0
        sink.write_counts()
        sink.write_counts()

    texts = [line["text"] for line in at_once]
    assert len(texts) == BURST + 1 and texts[-1] == "the channel post is up again"
    second, counted = (line["text"] for line in lines(tmp_path)[len(at_once) :])
    assert second.endswith(f"(pid 0) … and {5000 - BURST:,} more")
    assert counted.startswith("… and 1 more: ") and counted.endswith("(pid 1)")


def test_a_line_that_repeats_word_for_word_is_written_once_a_second_for_an_hour(tmp_path):
    moment = [100.0]
    with log_in(tmp_path, clock=Clock(monotonic=lambda: moment[0])) as (log, _):
        for _ in range(28_800):
            log.error("it failed")
            moment[0] += 0.125

    assert 3600 <= len(lines(tmp_path)) <= 3602


def test_lines_that_differ_in_a_name_or_in_their_plugin_are_not_of_the_same_cause(tmp_path):
    with log_in(tmp_path) as (log, _):
        for channel in ("telegram", "discord"):
            log.warning("channel %s is gone", channel)
        for plugin in ("one", "two"):
            log.warning("it failed", extra={"plugin": plugin})
        for _ in range(3):
            log.info("ready")

    assert len(lines(tmp_path)) == 7


def test_the_count_of_the_last_second_is_written_when_the_log_ends(tmp_path):
    with log_in(tmp_path) as (log, _):
        for _ in range(3):
            log.error("it failed")

    assert [line["text"] for line in lines(tmp_path)] == ["it failed", "… and 2 more: it failed"]


def test_what_a_library_says_wrongly_is_written_all_the_same(tmp_path):
    with log_in(tmp_path) as (log, _):
        log.warning("%d of %d", *["one"])
        log.warning("lone surrogate \udc80")

    assert len(lines(tmp_path)) == 2


def test_no_foreign_text_moves_the_cursor_or_imitates_a_log_line():
    shown = format_line(
        {
            "time": "2026-03-01T12:00:00Z",
            "level": "info",
            "channel": "\x9d0;owned\x9c",
            "text": "a\x1b[2Jb\r\n12:00:01 error: forged\u202e",
            "error": "\x90\u2066",
        }
    )

    assert not set(shown) & set("\x1b\r\x90\x9c\x9d\u202e\u2066")
    assert shown.splitlines()[1].startswith("         ")


def written(*texts: str, **more: str) -> bytes:
    return b"".join(json.dumps({"level": "info", "text": text, **more}).encode() + b"\n" for text in texts)


def test_reading_takes_the_newest_lines_that_fit_the_filter(tmp_path):
    path = tmp_path / "claw.jsonl"
    rotated_path(path, 1).write_bytes(
        written("old", channel="feishu") + written("old too", time="2026-01-01T00:00:00Z")
    )
    path.write_bytes(
        written("new", time="2026-02-01T00:00:00Z", channel="feishu", account="work") + b"half a li" + b"\n"
    )

    def texts(most: int | None = None, **wanted: Any) -> list[str]:
        with closing(LogReader(path)) as reader:
            return [line["text"] for line in reader.newest(LogFilter(**wanted), most)]

    assert texts() == ["old", "old too", "new"]
    assert texts(1) == ["new"]
    assert texts(2) == ["old too", "new"]
    assert texts(channel="feishu") == ["old", "new"]
    assert texts(channel="feishu/work") == ["new"]
    assert texts(level=logging.WARNING) == []
    assert texts(since=1_767_225_600.0 + 1) == ["new"]


def test_a_line_says_which_chat_the_work_it_comes_from_is_about(tmp_path):
    async def work(account: str) -> None:
        LOG_CONTEXT.set(log_context_of(Address("feishu", "oc_1", account=account), f"session of {account}"))
        await asyncio.to_thread(log.warning, "of %s", account)

    async def gateway() -> None:
        await asyncio.gather(work("default"), work("sales"))
        log.warning("of claw itself")

    with log_in(tmp_path) as (log, _):
        asyncio.run(gateway())
    with closing(LogReader(tmp_path / "claw.jsonl")) as reader:
        by_text = {one["text"]: one for one in reader.newest(LogFilter(), None)}

    assert (by_text["of sales"]["channel"], by_text["of sales"]["account"]) == ("feishu", "sales")
    assert by_text["of default"]["session"] == "session of default" and "account" not in by_text["of default"]
    assert "channel" not in by_text["of claw itself"]
    assert [LogFilter(channel="feishu/default").matches(one) for one in by_text.values()].count(True) == 1
    assert format_line({**by_text["of sales"], "text": "feishu/sales: hello"}).endswith(
        " feishu/sales: hello"
    )


def test_of_another_day_a_line_shows_the_date():
    line = {"time": "2026-03-01T12:00:00.000Z", "level": "info", "logger": "claw", "text": "ready"}
    there = datetime.fromisoformat(line["time"]).astimezone()

    assert format_line(line, today=there.date()) == f"{there:%H:%M:%S} ready"
    assert format_line(line, today=there.date() + timedelta(1)) == f"{there:%Y-%m-%d %H:%M:%S} ready"


def test_following_goes_on_across_a_turn_over_and_loses_nothing(tmp_path):
    followed = LogReader(tmp_path / "claw.jsonl")
    seen: list[str] = []
    with log_in(tmp_path, max_bytes=1000, keep=5) as (log, _):
        log.info("first")
        seen += [line["text"] for line in followed.newest(LogFilter(), 100)]
        for number in range(40):
            log.info("line %d", number)
            if number % 9 == 0:
                seen += [line["text"] for line in followed.new_lines(LogFilter())]
        seen += [line["text"] for line in followed.new_lines(LogFilter())]
    followed.close()

    assert seen == ["first", *(f"line {number}" for number in range(40))]


def test_following_misses_no_line_that_is_written_while_the_file_turns_over(tmp_path):
    lines_ = 1500
    followed = LogReader(tmp_path / "claw.jsonl")
    assert followed.newest(LogFilter(), 10) == []
    seen: list[str] = []
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # so that the one writes in the middle of what the other does
    with log_in(tmp_path, max_bytes=1500, keep=900) as (log, _):
        writing = threading.Thread(target=lambda: [log.info("%d", number) for number in range(lines_)])
        writing.start()
        try:
            while writing.is_alive():
                seen += [line["text"] for line in followed.new_lines(LogFilter())]
            writing.join()
        finally:
            sys.setswitchinterval(usual)
        seen += [line["text"] for line in followed.new_lines(LogFilter())]
    followed.close()

    assert seen == [str(number) for number in range(lines_)]


@pytest.mark.parametrize("how", ["emptied", "gone"])
def test_following_goes_on_in_a_log_that_somebody_emptied_or_took_away(tmp_path, how):
    path = tmp_path / "claw.jsonl"
    path.write_bytes(written("first, and longer") + written("second"))
    followed = LogReader(path)
    assert len(followed.newest(LogFilter(), 10)) == 2
    if how == "gone":
        path.unlink()
        assert list(followed.new_lines(LogFilter())) == []
        path.write_bytes(written("new"))
    else:
        os.truncate(path, 0)
        with path.open("ab") as file:
            file.write(written("new"))

    seen = [line["text"] for _ in range(3) for line in followed.new_lines(LogFilter())]
    followed.close()
    assert seen == ["new"]


def test_a_log_that_was_put_aside_by_somebody_else_is_started_over_when_he_says_so(tmp_path):
    with log_in(tmp_path) as (log, sink):
        log.info("before")
        (tmp_path / "claw.jsonl").rename(tmp_path / "aside")
        log.info("still there")
        sink.reopen()
        log.info("after")

    assert [line["text"] for line in lines(tmp_path)] == ["after"]
    assert (tmp_path / "aside").read_text().count("\n") == 2


def test_following_a_log_that_is_not_there_yet_waits_for_it(tmp_path):
    followed = LogReader(tmp_path / "claw.jsonl")
    assert followed.newest(LogFilter(), 10) == []
    assert list(followed.new_lines(LogFilter())) == []

    (tmp_path / "claw.jsonl").write_bytes(written("here")[:-5])
    assert list(followed.new_lines(LogFilter())) == []
    with (tmp_path / "claw.jsonl").open("ab") as file:
        file.write(written("here")[-5:])

    assert [line["text"] for line in followed.new_lines(LogFilter())] == ["here"]
    followed.close()


@pytest.mark.parametrize(
    ("text", "ago"),
    [("90s", 90), ("10m", 600), ("1h30m", 5400), ("2d", 172_800), ("1970-01-12T13:46:40+00:00", 0)],
)
def test_since_is_a_time_or_how_long_ago(text, ago):
    from claw_gateway.commands.logs import parse_time

    assert parse_time(text, 1_000_000.0) == 1_000_000.0 - ago
