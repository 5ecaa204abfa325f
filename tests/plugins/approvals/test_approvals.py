"""Approvals: the right person, the right request, once; and no wherever nobody can be asked."""

import asyncio
import random
import threading
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from claw import ApprovalRequest
from claw.contracts.messages import Address, Sender
from claw.contracts.text import digest_of, format_arguments
from claw.storage.clock import Clock
from claw.storage.database import Database
from claw_approvals.approvals import Approvals
from claw_approvals.grants import UNUSED_DAYS
from claw_approvals.question import MAX_SHOWN_CHARS, as_message, can_allow_always, parse_button, visible
from claw_channel_sdk import PendingApproval
from hypothesis import example, given, strategies as st

OWNER, OTHER = Sender("ou_owner"), Sender("ou_other")
CHAT = Address("feishu", "oc_1")


@dataclass
class Wall:
    """A clock that a test sets."""

    seconds: float = 1_800_000_000.0
    clock: Clock = field(init=False)

    def __post_init__(self) -> None:
        self.clock = Clock(now=lambda: self.seconds)


@dataclass
class ApprovalsBench:
    """Approvals over one state.db, and what was shown."""

    path: Path
    wall: Wall = field(default_factory=Wall)
    shown: list[PendingApproval] = field(default_factory=list)
    appeared: asyncio.Event = field(default_factory=asyncio.Event)

    def open(self, owners: tuple[str, ...] = ("feishu:ou_owner",), **given: Any) -> Approvals:
        approvals = Approvals(Database(self.path), self.wall.clock, owners=owners, **given)
        approvals.show_request = self.present
        return approvals

    async def present(self, question: PendingApproval) -> bool:
        self.shown.append(question)
        self.appeared.set()
        return True

    async def ask(self, approvals: Approvals, asked: ApprovalRequest) -> tuple["asyncio.Task[Any]", str]:
        """Start asking; the task, and the id of the question once it is shown."""
        self.appeared.clear()
        task = asyncio.create_task(approvals.ask(asked))
        await asyncio.wait({task, asyncio.create_task(self.appeared.wait())}, return_when="FIRST_COMPLETED")
        await asyncio.sleep(0)
        return task, self.shown[-1].id if self.shown else ""


def request(shown: str = "rm -r build", **given: Any) -> ApprovalRequest:
    made = ApprovalRequest(
        "agent:a:main", "a", "t1", "exec", "", shown, digest_of(shown), CHAT, grant=digest_of(shown),
        arguments={"command": "rm -r build"},
    )  # fmt: skip
    return replace(made, **given)


def by(approvals: Approvals, id: str, verdict: str, sender: Sender = OWNER, channel: str = "feishu") -> Any:
    return approvals.decide(id, verdict, channel=channel, sender=sender, owner=False)


@pytest.fixture
def bench(tmp_path: Path) -> ApprovalsBench:
    return ApprovalsBench(tmp_path / "state.db")


# --- one question, one answer


@pytest.mark.parametrize(("verdict", "allowed"), [("once", True), ("always", True), ("deny", False)])
async def test_the_owner_answers_and_the_request_goes_on(
    bench: ApprovalsBench, verdict: str, allowed: bool
) -> None:
    approvals = bench.open()
    task, id = await bench.ask(approvals, request())

    assert by(approvals, id, verdict).accepted
    assert (await task).allowed is allowed
    assert approvals.pending() == ()


async def test_an_answer_counts_once_and_a_second_one_learns_the_first(bench: ApprovalsBench) -> None:
    approvals = bench.open()
    task, id = await bench.ask(approvals, request())

    assert by(approvals, id, "deny").accepted
    late = by(approvals, id, "once")
    assert (late.accepted, late.text) == (False, f"request {id} was already answered: deny")
    assert not (await task).allowed


async def test_once_is_once_the_same_call_is_asked_again(bench: ApprovalsBench) -> None:
    approvals = bench.open()
    for _ in range(2):
        task, id = await bench.ask(approvals, request())
        by(approvals, id, "once")
        assert (await task).allowed
    assert len({question.id for question in bench.shown}) == 2


