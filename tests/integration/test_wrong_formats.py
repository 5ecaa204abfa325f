"""A setting in the wrong format: the error has an example, and no regular expression."""

from pathlib import Path

import pytest
from third_party import Machine, installed

CHANNELS = """channels:
  telegram: {botToken: "1:a", mode: webhook, webhookSecret: s, webhookPath: "no path", allowFrom: ["1"]}
  feishu: {appId: cli_1, appSecret: x, mode: webhook, encryptKey: k, webhookPath: "no path", allowFrom: ["ou_1"]}
"""
HOURS = "agents: {defaults: {heartbeat: {every: 30m, activeHours: {start: '9', end: late}}}}\n"
OWN = """
from claw import Section, hookimpl
from pydantic import Field

class Odd(Section):
    code: str = Field("ab", pattern="^[a-z]{2}$", examples=["cd"])
    other: str = Field("ab", pattern="^[a-z]{2}$")

@hookimpl
def register_prompt_sections(config):
    config.plugin(Odd)
    return ()
"""


@pytest.mark.parametrize("words", ["config validate", "doctor", "channels status"])
@pytest.mark.parametrize(
    ("text", "said"),
    [
        (HOURS, ["activeHours.start: has the wrong format. Write it like this: 09:00",
                 "activeHours.end: has the wrong format. Write it like this: 22:30"]),
        (CHANNELS, ["telegram.webhookPath: has the wrong format. Write it like this: /webhook/telegram/support",
                    "feishu.webhookPath: has the wrong format. Write it like this: /webhook/feishu/support"]),
    ],
)  # fmt: skip
def test_every_surface_shows_an_example(words: str, text: str, said: list[str], tmp_path: Path) -> None:
    machine = Machine(tmp_path / "machine")
    machine.configured(text)
    done = machine.claw(*words.split())
    shown = (done.out + done.err).replace(" (Write", ". Write")  # doctor shows a fix in brackets
    assert [line for line in said if line not in shown] == [], shown
    assert "(pattern" not in shown and "regular" not in shown and "\\" not in shown


def test_a_plugin_without_a_manifest_shows_the_example_of_its_model(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "machine", path=[tmp_path / "site"])
    (tmp_path / "site").mkdir()
    installed(tmp_path / "site", "odd", OWN)
    machine.configured("plugins: {entries: {odd: {config: {code: LONG, other: LONG}}}}\n")
    shown = machine.claw("plugins", "info", "odd")
    text = shown.out + shown.err
    assert "config.code: has the wrong format. Write it like this: cd" in text, text
    assert "[a-z]" not in text
