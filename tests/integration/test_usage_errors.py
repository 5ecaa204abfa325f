"""A command line that cannot be read is answered in claw's own words, in both languages, with exit code 2."""

import json
import re
import sys

import pytest
from claw import i18n
from claw.cli.main import run

TABLE = [
    ("auth ad", "unknown command auth ad. did you mean claw auth add?", "没有命令 auth ad"),
    ("chta", "unknown command chta. did you mean claw chat?", "没有命令 chta"),
    ("models frobnicate", "unknown command models frobnicate. claw models --help lists them", "没有命令"),
    ("plugins lst", "unknown command plugins lst. did you mean claw plugins list?", "claw plugins list"),
    ("auth --", "the command is missing. claw auth --help lists them", "缺少命令"),
    ("tools explain", "NAME is missing. usage: claw tools explain [OPTIONS] NAME", "缺少 NAME"),
    ("config set tools", "VALUE is missing. usage: claw config set [OPTIONS] KEY VALUE", "缺少 VALUE"),
    ("status x y", "unexpected argument x y. usage: claw status [OPTIONS]", "多余的参数 x y"),
    (
        "chat hello world",
        "claw chat [OPTIONS] [TEXT] (quote values that contain spaces)",
        "请加引号",
    ),
    ('tools call ls {"path":"."}', "write --args in front of it", "--args"),
    ("auth add openai --nme x", "unknown option --nme. did you mean --name?", "没有选项 --nme"),
    (
        "--frobnicate",
        "unknown option --frobnicate. claw --help lists its options",
        "没有选项 --frobnicate",
    ),
    ("usage --last 3", "unknown option --last. claw usage --help lists its options", "claw usage --help"),
    ("sessions list -z", "unknown option -z. claw sessions list --help lists its options", "没有选项 -z"),
    ("auth add openai --name", "--name needs a value. write --name VALUE", "后面要有一个值"),
    ("models status --json=yes", "--json takes no value. write --json alone", "--json 不带值"),
    ("tools list --depth x", "--depth: x is not a whole number", "x 不是整数"),
    ("tools list --depth -1", "--depth: -1 is too small: the minimum is 0", "最小是 0"),
    (
        "sessions export x --to pdf",
        "--to: pdf is not one of: md, html, json",
        "pdf 不是可选值：md、html、json",
    ),
    ("sessions export x --to htm", "--to: htm is not one of: md, html, json. did you mean html?", "html"),
    ("help plugins lst", "unknown command plugins lst. did you mean claw plugins list?", "没有命令"),
    ("route explain --chat-type foo", "--chat-type: foo is not one of: direct, group, channel", "不是可选值"),
    (
        "route explain --channel telegramm",
        "--channel: there is no channel telegramm. did you mean telegram?",
        "没有渠道 telegramm",
    ),
    ("sessions list --agent nobody", "there is no agent nobody. Agents: default", "nobody"),
    ("sessions search x --agent nobody", "there is no agent nobody. Agents: default", "nobody"),
    ("prompt show --mode foo", "--mode: foo is not one of: full, minimal, none", "不是可选值"),
    ("plugins new x --kind tol", "--kind: tol is not one of: tool, channel, provider, section", "tool"),
    ("plugins doctor --budget-ms -3", "--budget-ms: -3 is too small: the minimum is 0", "最小是 0"),
    ("auth add openai sk-secret", "claw auth add openai --name NAME", "claw auth add openai --name"),
]
ENGLISH = ("No such", "Missing", "Got unexpected", "Invalid value", "Input should", "requires", "Usage")