async def test_two_equal_calls_at_the_same_time_need_an_answer_each(bench: ApprovalsBench) -> None:
    approvals = bench.open()
    first, one = await bench.ask(approvals, request())
    second, two = await bench.ask(approvals, request())
    by(approvals, one, "once")
    by(approvals, two, "deny")
    assert ((await first).allowed, (await second).allowed) == (True, False)


async def test_nobody_answers_so_the_answer_is_no(bench: ApprovalsBench) -> None:
    approvals = bench.open(timeout_seconds=0.05)
    task, id = await bench.ask(approvals, request())

    decision = await task
    assert (decision.allowed, decision.reason) == (
        False,
        "the user was asked and did not answer within 1 min",
    )
    assert by(approvals, id, "once").text == f"request {id} has expired or was stopped"


async def test_what_was_stopped_and_is_wanted_again_is_asked_again(bench: ApprovalsBench) -> None:
    approvals = bench.open()
    task, first = await bench.ask(approvals, request())
    task.cancel()
    approvals.withdraw("agent:a:main")
    await asyncio.wait({task})
    again, second = await bench.ask(approvals, request())
    by(approvals, second, "once")
    assert (await again).allowed and first != second


async def test_an_answer_to_a_question_whose_call_was_cut_short_says_that_nothing_was_run(
    bench: ApprovalsBench,
) -> None:
    approvals = bench.open()
    task, id = await bench.ask(approvals, request())
    task.cancel()
    await asyncio.wait({task})
    assert approvals.pending() == ()
    answered = by(approvals, id, "once")
    assert (answered.accepted, answered.text) == (
        False,
        f"request {id} is no longer waiting; nothing was run",
    )


async def test_a_question_is_of_its_turn_alone(bench: ApprovalsBench) -> None:
    first = bench.open()
    task, old = await bench.ask(first, request())
    task.cancel()
    await asyncio.wait({task})
    over: set[str] = set()
    later = bench.open(is_over=over.__contains__)
    assert [one.id for one in later.pending()] == [old]
    over.add("t1")
    assert later.pending() == ()
    again, new = await bench.ask(later, request(turn="t2"))
    assert new != old and "is no longer waiting" in by(later, old, "once").text
    by(later, new, "once")
    assert (await again).allowed


async def test_a_stopped_turn_takes_its_open_questions_with_it(bench: ApprovalsBench) -> None:
    approvals = bench.open()
    task, id = await bench.ask(approvals, request())
    assert approvals.withdraw("agent:other:main") == 0
    assert approvals.withdraw("agent:a:main") == 1
    assert not (await task).allowed
    assert not by(approvals, id, "once").accepted


# --- P13: the right person


LEGAL = Sender("ou_owner")
WRONG: list[tuple[str, Sender]] = [
    ("feishu", Sender("ou_other")),
    ("feishu", Sender("")),
    ("feishu", Sender("OU_OWNER")),
    ("feishu", Sender("ou_owne")),
    ("feishu", Sender("ou_owner2")),
    ("feishu", Sender("other", name="ou_owner", username="ou_owner")),
    ("feishu", Sender("*")),
    ("telegram", Sender("ou_owner")),
    ("discord", Sender("feishu:ou_owner")),
    ("", Sender("ou_owner")),
]


@pytest.mark.parametrize(("channel", "sender"), WRONG, ids=repr)
@pytest.mark.parametrize("verdict", ["once", "always", "deny"])
async def test_nobody_else_decides(bench: ApprovalsBench, channel: str, sender: Sender, verdict: str) -> None:
    approvals = bench.open()
    task, id = await bench.ask(approvals, request())

    outcome = by(approvals, id, verdict, sender, channel)
    assert (outcome.accepted, outcome.text[:23]) == (False, "you may not decide that")
    assert by(approvals, id, "deny").accepted, "it is still open for the right one"
    await task


async def test_with_approvers_named_an_owner_is_none(bench: ApprovalsBench) -> None:
    approvals = bench.open(approvers=("telegram:7",))
    task, id = await bench.ask(approvals, request())

    assert not approvals.decide(id, "once", channel="feishu", sender=OWNER, owner=True).accepted
    assert by(approvals, id, "once", Sender("7"), "telegram").accepted
    assert (await task).allowed


