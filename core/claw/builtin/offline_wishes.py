"""What a plain request asks for, by rule: English or Chinese words → tools with arguments. Pure.

Each rule takes away the words it has understood, so that "run `cat a.txt`" is one wish and not two. The patterns are
plain strings: they are compiled (and kept, by ``re``) when the first request is read, not when claw starts.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from claw import ToolSpec

MOST_WISHES = 8
_MOST_CHARS = 4_000  # a longer text is no plain request, and the rules would take their time over it


@dataclass(frozen=True, slots=True)
class Wish:
    """A tool that the words ask for.

    :param told: arguments by neutral name (path, pattern, content, url, command, query).
    """

    tool: str
    told: tuple[tuple[str, str], ...] = ()


def wishes_in(text: str) -> tuple[Wish, ...]:
    """Everything that ``text`` asks for, in the order of the words, each once; nothing of a very long text."""
    rest, found = plain(text), list[tuple[int, Wish]]()
    if len(rest) > _MOST_CHARS:
        return ()
    for rule in _RULES:
        for start, end, wish in list(rule(rest)):
            found.append((start, wish))
            rest = rest[:start] + "\0" * (end - start) + rest[end:]
    ordered = (wish for _, wish in sorted(found, key=lambda pair: pair[0]))
    return tuple(dict.fromkeys(ordered))[:MOST_WISHES]


def call_of(wish: Wish, spec: ToolSpec) -> dict[str, Any]:
    """The arguments of a call, under the names that this tool's schema has for them."""
    properties = spec.parameters.get("properties", {})
    arguments: dict[str, Any] = {_named(name, properties): value for name, value in wish.told}
    if wish.tool == "ls" and "path" in spec.parameters.get("required", ()):
        arguments.setdefault("path", ".")
    if wish.tool == "grep" and "literal" in properties:
        arguments["literal"] = True
    return {name: value for name, value in arguments.items() if name in properties or not properties}


def plain(text: str) -> str:
    """The person's own words, without what a channel puts round them (spec/runtime.md A)."""
    text = re.sub(r"^## Inbound Context[^\n]*\n.*?```json\n.*?\n```\s*", "", text, flags=re.S | re.M)
    text = re.sub(r"^[^\n]*\(untrusted[^\n]*\):\n```json\n.*?\n```\s*", "", text, flags=re.S | re.M)
    return re.sub(r"^\s*\[message_id: [^\]\n]*\]\n(?:[^\n:]{1,80}: )?", "", text)


_SAME = {
    "path": ("file_path", "path", "file", "directory"),
    "pattern": ("pattern", "query", "glob", "regex"),
    "content": ("content", "text"),
    "command": ("command", "cmd"),
    "query": ("query", "q"),
    "url": ("url",),
}


def _named(name: str, properties: dict[str, Any]) -> str:
    return next((other for other in _SAME[name] if other in properties), name)


Matches = Iterator[tuple[int, int, Wish]]

_QUOTED = r"`[^`\n]+`|\"[^\"\n]+\"|“[^”\n]+”|「[^」\n]+」|(?<!\w)'[^'\n]+'(?!\w)"
_FILE = (
    r"(?:`[^`\n]*[./][^`\n]*`|\"[^\"\s]*[./][^\"\s]*\"|“[^”\s]*[./][^”\s]*”"
    r"|(?<![A-Za-z0-9_./~-])(?:(?:\.{1,2}|~)?/[A-Za-z0-9_.~/-]*[A-Za-z0-9_]"
    r"|(?:[A-Za-z0-9_.~-]+/)*[A-Za-z0-9_.-]*[A-Za-z0-9_-]\.[A-Za-z][A-Za-z0-9_]{0,7}(?![A-Za-z0-9_])"
    r"|(?:[A-Za-z0-9_.~-]+/)*(?:README|LICENSE|CHANGELOG|NOTICE|Makefile|Dockerfile)\b"
    r"|\.[a-z][A-Za-z0-9_-]{2,}))"
)
_NO_FILES = frozenset({"e.g", "i.e", "a.m", "p.m"})
_GLOB = (
    r"[A-Za-z0-9_./-]*(?:\*|\?(?=[A-Za-z0-9_.*]))[A-Za-z0-9_.*/-]*"
    r"|(?<![A-Za-z0-9])\.[A-Za-z][A-Za-z0-9]{0,7}(?![A-Za-z0-9])"
)
_KINDS = {
    "python": "*.py",
    "markdown": "*.md",
    "json": "*.json",
    "yaml": "*.yaml",
    "text": "*.txt",
    "toml": "*.toml",
}
_KIND = "(?i:" + "|".join(_KINDS) + ")"
_PAUSE = r"(?i)[,，。;；?？!！、\0]|\.\s|\b(?:and|then|plus)\b|和|并且?|然后|再|以及|还有"
_WORD = r"[^\s,，。;；?？\0]+"

