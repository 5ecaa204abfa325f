"""Texts of the provider ``offline``: results in plain words, in the language of the question. Pure."""

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

MAX_LINES = 40
READ_LINES = 20
_MAX_CHARS = 4_000


@dataclass(frozen=True, slots=True)
class CompletedCall:
    """A call with its result."""

    tool: str
    arguments: dict[str, Any]
    text: str
    is_error: bool = False

    @property
    def subject(self) -> str:
        """The subject of the call: the file, the pattern, the URL …"""
        for name in ("file_path", "path", "pattern", "url", "command", "query", "file", "directory"):
            if value := self.arguments.get(name):
                return str(value)
        return ""


_TEMPLATES = {
    "notice": (
        "(I am `offline`, claw's stand-in: fixed rules, no model and no key. `claw init` sets up a real model.)",
        "(我是 claw 的离线替身 `offline`：只有固定规则，没有模型，也不需要密钥。用 `claw init` 可以配置真正的模型。)",
    ),
    "able": (
        'I can {abilities}. Try: "what files are here, and what does README.md say first?"',
        "我能做这些：{abilities}。比如：“这里有哪些文件？README.md 的第一行是什么？”",
    ),
    "unable": (
        "I have none of the tools that my rules can use; `claw tools list --all` tells why.",
        "我的规则要用的工具这里一个都没有；运行 `claw tools list --all` 可以看到原因。",
    ),
    "missing": (
        "I may not use `{tool}` here; `claw tools explain {tool}` tells why.",
        "我在这里不能使用 `{tool}`；运行 `claw tools explain {tool}` 可以看到原因。",
    ),
    "no_tools": (
        "I was asked to answer without tools, so I did not look.",
        "这次要求不使用工具，所以我没有去查看。",
    ),
    "failed": ("`{tool}` did not work: {text}", "`{tool}` 没有成功：{text}"),
    "nothing": ("`{tool}` found nothing.", "`{tool}` 没有找到任何内容。"),
    "ls": ("Files in {subject}:\n{text}", "{subject} 中的文件：\n{text}"),
    "ls_here": ("Files here:\n{text}", "这里的文件：\n{text}"),
    "first": ("{subject} says first: “{text}”", "{subject} 开头写的是：“{text}”"),
    "read": ("{subject} says:\n{text}", "{subject} 的内容：\n{text}"),
    "empty": ("{subject} is empty.", "{subject} 是空的。"),
    "find": ("Found for {subject}:\n{text}", "找到的 {subject}：\n{text}"),
    "grep": ("Lines with {subject}:\n{text}", "含有 {subject} 的行：\n{text}"),
    "web_fetch": ("{subject} says:\n{text}", "{subject} 的内容：\n{text}"),
    "exec": ("`{subject}` gave:\n{text}", "`{subject}` 的输出：\n{text}"),
    "other": ("`{tool}` answered:\n{text}", "`{tool}` 的回答：\n{text}"),
    "more": ("… and {count} more lines", "……还有 {count} 行"),
}


_ABILITIES = {
    "ls": ("list files", "列出文件"),
    "read": ("read a file", "读文件"),
    "find": ("find files", "按名字找文件"),
    "grep": ("search in files", "在文件中搜索"),
    "web_fetch": ("fetch a web address", "读取网址"),
    "exec": ("run a command", "运行命令"),
    "session_status": ("tell the time", "报时间"),
    "write": ("write a small file", "写一个小文件"),
}
"""Tool → what the rules do with it."""


def is_chinese(text: str) -> bool:
    """Return true if the text contains Chinese characters; the answer is then in Chinese."""
    return bool(re.search(r"[一-鿿㐀-䶿]", text))


def render_answer(
    asked: str,
    done: tuple[CompletedCall, ...],
    missing: tuple[str, ...],
    offered: Collection[str] = (),
    *,
    first: bool,
    no_tools: bool,
) -> str:
    """Compose the answer to the person, in the language of ``asked``.

    :param missing: tools that were needed and are not offered.
    :param offered: the tools of the request: an answer without any call says what they can do.
    :param first: True for the first answer, which says that rules answer.
    :param no_tools: True when tools were needed and the request forbids them.
    """
    chinese = is_chinese(asked)
    parts = [_render_result(one, asked, chinese) for one in done]
    parts += [_format("missing", chinese, tool=tool) for tool in missing]
    if no_tools:
        parts.append(_format("no_tools", chinese))
    if not parts:
        parts.append(_abilities(offered, chinese))
    if first:
        parts.append(_format("notice", chinese))
    return "\n\n".join(parts)


def _abilities(offered: Collection[str], chinese: bool) -> str:
    known = [words[chinese] for tool, words in _ABILITIES.items() if tool in offered]
    if not known:
        return _format("unable", chinese)
    *others, last = known
    and_last = ("、" if chinese else " and ") if others else ""
    return _format("able", chinese, abilities=("、" if chinese else ", ").join(others) + and_last + last)


def _render_result(one: CompletedCall, asked: str, chinese: bool) -> str:
    """Render a result as text."""
    if one.is_error:
        return _format("failed", chinese, tool=one.tool, text=_first_lines(one.text, 8, chinese))
    if one.tool == "read":
        return _render_file_text(one, asked, chinese)
    if not one.text.strip():
        return _format("nothing", chinese, tool=one.tool)
    text = _first_lines(one.text, MAX_LINES, chinese)
    if one.tool == "ls":
        here = one.subject in ("", ".", "./")
        return _format("ls_here" if here else "ls", chinese, subject=one.subject, text=text)
    form = one.tool if one.tool in ("find", "grep", "web_fetch", "exec") else "other"
    return _format(form, chinese, tool=one.tool, subject=one.subject, text=text)


def _render_file_text(one: CompletedCall, asked: str, chinese: bool) -> str:
    lines = [re.sub(r"^\s*\d+[\t→]", "", line) for line in one.text.splitlines()]
    full = [line.strip() for line in lines if line.strip()]
    if not full:
        return _format("empty", chinese, subject=one.subject)
    if re.search(r"(?i)\b(?:first|begin|start|heading|title)|第一|开头|首行|标题", asked):
        return _format("first", chinese, subject=one.subject, text=full[0])
    return _format(
        "read", chinese, subject=one.subject, text=_first_lines("\n".join(lines), READ_LINES, chinese)
    )


def _first_lines(text: str, most: int, chinese: bool) -> str:
    lines = text.strip("\n").splitlines()
    kept = "\n".join(lines[:most])[:_MAX_CHARS]
    return f"{kept}\n{_format('more', chinese, count=len(lines) - most)}" if len(lines) > most else kept


def _format(key: str, chinese: bool, **values: object) -> str:
    return _TEMPLATES[key][chinese].format(**values)
