"""The traces of calls without a conversation: none in files, and in the database none after the days of the journal."""

import asyncio
import base64

import claw_http
import openai
import pytest
from claw.testing import FakeProvider, Harness, calls, says
from claw_http.short_sessions import ShortSessionCleaner, ShortSessions
from plugins.http.sdk_gateway import GATEWAY, a_gateway, served, user

KEPT = {"inbox", "turns", "owed", "watched", "effects", "causes", "spending"}
"""The tables of the journal, which deletes its rows after seven days, and of the ledger of costs."""


def files_of(harness):
    """All files but the database, which has rows."""
    found = (one for one in harness.home.rglob("*") if one.is_file())
    return sorted(str(one.relative_to(harness.home)) for one in found if not one.name.startswith("state.db"))


def rows_of(harness):
    """The number of rows by table."""
    database = harness.app.database
    tables = database.read("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
    counts = {name: database.read(f"SELECT count(*) FROM {name}")[0][0] for (name,) in tables}
    return {name: count for name, count in counts.items() if count}


async def clean(harness):
    """Let the service of the plugin do its work once."""
    (service,) = [
        one.value for one in harness.app.host.on_demand("register_services") if one.plugin == "http"
    ]
    assert isinstance(service, ShortSessionCleaner)
    await service.clean(harness.app)


async def ask(client, text="hello", **more):
    answer = await client.chat.completions.create(model="claw", messages=user(text), **more)
    return answer.choices[0].message.content


async def test_fifty_stateless_calls_leave_no_file_and_no_row_but_those_of_journal_and_costs():
    async with a_gateway(*[says(f"answer {number}") for number in range(52)]) as (client, harness):
        await ask(client, user="ann")
        before, rows = files_of(harness), rows_of(harness)
        for number in range(1, 51):
            assert await ask(client, max_tokens=100) == f"answer {number}"
        assert len(files_of(harness)) > len(before)
        await clean(harness)
        after = rows_of(harness)

        assert files_of(harness) == before
        assert {name: count for name, count in after.items() if name not in KEPT} == {
            name: count for name, count in rows.items() if name not in KEPT
        }
        assert await ask(client, user="ann") == "answer 51"


async def test_a_repeated_request_is_answered_after_its_session_was_deleted():
    async with a_gateway(says("once"), says("twice")) as (client, harness):
        for _ in range(2):
            assert await ask(client, extra_headers={"Idempotency-Key": "k"}) == "once"
            await clean(harness)


async def test_a_call_that_runs_keeps_its_session():
    class Waiting(FakeProvider):
        async def stream(self, request):
            await clean(harness)
            seen.append(len(files_of(harness)))
            async for event in super().stream(request):
                yield event

    seen = []
    async with a_gateway(model=Waiting(calls("nope"), says("done"))) as (client, harness):
        before = len(files_of(harness))
        assert await ask(client) == "done"
        assert seen == [before + 2] * 2  # the session and its lock
        await clean(harness)
        assert len(files_of(harness)) == before


async def test_a_failed_call_leaves_nothing_either():
    async with a_gateway() as (client, harness):  # the model has no answer
        before = files_of(harness)
        with pytest.raises(openai.APIStatusError):
            await ask(client)
        await clean(harness)
        assert files_of(harness) == before


PICTURE = "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(40)).decode()


async def test_the_pictures_of_a_call_are_deleted_with_its_session_and_those_of_others_stay():
    looking = [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": PICTURE}}]
    async with a_gateway(*map(says, "abc")) as (client, harness):
        await ask(client, looking, user="ann")
        [kept] = [one for one in files_of(harness) if "/incoming/" in one]
        before = files_of(harness)
        await ask(client, looking)
        await ask(client, [*looking, *looking])
        assert len([one for one in files_of(harness) if "/incoming/" in one]) == 4
        await clean(harness)
        assert files_of(harness) == before and kept in before
        assert "http_pictures" not in rows_of(harness)


async def test_a_folder_of_pictures_that_leads_elsewhere_is_left_alone(tmp_path):
    looking = [{"type": "image_url", "image_url": {"url": PICTURE}}]
    async with a_gateway(says("a")) as (client, harness):
        await ask(client, looking)
        [picture] = list(harness.home.rglob("*image-0.png"))
        (tmp_path / picture.name).write_bytes(b"another's")
        picture.unlink()
        picture.parent.rmdir()
        picture.parent.symlink_to(tmp_path)
        await clean(harness)
        assert (tmp_path / picture.name).exists()
        assert "http_sessions" not in rows_of(harness)


async def test_a_call_whose_end_no_process_saw_is_deleted_after_some_days(tmp_path):
    """A kill between the end of the turn and the record of it."""
    async with (
        Harness(
            FakeProvider(says("a")), config=GATEWAY, plugins={"http": claw_http}, home=tmp_path
        ) as harness,
        served(harness) as client,
    ):
        before = files_of(harness)
        await ask(client)
        harness.app.database.write("UPDATE http_sessions SET until_ms = until_ms + 600000")
        await clean(harness)
        assert len(files_of(harness)) == len(before) + 2
        harness.app.database.write("UPDATE http_sessions SET until_ms = until_ms - 600001")
        await clean(harness)
        assert files_of(harness) == before


async def test_the_service_ends_with_the_gateway_and_reports_a_problem_once(caplog):
    class Refusing(ShortSessions):
        def __init__(self):
            pass

        def due(self):
            raise OSError("the disk is gone")

    stop = asyncio.Event()
    running = asyncio.ensure_future(ShortSessionCleaner(Refusing(), 0.01).run(None, stop))
    await asyncio.sleep(0.1)
    stop.set()
    await asyncio.wait_for(running, 5)
    assert caplog.text.count("the disk is gone") == 1