_WRITE = tuple(
    f"(?is){pattern}"
    for pattern in (
        rf"\b(?:write|save|put|store)\s+(?P<content>{_QUOTED}|(?!(?:a|an|the|some|my|me|down)\s)[^\0]+?)\s+(?:in)?to\s+"
        rf"(?:(?:a|the|new)\s+)*(?:file\s+)?(?:(?:called|named)\s+)?(?P<path>{_FILE})",
        rf"\b(?:create|make|write)\s+(?:(?:a|the|new|text)\s+)*(?:file\s+)?(?:(?:called|named)\s+)?(?P<path>{_FILE})\s+"
        r"(?:with|containing|that\s+says|saying)(?:\s+the)?(?:\s+(?:text|contents?|words?))?\s*:?\s+(?P<content>[^\0]+)",
        rf"(?:把|将)\s*(?P<content>{_QUOTED}|[^\0]+?)\s*(?:写入|写到|写进|保存到|存到|存入)\s*(?:文件)?\s*(?P<path>{_FILE})",
        rf"(?:写入?|保存)\s*(?P<content>{_QUOTED})\s*到\s*(?:文件)?\s*(?P<path>{_FILE})",
        rf"(?:创建|新建|写)\s*(?:一个)?\s*(?:文件)?\s*(?P<path>{_FILE})\s*(?:文件)?\s*[,，]?\s*(?:里面)?"
        r"(?:内容|写上|写着|写)\s*[为是]?\s*[:：]?\s*(?P<content>[^\0]+)",
    )
)
_EXEC = tuple(
    f"(?i){pattern}"
    for pattern in (
        rf"(?:\b(?:run|execute)\b(?:\s+the)?(?:\s+command)?|(?:运行|执行)(?:一下)?(?:命令)?)\s*[:：]?\s*(?P<command>{_QUOTED})",
        r"\b(?:run|execute)(?:\s+the)?\s+command\s*:?\s+(?P<command>[^\0\n]+)",
        r"^\W*(?:please\s+|now\s+)*(?:run|execute)\s*:?\s+(?!(?:the|a|an|this|that|it|my|our|all|some|me|for)\b)"
        r"(?P<command>[A-Za-z0-9_./-][^\0\n。？！]*)",
        r"(?:运行|执行)(?:一下)?(?:命令)?\s*[:：]?\s*(?P<command>[A-Za-z0-9_./-][\x20-\x7e]*)",
    )
)
_AFTER_COMMAND = r"(?i),?\s+(?:and|then)\s+(?:then\s+)?(?:tell|show|say|explain|give|read|list)\b.*|[?!.\s]+$"
_WEB_SEARCH = (
    r"(?i)\bsearch\s+(?:on\s+)?(?:the\s+)?(?:web|internet|online)(?:\s+for)?\s+(?P<a>[^\0?？\n]+)"
    r"|(?:上网|在?网上)\s*(?:搜索|查找|搜|查)(?:一下)?\s*(?P<b>[^\0?？\n]+)"
)
_FETCH = r"(?i)https?://[^\s<>\"'`，。；！？、）)\0]+"
_GREP = tuple(
    f"(?i){pattern}"
    for pattern in (
        rf"\bsearch\s+(?P<path>{_FILE})\s+for\s+(?P<pattern>{_QUOTED}|{_WORD})",
        rf"\b(?:grep|search|look(?=[^\0]*\sfor\s))\s+(?:(?:in|through|all|the|my|these|every|files?|text|code|folder|for)\s+)*"
        rf"(?P<pattern>{_QUOTED}|{_WORD})(?:\s+in\s+(?P<path>{_FILE}|(?!the\b|this\b|all\b|my\b)[A-Za-z0-9_./-]+))?",
        rf"\b(?:which|what)\s+files?\s+(?:contains?|mentions?|uses?|have|has)\s+(?:the\s+)?(?:(?:words?|text)\s+)?"
        rf"(?P<pattern>{_QUOTED}|{_WORD})",
        rf"\bfind\s+(?:the\s+)?(?:(?:words?|text)\s+)?(?P<pattern>(?![`\"“'][^\s]*[.*])(?:{_QUOTED}))"
        rf"(?:\s+in\s+(?P<path>{_FILE}))?",
        rf"(?:在\s*(?P<path>{_FILE}|[A-Za-z0-9_/-]+)\s*(?:里面?|中|文件中)?\s*)?(?:搜索|搜一下|搜|检索)(?:一下)?\s*"
        rf"(?:文本|文字|关键字|包含)?\s*(?P<pattern>{_QUOTED}|[^\s,，。;；?？的\0]+)",
        rf"文件(?:里面?|中)?(?:包含|含有|提到)(?:了)?\s*(?P<pattern>{_QUOTED}|[^\s,，。;；?？的\0]+)",
        rf"(?:包含|含有|提到)(?:了)?\s*(?P<pattern>{_QUOTED}|[^\s,，。;；?？的\0]+)\s*的\s*文件",
    )
)
_FIND = (
    rf"\b(?i:find|locate)\s+(?i:(?:all|every|any|the|a|my|me)\s+)*(?P<kind>{_KIND})\s+(?i:files?)",
    rf"\b(?i:find|locate|where\s+(?:is|are))\s+(?i:(?:all|every|any|the|a|my|me|files?|named|called|matching|like|"
    rf"ending\s+(?:in|with))\s+)*(?P<pattern>{_GLOB}|{_FILE})(?i:\s+files?)?",
    rf"(?:查找|寻找|找一下|找到|找出|找)(?:一下)?(?:所有|全部)?的?\s*(?P<kind>{_KIND})\s*(?:的)?文件",
    rf"(?:查找|寻找|找一下|找到|找出|找)(?:一下)?(?:所有|全部)?的?\s*(?:名为|叫)?\s*(?P<pattern>{_GLOB}|{_FILE})"
    r"\s*(?:的)?(?:文件)?",
    rf"(?P<pattern>{_FILE})\s*在哪",
)
_TIME = (
    r"(?i)\b(?:what(?:'s|\s+is)?|tell(?:\s+me)?)\s+(?:the\s+)?(?:current\s+)?(?:time|date|day)\b|\bwhat\s+(?:time|day|date)\s+is\s+it\b"
    r"|\bcurrent\s+(?:time|date)\b|\btoday'?s\s+date\b|\b(?:which|what)\s+(?:model|time\s*zone)\b|\bsession\s+status\b"
    r"|几点|(?:现在|当前)的?.{0,3}时间|今天.{0,3}(?:几号|日期|星期|周几)|(?:什么|哪个)(?:模型|时区)|会话状态"
)
_READ_WORDS = (
    r"(?i)\b(?:read|show|open|cat|display|print|view|see|says?|tell|what|contents?|summar\w+|first|begin\w*|start\w*|quote"
    r"|look)\b|读|看|打开|显示|内容|写了|说|讲|什么|第一|开头|首行|标题|总结|概括"
)
_CHANGE_WORDS = (
    r"(?i)\b(?:delete|remove|rename|edit|change|replace|move|fix)\b|删除|删掉|移除|改名|重命名|修改|替换"
)
_LIST = (
    r"(?i)\b(?:list|show|see|what|which)\b[^,.;?？\0]{0,40}?\b(?:files|folders?|director(?:y|ies))\b(?P<a>[^,;?？\0]*)"
    r"|\bwhat(?:'s|\s+is)\s+(?:in\s+)?(?:here|this\s+(?:folder|directory))\b|^\s*ls\b(?P<b>[^,;?？\0]*)"
    r"|(?:列出|列一下|列举|看看|看一下|查看|显示)[^,，。;；?？\0]{0,12}?(?:文件夹|文件|目录)"
    r"|(?:有什么|有哪些|有啥|哪些)[^,，。;；?？\0]{0,3}(?:文件夹|文件|目录)"
    r"|(?:[A-Za-z0-9_./~-]+\s*)?(?:文件夹|目录|这里)(?:里面?|下面?|中)?[^,，。;；?？\0]{0,3}(?:有什么|有哪些|有啥|是什么)|文件列表"
)
_FOLDER = (
    r"(?i)\b(?:in|under|inside|of|ls)\s+(?:the\s+)?(?:folder\s+|directory\s+)?(?P<path>[A-Za-z0-9_.~/-]*[A-Za-z0-9_~/.])"
    r"|(?P<zh>[A-Za-z0-9_.~/-]+)\s*(?:文件夹|目录)"
)
_HERE = frozenset({"a", "all", "current", "files", "here", "it", "my", "our"}) | frozenset(
    {"that", "the", "there", "this", "total", "you", "your"}
)