async def test_who_is_no_approver_learns_nothing_of_what_is_asked(bench: ApprovalsBench) -> None:
    approvals = bench.open()
    task, id = await bench.ask(approvals, request())
    assert by(approvals, id, "once", OTHER).text == by(approvals, "nothing", "once", OTHER).text
    by(approvals, id, "deny")
    await task


async def test_an_unknown_id_and_an_unknown_verdict_get_a_clear_line(bench: ApprovalsBench) -> None:
    approvals = bench.open()
    assert by(approvals, "zzzz", "once").text == "there is no request zzzz"
    assert by(approvals, "zzzz", "yes").text == "yes is not an answer: use once, always or deny"


# --- nobody can be asked


async def test_where_nobody_can_show_it_the_answer_is_no_at_once(bench: ApprovalsBench) -> None:
    approvals = bench.open()
    approvals.show_request = None
    decision = await approvals.ask(request())
    assert decision.verdict == "nobody" and not decision.allowed
    assert "no one can be asked here" in decision.reason


async def test_where_the_settings_name_nobody_the_answer_is_no_at_once(bench: ApprovalsBench) -> None:
    decision = await bench.open(owners=()).ask(request())
    assert (decision.verdict, bench.shown) == ("nobody", [])
    assert "neither approvers nor owners" in decision.reason


async def test_the_person_at_the_terminal_may_always_decide(bench: ApprovalsBench) -> None:
    approvals = bench.open(owners=())
    task, id = await bench.ask(approvals, request(address=Address("terminal", "local")))
    assert by(approvals, id, "once", Sender("local"), "terminal").accepted
    assert (await task).allowed


@pytest.mark.parametrize("failure", [False, RuntimeError("the wire is cut")])
async def test_a_question_that_cannot_be_shown_is_a_no(bench: ApprovalsBench, failure: Any) -> None:
    async def present(question: PendingApproval) -> bool:
        if isinstance(failure, Exception):
            raise failure
        return False

    approvals = bench.open()
    approvals.show_request = present
    decision = await approvals.ask(request())
    assert not decision.allowed
    assert "could not be shown" in decision.reason


async def test_what_is_too_long_to_be_shown_whole_cannot_be_allowed(bench: ApprovalsBench) -> None:
    approvals = bench.open()
    decision = await approvals.ask(request("x" * (MAX_SHOWN_CHARS + 1)))
    assert (decision.verdict, bench.shown) == ("deny", [])
    assert "too long to show in full" in decision.reason


# --- restart


async def cut_off(conversation: ApprovalsBench, approvals: Approvals, asked: ApprovalRequest) -> str:
    """Ask, and die while waiting."""
    task, id = await conversation.ask(approvals, asked)
    task.cancel()
    await asyncio.wait({task})
    return id


async def test_after_a_restart_it_is_the_same_question_and_not_shown_twice(bench: ApprovalsBench) -> None:
    id = await cut_off(bench, bench.open(), request())

    again = bench.open()
    task = asyncio.create_task(again.ask(request()))
    await asyncio.sleep(0.01)
    assert by(again, id, "once").accepted
    assert (await task).allowed
    assert [question.id for question in bench.shown] == [id]


@pytest.mark.parametrize(("verdict", "allowed"), [("once", True), ("deny", False)])
async def test_an_answer_given_while_the_turn_was_away_counts_once(
    bench: ApprovalsBench, verdict: str, allowed: bool
) -> None:
    id = await cut_off(bench, bench.open(), request())
    again = bench.open()
    assert by(again, id, verdict).accepted

    assert (await again.ask(request())).allowed is allowed
    later, other = await bench.ask(again, request())
    assert other != id, "it was used up"
    by(again, other, "deny")
    await later


