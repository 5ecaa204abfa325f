"""The Chinese texts of claw and of its plugins: one term for each thing, one form of address, full-width punctuation."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

TERMS = {
    "代理": "智能体 (agent)",
    "助手": "智能体 (agent)",
    "词元": "token",
    "轮次": "回合 (turn)",
    "一轮": "回合 (turn)",
    "提供方": "服务商 (provider)",
    "提供商": "服务商 (provider)",
    "频道": "渠道 (channel)",
    "搁置": "停用 (disabled), 隔离 (quarantined) or 归档 (archived)",
    "放到一边": "归档 (archived)",
    "另存": "归档 (archived) or 移动到 (moved to)",
    "拖欠": "待发送 (to send)",
    "来信": "消息 (message)",
    "是不是": "你是想写 … 吗 (did you mean)",
    "是否想用": "你是想写 … 吗 (did you mean)",
    "你是想用": "你是想写 … 吗 (did you mean)",
    "您": "你 (you)",
}
"""A word that no text may contain, and the word to use instead."""

_HALF_WIDTH = re.compile(
    r"(?<=[一-鿿）」”’]) ?[:;,!?()]|[:;,!?()] ?(?=[一-鿿（「“‘])"
    r"|(?<=X)(?:[:;,] (?=X|$)|[;,!?](?=X|$))"
)


def pairs() -> list[tuple[str, str, str]]:
    """The file, the English template and its Chinese text, of every catalogue in the tree."""
    files = [
        *ROOT.glob("core/claw/locale/zh/*.json"),
        *ROOT.glob("sdk/*/*/locale/zh/*.json"),
        *ROOT.glob("plugins/*/*/locale/zh/*.json"),
    ]
    return [
        (file.stem, template, text)
        for file in files
        for template, text in json.loads(file.read_text("utf-8")).items()
    ]


def half_width(text: str) -> bool:
    """Return true if a half-width mark is beside a Chinese character, or between the values of a template."""
    plain = re.sub(r"\{\{|\}\}|`[^`]*`", "", text)
    return bool(_HALF_WIDTH.search(re.sub(r"\{[^{}]*\}", "X", plain)))


@pytest.mark.parametrize("word", TERMS)
def test_a_thing_has_one_term(word: str) -> None:
    wrong = [f"{file}: {template!r}: {text}" for file, template, text in pairs() if word in text]
    wrong += [line for line in (ROOT / "README.zh-CN.md").read_text("utf-8").splitlines() if word in line]
    assert wrong == [], "\n".join([f"use {TERMS[word]}:", *wrong])


def test_the_tokens_of_a_text_are_not_called_credentials() -> None:
    """A token of a text is token; 令牌 is a credential, which English texts name in the singular or as wrong tokens."""
    wrong = [
        (file, template, text)
        for file, template, text in pairs()
        if "令牌" in text and re.search(r"\btokens\b", template) and "wrong tokens" not in template
    ]
    assert wrong == []


def test_a_conversation_is_not_called_a_session() -> None:
    wrong = [
        (file, template, text)
        for file, template, text in pairs()
        if "会话" in text and "conversation" in template and "session" not in template.lower()
    ]
    assert wrong == []


def test_punctuation_beside_chinese_is_full_width() -> None:
    assert [(file, template, text) for file, template, text in pairs() if half_width(text)] == []


@pytest.mark.parametrize(
    "text", ["网关: 就绪", "{id}: {why}", "它参与; 提供", "工具(可选)", "没有, 也没有", "好的!"]
)
def test_half_width_punctuation_is_found(text: str) -> None:
    assert half_width(text)


@pytest.mark.parametrize(
    "text", ["网关：就绪", "请写 usd: 5", "claw doctor --to {x}", "比例 3:4", "工具（可选）"]
)
def test_syntax_of_a_command_or_a_key_is_no_punctuation(text: str) -> None:
    assert not half_width(text)


def test_every_text_with_words_is_in_chinese() -> None:
    """A command, a placeholder, a unit or a literal value may be the same in both languages."""
    same = [template for _, template, text in pairs() if template == text and " " in template]
    assert [text for text in same if not re.match(r"(claw|pip|export|/\w+) |^[{(]", text)] == []