def _writes(text: str) -> Matches:
    for pattern in _WRITE:
        if found := re.search(pattern, text):
            content = _bare(found["content"].strip())
            yield (
                found.start(),
                found.end(),
                Wish("write", (("path", _bare(found["path"])), ("content", content + "\n"))),
            )
            return


def _commands(text: str) -> Matches:
    for pattern in _EXEC:
        if found := re.search(pattern, text):
            command = re.sub(_AFTER_COMMAND, "", _bare(found["command"].strip())).strip()
            end = found.start("command") + len(found["command"].rstrip())
            if command and not found["command"].startswith(("`", '"', "“")):
                end = found.start("command") + len(command)
            if command:
                yield found.start(), end, Wish("exec", (("command", command),))
                return


def _web_searches(text: str) -> Matches:
    if found := re.search(_WEB_SEARCH, text):
        yield (
            found.start(),
            found.end(),
            Wish("web_search", (("query", _bare((found["a"] or found["b"]).strip())),)),
        )


def _pages(text: str) -> Matches:
    for found in re.finditer(_FETCH, text):
        yield found.start(), found.end(), Wish("web_fetch", (("url", found[0].rstrip(".,;:!?")),))


def _searches(text: str) -> Matches:
    for pattern in _GREP:
        if found := re.search(pattern, text):
            told = [("pattern", _bare(found["pattern"]))]
            if path := found.groupdict().get("path"):
                told.append(("path", _bare(path)))
            yield found.start(), found.end(), Wish("grep", tuple(told))
            return