async def test_what_is_not_the_same_call_or_session_is_another_question(bench: ApprovalsBench) -> None:
    id = await cut_off(bench, bench.open(), request())
    again = bench.open()
    by(again, id, "once")
    for other in (request("rm -r src"), request(session_key="agent:a:feishu:direct:x")):
        task, new = await bench.ask(again, other)
        assert new != id
        by(again, new, "deny")
        assert not (await task).allowed


async def test_an_answer_is_no_good_after_its_time(bench: ApprovalsBench) -> None:
    id = await cut_off(bench, bench.open(), request())
    again = bench.open()
    bench.wall.seconds += 601
    assert not by(again, id, "once").accepted
    task, new = await bench.ask(again, request())
    assert new != id
    by(again, new, "deny")
    await task


async def test_a_jump_of_the_wall_clock_ends_no_question_that_is_waited_for(bench: ApprovalsBench) -> None:
    approvals = bench.open()
    task, id = await bench.ask(approvals, request())
    bench.wall.seconds += 24 * 3600
    assert by(approvals, id, "once").accepted
    assert (await task).allowed


async def test_another_process_may_take_the_answer(bench: ApprovalsBench) -> None:
    approvals = bench.open()
    task, id = await bench.ask(approvals, request())
    assert by(bench.open(), id, "once").accepted
    assert (await task).allowed


async def test_of_two_processes_that_wait_for_one_answer_one_runs(bench: ApprovalsBench) -> None:
    first, second = bench.open(), bench.open()
    one, id = await bench.ask(first, request())
    other = asyncio.create_task(second.ask(request()))
    await asyncio.sleep(0.01)

    assert by(second, id, "once").accepted
    decisions = [(await task) for task in (one, other)]

    assert sorted(decision.allowed for decision in decisions) == [False, True]
    assert len(bench.shown) == 1
    [refused] = [decision for decision in decisions if not decision.allowed]
    assert refused.reason == "the one-time approval was already used"


# --- always


async def test_always_is_for_exactly_that_call_of_that_agent_and_survives_a_restart(
    bench: ApprovalsBench,
) -> None:
    approvals = bench.open()
    task, id = await bench.ask(approvals, request())
    by(approvals, id, "always")
    await task

    again = bench.open()
    assert (await again.ask(request(session_key="agent:a:other", turn="t9"))).allowed
    again.show_request = None
    assert (await again.ask(request())).allowed, "nobody needs to be there"
    for other in (request("rm -r src"), request(agent="b"), request(tool="write"), request(grant="")):
        assert not (await again.ask(other)).allowed


async def test_what_was_allowed_for_always_is_listed_and_can_be_taken_back(bench: ApprovalsBench) -> None:
    approvals = bench.open()
    task, id = await bench.ask(approvals, request())
    by(approvals, id, "always")
    await task

    [grant] = approvals.grants()
    assert (grant.agent, grant.tool, grant.shown, grant.granted_by) == (
        "a",
        "exec",
        "rm -r build",
        "feishu:ou_owner",
    )
    assert approvals.revoke(grant.id)
    assert not approvals.revoke(grant.id)
    approvals.show_request = None
    assert not (await approvals.ask(request())).allowed


async def test_always_is_forgotten_after_ninety_unused_days_and_use_renews_it(bench: ApprovalsBench) -> None:
    approvals = bench.open()
    task, id = await bench.ask(approvals, request())
    by(approvals, id, "always")
    await task
    approvals.show_request = None

    for _ in range(2):
        bench.wall.seconds += (UNUSED_DAYS - 1) * 24 * 3600
        assert (await approvals.ask(request())).allowed
    bench.wall.seconds += UNUSED_DAYS * 24 * 3600
    assert not (await approvals.ask(request())).allowed
    assert bench.open().grants() == ()


async def test_what_may_not_last_is_never_offered_nor_taken_as_always(bench: ApprovalsBench) -> None:
    approvals = bench.open()
    task, id = await bench.ask(approvals, request(grant=""))
    assert bench.shown[-1].verdicts == ("once", "deny")
    assert not by(approvals, id, "always").accepted
    assert by(approvals, id, "once").accepted
    assert (await task).allowed
    assert approvals.grants() == ()


