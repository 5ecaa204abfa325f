"""A command line that cannot be read is answered in claw's own words, in both languages, with exit code 2."""

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
        "pdf 不是可选值：md, html, json",
    ),
    ("sessions export x --to htm", "--to: htm is not one of: md, html, json. did you mean html?", "html"),
    ("auth add openai sk-secret", "claw auth add openai --name NAME", "claw auth add openai --name"),
]
ENGLISH = ("No such", "Missing", "Got unexpected", "Invalid value", "Input should", "requires", "Usage")


def said(line: str, locale: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    """What stands on stderr; nothing stands on stdout, and the exit code is that of a misuse."""
    monkeypatch.setattr(sys, "argv", ["claw", *line.split()])
    monkeypatch.setenv("LC_ALL", locale)
    try:
        with pytest.raises(SystemExit) as left:
            run()
    finally:
        i18n.use_language("en")
    told = capsys.readouterr()
    assert (left.value.code, told.out) == (2, "")
    return told.err


@pytest.mark.parametrize(("line", "english", "chinese"), TABLE, ids=[line for line, _, _ in TABLE])
@pytest.mark.parametrize("locale", ["C.UTF-8", "zh_CN.UTF-8"])
def test_a_misuse_is_told_in_the_language_of_the_person(line, english, chinese, locale, monkeypatch, capsys):
    told = said(line, locale, monkeypatch, capsys)

    assert told.startswith("claw: ") and told.count("\n") == 1
    assert (chinese if locale.startswith("zh") else english) in told
    assert not any(word in told for word in ENGLISH)


def test_what_may_be_a_key_is_never_said_back(monkeypatch, capsys):
    assert "sk-secret" not in said("auth add openai sk-secret", "C", monkeypatch, capsys)


def test_with_json_too_the_error_stands_on_stderr_and_no_half_document_on_stdout(monkeypatch, capsys):
    assert "did you mean --agent?" in said("models status --json --agnet x", "C", monkeypatch, capsys)