def _finds(text: str) -> Matches:
    for pattern in _FIND:
        if found := re.search(pattern, text):
            named = found.groupdict()
            glob = _KINDS[named["kind"].lower()] if named.get("kind") else _bare(found["pattern"])
            if re.fullmatch(r"\.[A-Za-z0-9]+", glob) and glob.lower() not in (".env", ".git", ".gitignore"):
                glob = f"*{glob}"
            yield found.start(), found.end(), Wish("find", (("pattern", glob),))
            return


def _times(text: str) -> Matches:
    if found := re.search(_TIME, text):
        yield found.start(), found.end(), Wish("session_status")


def _reads(text: str) -> Matches:
    """Every file that is named, when the words sound like looking and not like changing."""
    if not re.search(_READ_WORDS, text) or re.search(_CHANGE_WORDS, text):
        return
    for found in re.finditer(_FILE, text):
        path = _bare(found[0])
        if path.lower() not in _NO_FILES:
            start = max((pause.end() for pause in re.finditer(_PAUSE, text[: found.start()])), default=0)
            yield start, found.end(), Wish("read", (("path", path),))


def _lists(text: str) -> Matches:
    if re.search(_CHANGE_WORDS, text):
        return
    for found in re.finditer(_LIST, text):
        names = [match["path"] or match["zh"] for match in re.finditer(_FOLDER, found[0])]
        path = next((name for name in names if name.lower() not in _HERE), "")
        yield found.start(), found.end(), Wish("ls", (("path", path),) if path else ())


_RULES: tuple[Callable[[str], Matches], ...] = (
    _writes,
    _commands,
    _web_searches,
    _pages,
    _searches,
    _finds,
    _times,
    _reads,
    _lists,
)


def _bare(text: str) -> str:
    """Without the quotes round it."""
    return text[1:-1] if len(text) > 1 and text[0] + text[-1] in ("``", '""', "''", "“”", "「」") else text