@pytest.mark.parametrize(
    "command",
    [
        *(
            "python3 a.py",
            "/usr/bin/python3.12 a.py",
            "bash x",
            "sh -c 'ls'",
            "env ls",
            "sudo ls",
            "xargs rm",
        ),
        *(
            "find . -delete",
            "nohup ls",
            "timeout 5 ls",
            "npx thing",
            "make",
            "pytest",
            "docker run x",
            "ssh host ls",
            "awk 1",
        ),
        *(
            "ls | sh",
            "ls && rm x",
            "A=1 ls",
            "ls $(rm x)",
            "ls > f",
            "",
            "busybox ls",
            "perl x",
            "node x.js",
            "git a;b",
        ),
        # a file decides what they do
        *(
            "git status",
            "git commit",
            "terraform apply",
            "./gradlew",
            "run-parts rp",
            "ssh-agent x",
            "expect x",
        ),
        *(
            "prlimit ls",
            "guile x",
            "sort a",
            "sed p",
            "sqlite3 x",
            "unknown-program",
            "/opt/bin/touch a",
            "./touch a",
        ),
    ],
)
def test_a_launcher_an_interpreter_or_a_line_for_a_shell_never_lasts(command: str) -> None:
    assert not can_allow_always("exec", {"command": command})
    assert not can_allow_always("bash", {"command": command})


def test_a_plain_command_and_any_other_tool_may_last() -> None:
    assert can_allow_always("exec", {"command": "touch a"})
    assert can_allow_always("exec", {"command": "/usr/bin/ls -la"})
    assert can_allow_always("write", {"file_path": "a"})
    assert not can_allow_always("process", {"action": "write"})


# --- a state.db that somebody else wrote


@pytest.mark.parametrize("verdict", ["once", "always"])
async def test_an_answer_that_was_written_into_the_file_runs_nothing(
    bench: ApprovalsBench, verdict: str
) -> None:
    approvals = bench.open()
    task, id = await bench.ask(approvals, request())

    Database(bench.path).write(
        "UPDATE approvals SET verdict = ?, decided_by = 'feishu:ou_owner' WHERE id = ?", verdict, id
    )

    decision = await task
    assert not decision.allowed
    assert "not given to claw" in decision.reason


async def test_a_request_whose_text_was_changed_in_the_file_runs_nothing(bench: ApprovalsBench) -> None:
    approvals = bench.open()
    task, id = await bench.ask(approvals, request("rm -r /"))

    Database(bench.path).write("UPDATE approvals SET shown = 'ls' WHERE id = ?", id)
    assert by(approvals, id, "once").accepted

    assert not (await task).allowed


async def test_a_permission_that_was_written_into_the_file_allows_nothing(bench: ApprovalsBench) -> None:
    approvals, asked = bench.open(), request()
    task, id = await bench.ask(approvals, asked)
    by(approvals, id, "always")
    assert (await task).allowed
    other = Database(bench.path)
    [row] = other.read("SELECT * FROM grants")
    other.write("DELETE FROM grants")
    forged = (row[0], row[1], row[2], "another digest", *row[4:])
    other.write("INSERT INTO grants VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", *forged)

    assert approvals.grants() == ()
    task, id = await bench.ask(approvals, request("rm -r x", grant="another digest"))
    assert not task.done()
    by(approvals, id, "deny")
    assert not (await task).allowed


async def test_the_key_is_private_and_another_process_uses_the_same(bench: ApprovalsBench) -> None:
    approvals = bench.open()
    task, id = await bench.ask(approvals, request())

    assert by(bench.open(), id, "once").accepted

    assert (await task).allowed
    assert (bench.path.parent / "plugins" / "approvals" / "key").stat().st_mode & 0o777 == 0o600


# --- races