def said(line: str, locale: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    """Return the text on stderr; stdout must be empty and the exit code that of a usage error."""
    monkeypatch.setattr(sys, "argv", ["claw", *line.split()])
    monkeypatch.setenv("LC_ALL", locale)
    try:
        with pytest.raises(SystemExit) as left:
            run()
    finally:
        i18n.use_language("en")
    printed = capsys.readouterr()
    assert (left.value.code, printed.out) == (2, "")
    return printed.err


@pytest.mark.parametrize(("line", "english", "chinese"), TABLE, ids=[line for line, _, _ in TABLE])
@pytest.mark.parametrize("locale", ["C.UTF-8", "zh_CN.UTF-8"])
def test_a_misuse_is_reported_in_the_language_of_the_person(
    line, english, chinese, locale, monkeypatch, capsys
):
    printed = said(line, locale, monkeypatch, capsys)

    assert printed.startswith("claw: ") and printed.count("\n") == 1
    assert (chinese if locale.startswith("zh") else english) in printed
    assert not any(word in printed for word in ENGLISH)


def test_what_may_be_a_key_is_never_said_back(monkeypatch, capsys):
    assert "sk-secret" not in said("auth add openai sk-secret", "C", monkeypatch, capsys)


def left(words, monkeypatch, capsys):
    """Run ``claw WORDS``; return its exit code and what is on stdout and stderr."""
    monkeypatch.setattr(sys, "argv", ["claw", *words])
    with pytest.raises(SystemExit) as ended:
        run()
    return ended.value.code or 0, *capsys.readouterr()


def test_with_json_an_error_is_also_one_document_on_stdout(monkeypatch, capsys):
    code, out, err = left(["models", "status", "--json", "--agnet", "x"], monkeypatch, capsys)
    assert err == "claw: unknown option --agnet. did you mean --agent?\n"
    assert (code, json.loads(out)) == (2, {
        "schemaVersion": 1, "kind": "error", "exitCode": 2, "where": "", "problem": "unknown option --agnet",
        "fix": "did you mean --agent?",
    })  # fmt: skip


def test_the_document_of_an_error_masks_secrets_as_the_text_does(monkeypatch, capsys):
    secret = "sk-ant-api03-" + "q7" * 20
    code, out, err = left(["status", "--json", secret], monkeypatch, capsys)
    assert code == 2
    assert secret not in out + err


@pytest.mark.parametrize("text", ["", "  \n"])
def test_an_empty_message_is_refused_before_anything_is_sent(text, monkeypatch, capsys):
    assert left(["chat", text], monkeypatch, capsys) == (
        2,
        "",
        "claw: there is nothing to say. claw chat 'your message'\n",
    )


@pytest.mark.parametrize("words", ["-h", "plugins -h", "plugins list -h", "memory search -h"])
def test_h_is_help_everywhere(words, monkeypatch, capsys):
    code, out, _ = left(words.split(), monkeypatch, capsys)
    assert code == 0
    assert out.split("\n")[1].strip().startswith("Usage: claw " + words.removesuffix("-h").strip())


@pytest.mark.parametrize("words", ["", "plugins", "plugins list", "memory search"])
def test_help_of_a_command_is_what_its_option_prints(words, monkeypatch, capsys):
    asked = left(["help", *words.split()], monkeypatch, capsys)
    assert asked == left([*words.split(), "--help"], monkeypatch, capsys)


def test_help_names_values_in_capitals_and_none_for_flags(monkeypatch, capsys):
    _, shown, _ = left(["pairing", "forget", "--help"], monkeypatch, capsys)
    assert "claw pairing forget [OPTIONS] {PERSON}" in shown
    assert re.search(r"--account +ACCOUNT ", shown)
    assert "<bool>" not in shown


def test_a_near_name_is_offered_only_when_it_is_near(monkeypatch, capsys):
    assert left(["chat", "hello"], monkeypatch, capsys)[0] == 0
    for name, advice in [
        ("mian", "did you mean agent:default:main?"),
        ("elsewhere", "elsewhere. claw sessions list"),
    ]:
        code, _, err = left(["sessions", "show", name], monkeypatch, capsys)
        assert code == 2
        assert advice in err
    assert (
        left(["tools", "call", "exce"], monkeypatch, capsys)[2] == "Tool exce not found. Did you mean exec?\n"
    )
    assert left(["tools", "call", "fly"], monkeypatch, capsys)[2] == "Tool fly not found\n"


def test_a_name_that_is_far_from_every_plugin_gets_no_other_name(monkeypatch, capsys):
    assert "did you mean author?" in left(["plugins", "info", "autor"], monkeypatch, capsys)[2]
    assert "did you mean" not in left(["plugins", "info", "weather"], monkeypatch, capsys)[2]


EMPTY = [
    "approvals list", "auth list", "channels list", "logs", "mcp list", "pairing list", "sessions list",
    "sessions list --aside", "skills list", "turns list", "turns list --stuck", "usage", "doctor",
]  # fmt: skip


@pytest.mark.parametrize("words", EMPTY)
def test_a_list_without_rows_says_so_on_stdout(words, monkeypatch, capsys):
    code, out, err = left(words.split(), monkeypatch, capsys)
    assert (code, err) == (0, "")
    assert out.strip()
