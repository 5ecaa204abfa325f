"""Rule-based intent parser: English or Chinese text → tools with arguments. Pure.

First the patterns of ``_RULES`` are applied, each removes the text it matched, so that "run `cat a.txt`" is one intent
and not two; then each remaining clause may name files to read, or ask for a list. The patterns are plain strings: they
are compiled (and cached, by ``re``) when the first request is parsed, not when claw starts.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from claw import ToolSpec

MAX_INTENTS = 8
_MAX_CHARS = 4_000  # a longer text is no plain request, and matching it would be slow


@dataclass(frozen=True, slots=True)
class Intent:
    """A tool that the text asks for.

    :param arguments: values by neutral name (path, pattern, content, url, command, query).
    """

    tool: str
    arguments: tuple[tuple[str, str], ...] = ()


# Quoted text, a file name, a glob pattern, a word in English and one in Chinese.
_QUOTED = r"`[^`\n]+`|\"[^\"\n]+\"|“[^”\n]+”|「[^」\n]+」|(?<!\w)'[^'\n]+'(?!\w)"
_FILE = (
    r"(?:`[^`\n]*[./][^`\n]*`|\"[^\"\s]*[./][^\"\s]*\"|“[^”\s]*[./][^”\s]*”|(?<![\w./~-])(?!(?:e\.g|i\.e|a\.m|p\.m)\b)"
    r"(?:[.~]{0,2}/[\w.~/-]*\w|[\w.~/-]*[\w-]\.[a-z]\w{0,7}\b|(?-i:README|LICENSE|CHANGELOG|Makefile|Dockerfile)\b"
    r"|\.[a-z][\w-]{2,}))"
)
_GLOB = r"[\w./-]*\*[\w.*/-]*|(?<!\w)\.[a-z]\w{0,7}\b"
_WORD = r"[^\s,，。;；?？\0]+"
_ZH_WORD = r"[^\s,，。;；?？的\0]+"
_KINDS = {
    "python": "*.py",
    "markdown": "*.md",
    "json": "*.json",
    "yaml": "*.yaml",
    "text": "*.txt",
    "toml": "*.toml",
}
_KIND = "|".join(_KINDS)
_NO_COMMAND = r"(?!(?:the|a|an|this|that|it|my|our|all|some|me|for)\b)"
_RUN_ZH = r"(?:运行|执行)(?:一下)?(?:命令)?\s*[:：]?\s*"
_FIND_ZH = r"(?:查找|寻找|找一下|找到|找出|找)(?:一下)?(?:所有|全部)?的?\s*(?:名为|叫)?\s*"

# Tool, keywords (the pattern is compiled only when the text contains one of them), and the pattern; its groups are the
# arguments.
_RULES = (
    ("write", ("write", "save", "put", "store"),
        rf"\b(?:write|save|put|store)\s+(?P<content>{_QUOTED}|(?!(?:a|an|the|some|my|me|down)\s)[^\0]+?)"
        rf"\s+(?:in)?to\s+(?:(?:a|the|new|file|called|named)\s+)*(?P<path>{_FILE})"),
    ("write", ("create", "make", "write"),
        rf"\b(?:create|make|write)\s+(?:(?:a|the|new|text|file|called|named)\s+)*(?P<path>{_FILE})\s+"
        r"(?:with|containing|that\s+says|saying)(?:\s+(?:the|text|contents?|words?))*\s*:?\s+(?P<content>[^\0]+)"),
    ("write", ("把", "将"),
        rf"(?:把|将)\s*(?P<content>{_QUOTED}|[^\0]+?)\s*(?:写入|写到|写进|保存到|存到|存入)"
        rf"\s*(?:文件)?\s*(?P<path>{_FILE})"),
    ("write", ("创建", "新建", "写"),
        rf"(?:创建|新建|写)\s*(?:一个)?\s*(?:文件)?\s*(?P<path>{_FILE})\s*(?:文件)?\s*[,，]?\s*(?:里面)?"
        r"(?:内容|写上|写着|写)\s*[为是]?\s*[:：]?\s*(?P<content>[^\0]+)"),
    ("exec", ("run", "execute", "运行", "执行"),
        rf"(?:\b(?:run|execute)\b(?:\s+the)?(?:\s+command)?|{_RUN_ZH})\s*:?\s*(?P<command>{_QUOTED})"),
    ("exec", ("run", "execute"),
        rf"^\W*(?:please\s+|now\s+)*(?:run|execute)\s*:?\s+(?:the\s+command\s*:?\s+|{_NO_COMMAND})"
        r"(?P<command>[\w./-][^\0\n。？！]*?)(?=,?\s+(?:and|then)\s+(?:then\s+)?(?:tell|show|say|explain|give|read|list)\b|[?!.\s]*(?:$|[\0\n。？！]))"),
    ("exec", ("运行", "执行"),
        rf"{_RUN_ZH}(?P<command>[\w./-][\x20-\x7e]*)"),
    ("web_search", ("search",),
        r"\bsearch\s+(?:on\s+)?(?:the\s+)?(?:web|internet|online)(?:\s+for)?\s+(?P<query>[^\0?？\n]+)"),
    ("web_search", ("上网", "网上"),
        r"(?:上网|网上)\s*(?:搜索|查找|搜|查)(?:一下)?\s*(?P<query>[^\0?？\n]+)"),
    ("web_fetch", ("://",),
        r"(?P<url>https?://[^\s<>\"'`，。；！？、）)\0]*[^\s<>\"'`，。；！？、）)\0.,;:!?])"),
    ("grep", ("search",),
        rf"\bsearch\s+(?P<path>{_FILE})\s+for\s+(?P<pattern>{_QUOTED}|{_WORD})"),
    ("grep", ("grep", "search"),
        rf"\b(?:grep|search)\s+(?:(?:in|through|all|the|my|these|every|files?|text|code|for)\s+)*"
        rf"(?P<pattern>{_QUOTED}|{_WORD})(?:\s+in\s+(?P<path>{_FILE}|(?!(?:the|this|all|my)\b)[\w./-]+))?"),
    ("grep", ("file",),
        rf"\b(?:which|what)\s+files?\s+(?:contains?|mentions?|uses?|have|has)\s+(?P<pattern>{_QUOTED}|{_WORD})"),
    ("grep", ("搜", "检索"),
        rf"(?:在\s*(?P<path>{_FILE}|[\w/-]+)\s*(?:里面?|中)?\s*)?(?:搜索|搜一下|搜|检索)(?:一下)?"
        rf"\s*(?P<pattern>{_QUOTED}|{_ZH_WORD})"),
    ("grep", ("包含", "含有", "提到"),
        rf"(?:文件(?:里面?|中)?)?(?:包含|含有|提到)了?\s*(?P<pattern>{_QUOTED}|{_ZH_WORD})(?:\s*的\s*文件)?"),
    ("find", ("find", "locate", "where"),
        r"\b(?:find|locate|where\s+(?:is|are))\s+(?:(?:all|every|any|the|a|my|me|files?|named|called|like)\s+)*"
        rf"(?:(?P<kind>{_KIND})\s+files?|(?P<pattern>{_GLOB}|{_FILE})(?:\s+files?)?)"),
    ("find", ("找",),
        rf"{_FIND_ZH}(?:(?P<kind>{_KIND})\s*的?\s*文件|(?P<pattern>{_GLOB}|{_FILE})\s*的?(?:文件)?)"),
    ("find", ("在哪",),
        rf"(?P<pattern>{_FILE})\s*在哪"),
    ("session_status", ("what", "tell", "today", "which", "几点", "时间", "今天", "模型", "时区"),
        r"\b(?:what(?:'s|\s+is)?|tell(?:\s+me)?)\s+(?:the\s+)?(?:current\s+)?(?:time|date|day)\b"
        r"|\btoday'?s\s+date\b|\b(?:which|what)\s+(?:model|time\s*zone)\b|几点|(?:现在|当前)的?.{0,3}时间"
        r"|今天.{0,3}(?:几号|日期|星期|周几)|(?:什么|哪个)(?:模型|时区)"),
)  # fmt: skip
_CLAUSE = r"(?:(?![,，。;；?？!！、\0]|\.\s|\b(?:and|then|plus)\b|和|并且?|然后|再|以及|还有)[^\0])+"
_READ_WORDS = (
    r"\b(?:read|show|open|cat|display|print|view|see|says?|tell|what|contents?|summar\w+|first|begin\w*|start\w*|quote|look)\b"
    r"|读|看|打开|显示|内容|写了|说|讲|什么|第一|开头|首行|标题|总结|概括"
)
_CHANGE_WORDS = (
    r"\b(?:delete|remove|rename|edit|change|replace|move|fix)\b|删除|删掉|移除|改名|重命名|修改|替换"
)
_LIST = (
    r"\b(?:list|show|see|what|which)\b.{0,40}?\b(?:files|folders?|director(?:y|ies))\b|^\s*ls\b|文件列表"
    r"|\bwhat(?:'s|\s+is)\s+(?:in\s+)?(?:here|this\s+(?:folder|directory))\b"
    r"|(?:列出|列一下|列举|看看|看一下|查看|显示|有什么|有哪些|有啥|哪些).{0,12}?(?:文件夹|文件|目录)"
    r"|(?:文件夹|目录|这里)(?:里面?|下面?|中)?.{0,3}(?:有什么|有哪些|有啥|是什么)"
)
_FOLDER = (
    r"\b(?:in|under|inside|of|ls)\s+(?:(?:the|folder|directory)\s+)*(?!(?:all|current|files|here|it|my|our|that|there|this|total"
    r"|you|your)\b)(?P<en>[\w.~/-]*[\w~/.])|(?P<zh>[\w.~/-]+)\s*(?:文件夹|目录)"
)
_FLAGS = re.IGNORECASE | re.ASCII | re.DOTALL


def intents_in(text: str) -> tuple[Intent, ...]:
    """Parse the intents of ``text``, in order, without duplicates; none for a very long text."""
    rest, found = without_envelope(text), list[tuple[int, Intent]]()
    if len(rest) > _MAX_CHARS:
        return ()
    lower = rest.lower()
    for tool, words, pattern in _RULES:
        if not any(word in lower for word in words):
            continue
        for match in list(re.finditer(pattern, rest, _FLAGS)):
            found.append((match.start(), Intent(tool, tuple(_arguments_of(match)))))
            rest = rest[: match.start()] + "\0" * len(match[0]) + rest[match.end() :]
    if not re.search(_CHANGE_WORDS, rest, _FLAGS):
        reads = re.search(_READ_WORDS, rest, _FLAGS) is not None
        for clause in re.finditer(_CLAUSE, rest, _FLAGS):
            found += ((clause.start(), intent) for intent in _clause_intents(clause[0], reads))
    ordered = (intent for _, intent in sorted(found, key=lambda pair: pair[0]))
    return tuple(dict.fromkeys(ordered))[:MAX_INTENTS]


def _arguments_of(match: re.Match[str]) -> Iterator[tuple[str, str]]:
    """Convert the groups of a match to arguments."""
    for name, value in match.groupdict().items():
        words = _unquoted(value.strip()) if value else ""
        if name == "kind" and words:
            yield "pattern", _KINDS[words.lower()]
        elif name == "pattern" and re.fullmatch(r"\.\w+", words):
            yield name, f"*{words}"
        elif words:
            yield name, f"{words}\n" if name == "content" else words


def _clause_intents(clause: str, reads: bool) -> Iterator[Intent]:
    """Return a read for every file that a clause names, if ``reads``; else a list, if the clause asks for one."""
    files = [_unquoted(found[0]) for found in re.finditer(_FILE, clause, _FLAGS)] if reads else []
    if files:
        yield from (Intent("read", (("path", path),)) for path in files)
    elif re.search(_LIST, clause, _FLAGS):
        folder = re.search(_FOLDER, clause, _FLAGS)
        yield Intent("ls", (("path", folder["en"] or folder["zh"]),) if folder else ())


def without_envelope(text: str) -> str:
    """Return the person's text without the envelope that a channel adds (spec/runtime.md A)."""
    text = re.sub(r"^## Inbound Context[^\n]*\n.*?```json\n.*?\n```\s*", "", text, flags=re.S | re.M)
    text = re.sub(r"^[^\n]*\(untrusted[^\n]*\):\n```json\n.*?\n```\s*", "", text, flags=re.S | re.M)
    return re.sub(r"^\s*\[message_id: [^\]\n]*\]\n+(?:[^\n:]{1,80}: )?", "", text)


def _unquoted(text: str) -> str:
    """Remove surrounding quotes."""
    return text[1:-1] if len(text) > 1 and text[0] + text[-1] in ("``", '""', "''", "“”", "「」") else text


_ARGUMENT_NAMES = {
    "path": ("file_path", "path", "file", "directory"),
    "pattern": ("pattern", "query", "glob", "regex"),
    "content": ("content", "text"),
    "command": ("command", "cmd"),
    "query": ("query", "q"),
    "url": ("url",),
}
"""Neutral argument name → names that tools use for it."""


def to_arguments(intent: Intent, spec: ToolSpec) -> dict[str, Any]:
    """Build the arguments of a call, under the names of the tool's schema."""
    properties = spec.parameters.get("properties", {})
    arguments: dict[str, Any] = {
        next((other for other in _ARGUMENT_NAMES[name] if other in properties), name): value
        for name, value in intent.arguments
    }
    if intent.tool == "ls" and "path" in spec.parameters.get("required", ()):
        arguments.setdefault("path", ".")
    if intent.tool == "grep" and "literal" in properties:
        arguments["literal"] = True
    return {name: value for name, value in arguments.items() if name in properties or not properties}