async def test_a_thousand_races_of_allow_deny_and_expiry_have_one_outcome_each(bench: ApprovalsBench) -> None:
    rounds, rng = 1000, random.Random(6)
    approvals = bench.open(timeout_seconds=0.4)
    won: dict[str, list[str]] = {}
    lock = threading.Lock()

    def decide(id: str, verdict: str) -> None:
        if by(approvals, id, verdict).accepted:
            with lock:
                won.setdefault(id, []).append(verdict)

    async def one(at: int) -> tuple[str, bool]:
        asked = request(f"rm {at}", session_key=f"agent:a:{at}", grant="")
        task = asyncio.create_task(approvals.ask(asked))
        while not (mine := [q.id for q in bench.shown if q.request.shown == asked.shown]):
            await asyncio.sleep(0.005)
        await asyncio.sleep(rng.uniform(0.3, 0.45))
        threads = [asyncio.to_thread(decide, mine[0], rng.choice(["once", "deny"])) for _ in range(2)]
        await asyncio.gather(*threads)
        return mine[0], (await task).allowed

    for start in range(0, rounds, 250):
        bench.shown.clear()
        for id, allowed in await asyncio.gather(*(one(at) for at in range(start, start + 250))):
            assert won.get(id, ["expired"]) == ["once"] if allowed else len(won.get(id, [])) <= 1
            assert allowed == (won.get(id) == ["once"])
    counted = Database(bench.path).read("SELECT verdict, count(*) FROM approvals GROUP BY verdict")
    assert sum(count for _, count in counted) == rounds
    assert {verdict for verdict, _ in counted} <= {"once", "deny", "expired"}


# --- what is shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("rm \u202egnp.x", "rm ⟨U+202E⟩gnp.x"),
        ("a\u200bb\u00a0c", "a⟨U+200B⟩b⟨U+00A0⟩c"),
        ("\x1b[2Kls\r\x00", "⟨U+001B⟩[2Kls⟨U+000D⟩⟨U+0000⟩"),
        ("l\u3164s\ufe0f", "l⟨U+3164⟩s⟨U+FE0F⟩"),
        ("echo 你好　é ü", "echo 你好　é ü"),
        ("ls" + " " * 60 + "; rm x", "ls⟨60 × U+0020⟩; rm x"),
        ("ls" + "\n" * 30 + "rm x", "ls⟨30 × U+000A⟩rm x"),
        ("two\n\tlines", "two\n\tlines"),
    ],
)
def test_what_a_screen_would_hide_is_written_out(text: str, shown: str) -> None:
    assert visible(text) == shown


@given(st.text(max_size=200))
def test_nothing_hidden_is_left_and_it_stays_so(text: str) -> None:
    shown = visible(text)
    assert all(char.isprintable() or char in "\n\t\u3000" for char in shown)
    assert visible(shown) == shown


@given(st.text("`\n ab~", max_size=40), st.text("`\n ab~", max_size=60))
@example("x\n```\nrm -r /", "ls\n```\n||rm -r /||\n````")
def test_nothing_shown_gets_out_of_its_fence(title: str, shown: str) -> None:
    asked = request(visible(shown), title=title)
    text = as_message(PendingApproval("abc", asked, 0, 0), 600).text
    head, inside, how = text.split("```")
    assert inside.replace("\u200b", "") == f"\n{visible(shown)}\n"
    assert head.count("\n") == 1 and how.startswith("\nAnswer within")


def test_the_message_shows_all_of_it_and_its_buttons_come_back_as_answers() -> None:
    question = PendingApproval("abc234", request("rm -r build", title="needs care"), 0, 0)
    message = as_message(question, 600)
    assert (message.key, message.address) == ("approve:abc234", CHAT)
    assert "rm -r build" in message.text
    assert "needs care" in message.text
    assert [parse_button(button.value) for button in message.buttons] == [
        ("abc234", "once"), ("abc234", "always"), ("abc234", "deny"),
    ]  # fmt: skip
    assert all(len(button.value.encode()) <= 64 for button in message.buttons)


@pytest.mark.parametrize(
    "value", ["", "approve", "approve:x", "approve:x:yes", "approve::once", "deny:x:once"]
)
def test_another_button_is_no_answer(value: str) -> None:
    assert parse_button(value) is None


def test_arguments_are_laid_out_whole() -> None:
    text = format_arguments({"file_path": "a.py", "content": "one\ntwo", "count": 3})
    assert text == "file_path: a.py\ncontent:\n    one\n    two\ncount: 3"
