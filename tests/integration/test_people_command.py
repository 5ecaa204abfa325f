"""``claw pairing`` and ``claw route``: people are let in; a verdict names its key, its line and an edit that works."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from claw.cli.main import app
from claw.contracts.errors import ClawError
from claw.contracts.messages import Sender
from claw.storage.database import Database
from claw_gateway.pairing import Pairing
from integration.test_manual import Example, examples, home_with
from typer.testing import CliRunner, Result


def claw(*words: object) -> Result:
    return CliRunner().invoke(app, [*map(str, words)])


def document(*words: object) -> dict[str, Any]:
    answer = claw(*words, "--json")
    return {"code": answer.exit_code, **json.loads(answer.stdout)}


def asked(home: Path, id: str = "7", name: str = "Ann") -> str:
    """Somebody wrote to the gateway and was given a code."""
    database = Database(home / "state.db")
    code = Pairing(database).request_code("telegram", "default", Sender(id, name=name))
    database.close()
    assert code
    return code


# --- docs/people.md


@pytest.mark.parametrize("example", examples("people.md"), ids=str)
def test_people_are_let_in_as_the_page_says(example: Example, tmp_path: Path) -> None:
    home_with(example.config, tmp_path)
    assert example.commands, "an example shows what comes out"
    for command, shown in example.commands:
        answer = claw(*shlex.split(command)[1:])
        printed = iter(line.strip() for line in answer.stdout.splitlines())
        assert answer.exception is None or isinstance(answer.exception, SystemExit), command
        assert all(line in printed for line in shown), f"{command}\n{answer.stdout}\n{answer.stderr}"


# --- claw pairing


def test_an_unknown_sender_is_admitted_by_their_code_and_taken_out_again(home: Path) -> None:
    (home / "config.json").write_text('{"channels": {"telegram": {}}}')
    explain = ("route", "explain", "--channel", "telegram", "--sender", "7")
    assert document(*explain)["verdict"] == "stranger"
    code = asked(home)
    assert f"{code}  waits" in claw("pairing", "list").stdout

    approved = claw("pairing", "approve", code.lower())

    assert (approved.exit_code, approved.stdout) == (0, "Ann (7) may now write to your agents on telegram\n")
    assert document(*explain) == document(*explain) | {"code": 0, "verdict": "admitted", "owner": False}
    assert [person["sender"] for person in document("pairing", "list")["paired"]] == ["7"]
    assert claw("pairing", "forget", "telegram:7").exit_code == 0
    assert document(*explain)["verdict"] == "stranger"


def test_who_was_denied_waits_no_more(home: Path) -> None:
    assert claw("pairing", "deny", asked(home)).stdout == "Ann (7) was denied\n"
    assert document("pairing", "list") == {
        "code": 0,
        "schemaVersion": 1,
        "kind": "pairing",
        "pending": [],
        "paired": [],
    }


@pytest.mark.parametrize(
    ("words", "says", "code"),
    [
        (("approve", "AAAAAAAA"), "no pending request has the code AAAAAAAA", 1),
        (("deny", "AAAAAAAA"), "no pending request has the code AAAAAAAA", 1),
        (("approve", " - "), "the code is blank", 2),
        (("forget", "7"), "7 has no channel", 2),
        (("forget", "telegram:7"), "telegram:7 is not paired", 2),
    ],
)
def test_what_cannot_be_is_said(home: Path, words: tuple[str, str], says: str, code: int) -> None:
    answer = claw("pairing", *words)
    assert isinstance(answer.exception, ClawError) and answer.exception.exit_code == code
    assert says in str(answer.exception)


def test_a_look_leaves_a_home_without_a_state_as_it_is(home: Path) -> None:
    assert claw("pairing", "list").stdout == "no pending requests and no paired people\n"
    assert claw("route", "explain", "--channel", "telegram", "--sender", "7").exit_code == 1
    assert not (home / "state.db").exists()


# --- claw route explain


TOKEN = {"botToken": "123456:a-token-for-this-test"}
KEYS = {
    "telegram": TOKEN,
    "discord": {"token": "a-token-for-this-test"},
    "feishu": {"appId": "cli_a1", "appSecret": "a-secret-for-this-test"},
}


@pytest.mark.parametrize(
    ("channel", "name", "id"),
    [("telegram", "zhangsan", "42"), ("discord", "bob", "123456789012345678"), ("feishu", "on_3", "ou_1a")],
)
def test_a_name_in_a_list_is_nobody_and_that_is_said(home: Path, channel: str, name: str, id: str) -> None:
    people = [name, id, f"{channel}:{name}", f"{channel}:{id}", "+4930123"]
    section = {
        **KEYS[channel],
        "allowFrom": people,
        "groupAllowFrom": [name],
        "groups": {"a team": {"allowFrom": [name]}, "*": {}},
    }
    tree = {
        "owners": [f"{channel}:{name}", f"{channel}:{id}"],
        "approvals": {"approvers": [f"{channel}:{name}"]},
    }
    (home / "config.json").write_text(json.dumps({"channels": {channel: section}, **tree}))

    warned = [
        one["key"] for one in document("config", "validate")["warnings"] if "id looks like" in one["problem"]
    ]
    admitted = document("route", "explain", "--channel", channel, "--sender", name)

    head = f"channels.{channel}"
    assert sorted(warned) == sorted([
        "owners[0]", "approvals.approvers[0]", f"{head}.allowFrom[0]", f"{head}.allowFrom[2]",
        f"{head}.groupAllowFrom[0]", f'{head}.groups["a team"].allowFrom[0]', f'{head}.groups["a team"]',
    ])  # fmt: skip
    assert (admitted["verdict"], admitted["owner"], admitted["edits"]) == ("refused", False, [])
    assert document("route", "explain", "--channel", channel, "--sender", id)["verdict"] == "admitted"


def test_the_person_at_this_terminal_may_talk(home: Path) -> None:
    assert document("route", "explain") | {"kind": "route"} == document("route", "explain")
    assert {
        "verdict": "admitted",
        "owner": True,
        "session": "agent:default:main",
        "code": 0,
    }.items() <= document("route", "explain").items()


def test_the_deciding_key_and_the_binding_are_reported_with_their_lines(home: Path) -> None:
    (home / "config.yaml").write_text(
        "channels:\n  telegram:\n    allowFrom:\n      - '8'\n      - '7'\nbindings:\n  - agent: default\n"
    )
    answer = document("route", "explain", "--channel", "telegram", "--sender", "7")
    assert (answer["key"], answer["line"]) == ("channels.telegram.allowFrom[1]", 5)
    assert (answer["binding"], answer["bindingLine"]) == ("bindings[0]", 7)


SWITCH = "claw config set plugins.entries.telegram.enabled"
NO_TOKEN = {"telegram": {}}
REFUSED: list[tuple[dict[str, Any], tuple[str, ...], list[str], str]] = [
    ({}, ("--sender", "7"), ["claw config set channels.telegram '{}'"], "claw doctor then says"),
    (NO_TOKEN, ("--sender", "7", "--account", "b"), ["claw config set channels.telegram.accounts.b '{}'"], "claw doctor"),
    ({"telegram": {"accounts": {"work": {}}}}, ("--sender", "7", "--account", "wrk"), [], "did you mean work?"),
    (NO_TOKEN, (), [], "name the person by the id: --sender ID"),
    (NO_TOKEN, ("--sender", "zhangsan"), [], "name the person by the id: --sender 1"),
    (NO_TOKEN, ("--sender", "7"), [], "claw pairing approve CODE"),
    ({"telegram": {"groups": {"-1": {}}}}, ("--sender", "7", "--group", "-1"),
     ["claw config set channels.telegram.groups.-1.requireMention false"], "or mention the bot"),
]  # fmt: skip


@pytest.mark.parametrize(("channels", "flags", "edits", "fix"), REFUSED, ids=str)
def test_a_message_that_is_not_accepted_has_an_edit_or_a_fix(
    home: Path, channels: dict[str, Any], flags: tuple[str, ...], edits: list[str], fix: str
) -> None:
    (home / "config.json").write_text(json.dumps({"channels": channels}))
    explain = ("route", "explain", "--channel", "telegram", *flags)

    answer = document(*explain)

    assert (answer["code"], [edit["command"] for edit in answer["edits"]]) == (1, edits)
    assert fix in answer["fix"]
    assert f"  fix: {answer['fix']}" in claw(*explain).stdout


@pytest.mark.parametrize(
    ("plugins", "why", "edit"),
    [
        ({"deny": ["telegram"]}, "blocked by plugins.deny", "claw config unset 'plugins.deny[0]'"),
        ({"entries": {"telegram": {"enabled": False}}}, "disabled", f"{SWITCH} true"),
    ],
)  # fmt: skip
def test_a_message_that_no_plugin_receives_is_not_accepted(
    home: Path, plugins: dict[str, Any], why: str, edit: str
) -> None:
    tree = {"channels": {"telegram": {"allowFrom": ["7"], **TOKEN}}, "plugins": plugins}
    (home / "config.json").write_text(json.dumps(tree))
    explain = ("route", "explain", "--channel", "telegram", "--sender", "7")

    stopped = document(*explain)

    assert (stopped["verdict"], stopped["code"]) == ("refused", 1)
    assert why in stopped["why"]
    assert claw(*shlex.split(stopped["edits"][0]["command"])[1:]).exit_code == 0
    assert stopped["edits"][0]["command"] == edit
    assert document(*explain)["verdict"] == "admitted"


def test_a_channel_that_no_installed_plugin_provides_names_its_package(home: Path) -> None:
    (home / "config.json").write_text(json.dumps({"channels": {"pigeon": {"allowFrom": ["7"]}}}))

    answer = document("route", "explain", "--channel", "pigeon", "--sender", "7")

    assert (answer["verdict"], answer["fix"]) == ("refused", "install the package that provides pigeon")


GROUP = ("--group", "-100")
STOPS: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    ({"telegram": {"dmPolicy": "allowlist"}}, ()),
    ({"telegram": {"dmPolicy": "disabled", "allowFrom": ["7"]}}, ()),
    ({"telegram": {"enabled": False, "allowFrom": ["7"]}}, ()),
    ({"telegram": {"allowFrom": ["7"]}}, ("--bot",)),
    ({"telegram": {"accounts": {"work": {"dmPolicy": "allowlist", "allowFrom": []}}}}, ("--account", "work")),
    ({"telegram": {"accounts": {"work": {"enabled": False, "allowFrom": ["7"]}}}}, ("--account", "work")),
    ({"telegram": {}}, (*GROUP, "--mention")),
    ({"telegram": {"groups": [{"chatId": -200}]}}, (*GROUP, "--mention")),
    ({"telegram": {"groups": {"-100": {"enabled": False}}}}, (*GROUP, "--mention")),
    ({"telegram": {"groups": {"-100": {"allowFrom": []}}}}, (*GROUP, "--mention")),
    ({"telegram": {"groups": [{"chatId": -100, "allowFrom": []}]}}, (*GROUP, "--mention")),
    ({"telegram": {"groups": {"-100": {}}, "groupAllowFrom": ["8"]}}, (*GROUP, "--mention")),
    ({"telegram": {"groups": {"*": {}}, "groupPolicy": "disabled"}}, (*GROUP, "--mention")),
    ({"telegram": {"groups": {"-100": {}}}}, GROUP),
    ({"telegram": {"groupPolicy": "open"}}, GROUP),
    ({"telegram": {"groups": {}}}, ("--group", "a.b c", "--mention")),
]


@pytest.mark.parametrize(("channels", "flags"), STOPS, ids=str)
def test_the_edit_that_is_named_lets_the_message_through(
    home: Path, channels: dict[str, Any], flags: tuple[str, ...]
) -> None:
    (home / "config.json").write_text(json.dumps({"channels": {"telegram": TOKEN | channels["telegram"]}}))
    explain = ("route", "explain", "--channel", "telegram", "--sender", "7", *flags)
    before = document(*explain)
    assert (before["code"], len(before["edits"])) == (1, 1)

    done = claw(*shlex.split(before["edits"][0]["command"])[1:])

    assert done.exit_code == 0, done.stderr or done.exception
    assert document(*explain)["verdict"] == "admitted"
