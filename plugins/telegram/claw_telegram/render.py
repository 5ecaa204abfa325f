"""Markdown into Telegram's HTML. Pure.

A text becomes *runs*: pieces of visible text with the tags that stand round them, outermost first. Writing runs out
nests tags properly whatever the Markdown was, and what Telegram counts is simply their text.
Which tags there are and what may stand in what: https://core.telegram.org/bots/api#html-style ("pre and code entities
can't contain other entities"; a blockquote stands in no other one).
"""

import re
import unicodedata
from collections.abc import Iterable
from functools import cache, lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.tree import SyntaxTreeNode

Tags = tuple[str, ...]
Runs = list[tuple[str, Tags]]

_STYLES = {"strong": "b", "em": "i", "s": "s"}
_SPOILER = re.compile(r"\|\|(\S(?:.*?\S)?)\|\|")
_LINKED = ("http://", "https://", "tg://", "mailto:", "tel:", "ftp://")
_MOST_COLUMNS = (
    24  # a parser fills every row up to all columns: a wide head over many rows would take seconds
)
_RULE = "———"


def render(text: str) -> str:
    """Markdown as Telegram's HTML."""
    html, standing = "", ()
    for said, tags in _trimmed(runs(text)):
        html += _moved(standing, tags) + escaped(said)
        standing = tags
    return html + _moved(standing, ())


@lru_cache(maxsize=256)
def length(text: str) -> int:
    """How long Telegram finds a text: UTF-16 units of what is seen."""
    return sum(units(said) for said, _ in _trimmed(runs(text)))


def seen(text: str) -> str:
    """What a reader sees of a Markdown text, without its formatting."""
    return "".join(said for said, _ in runs(text))


def units(text: str) -> int:
    """UTF-16 code units: what every length and offset of Telegram counts."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def escaped(text: str) -> str:
    """Text that HTML shall not read: the three signs that Telegram wants escaped, and no other."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


@lru_cache(maxsize=64)  # an answer is measured, looked at and written
def runs(text: str) -> tuple[tuple[str, Tags], ...]:
    """The visible text of a Markdown document, with the tags of each piece."""
    from markdown_it.tree import SyntaxTreeNode

    found: Runs = []
    tables = not any(line.count("|") > _MOST_COLUMNS for line in text.splitlines())
    _blocks(SyntaxTreeNode(_parser(tables).parse(text)).children, (), found)
    return tuple(found)


@cache
def _parser(tables: bool) -> "MarkdownIt":
    """CommonMark as chats write it: no HTML, no headings by underlining, no code by indenting (a cut list would become
    code), no link definitions (they would swallow a line)."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False})
    return parser.enable(["table", "strikethrough"] if tables else ["strikethrough"]).disable(
        ["lheading", "code", "reference", "html_block", "html_inline"]
    )


def _moved(standing: Tags, wanted: Tags) -> str:
    """The tags to close and to open between two runs."""
    same = 0
    while same < min(len(standing), len(wanted)) and standing[same] == wanted[same]:
        same += 1
    closing = "".join(f"</{tag.split()[0]}>" for tag in reversed(standing[same:]))
    return closing + "".join(f"<{tag}>" for tag in wanted[same:])


def _trimmed(found: Iterable[tuple[str, Tags]]) -> Runs:
    """Without empty runs, and without the white space at both ends, which Telegram cuts off itself."""
    kept = [(said, tags) for said, tags in found if said]
    while kept and not kept[0][0].strip():
        kept.pop(0)
    while kept and not kept[-1][0].strip():
        kept.pop()
    if kept:
        kept[0] = kept[0][0].lstrip(), kept[0][1]
        kept[-1] = kept[-1][0].rstrip(), kept[-1][1]
    return kept


def _blocks(
    nodes: "list[SyntaxTreeNode]", tags: Tags, found: Runs, gap: str = "\n\n", indent: str = ""
) -> None:
    """Add blocks one below the other."""
    for number, node in enumerate(nodes):
        if number:
            found.append((gap + indent, tags))
        _block(node, tags, found, indent)


def _block(node: "SyntaxTreeNode", tags: Tags, found: Runs, indent: str) -> None:
    match node.type:
        case "fence" | "code_block":
            _code(node, tags, found)
        case "heading":
            _inline(node.children, (*tags, "b"), found)
        case "blockquote":
            _blocks(node.children, tags if "blockquote" in tags else (*tags, "blockquote"), found)
        case "bullet_list" | "ordered_list":
            _list(node, tags, found, indent)
        case "table":
            found.append((_table(node), (*tags, "pre")))
        case "hr":
            found.append((_RULE, tags))
        case "paragraph" | "inline":
            _inline(node.children, tags, found, indent)
        case _:
            found.append((node.content or "", tags))


def _code(node: "SyntaxTreeNode", tags: Tags, found: Runs) -> None:
    """A fence; of one that has only begun, the words behind its signs are seen, so that nothing is swallowed."""
    content = node.content.rstrip("\n")
    language = re.sub(r"[^\w+#.-]", "", node.info.split(" ")[0]) if content else ""
    inner = ("pre", f'code class="language-{language}"') if language else ("pre",)
    found.append((content or node.info or " ", (*tags, *inner)))


def _list(node: "SyntaxTreeNode", tags: Tags, found: Runs, indent: str) -> None:
    number = int(node.attrs.get("start", 1)) if node.type == "ordered_list" else None
    for at, item in enumerate(node.children):
        mark = "• " if number is None else f"{number + at}. "
        found.append((f"\n{indent}{mark}" if at else mark, tags))
        _blocks(item.children, tags, found, gap="\n", indent=indent + "  ")


def _inline(nodes: "list[SyntaxTreeNode]", tags: Tags, found: Runs, indent: str = "") -> None:
    for node in nodes:
        match node.type:
            case "text":
                _text(node.content, tags, found)
            case "softbreak" | "hardbreak":
                found.append((f"\n{indent}", tags))
            case "code_inline":
                outer = tuple(tag for tag in tags if tag.startswith(("a ", "blockquote")))
                linked = any(tag.startswith("a ") for tag in outer)
                found.append((node.content, outer if linked else (*outer, "code")))
            case "strong" | "em" | "s":
                tag = _STYLES[node.type]
                _inline(node.children, tags if tag in tags else (*tags, tag), found, indent)
            case "link":
                _link(str(node.attrs.get("href", "")), node.children, tags, found)
            case "image":
                _image(node, tags, found)
            case _:
                _inline(node.children, tags, found, indent)


def _text(text: str, tags: Tags, found: Runs) -> None:
    """Plain text, in which ``||…||`` hides a spoiler."""
    end = 0
    for hit in _SPOILER.finditer(text):
        found.append((text[end : hit.start()], tags))
        found.append((hit[1], (*tags, "tg-spoiler")))
        end = hit.end()
    found.append((text[end:], tags))


def _link(address: str, nodes: "list[SyntaxTreeNode]", tags: Tags, found: Runs) -> None:
    if address.lower().startswith(_LINKED) and not any(tag.startswith("a ") for tag in tags):
        _inline(nodes, (*tags, f'a href="{escaped(address).replace(chr(34), "&quot;")}"'), found)
    else:
        _inline(nodes, tags, found)
        found.append((f" ({address})" if address else "", tags))


def _image(node: "SyntaxTreeNode", tags: Tags, found: Runs) -> None:
    address = str(node.attrs.get("src", ""))
    before = len(found)
    _link(address, node.children, tags, found)
    if address.lower().startswith(_LINKED) and not "".join(said for said, _ in found[before:]):
        found.append((address, tags))


def _table(node: "SyntaxTreeNode") -> str:
    """A table as lines of text with its columns aligned."""
    rows = [[_cell(cell) for cell in row.children] for part in node.children for row in part.children]
    widths = [max(_width(row[at]) if at < len(row) else 0 for row in rows) for at in range(len(rows[0]))]
    lines = [
        " | ".join(cell + " " * (wide - _width(cell)) for cell, wide in zip(row, widths, strict=False))
        for row in rows
    ]
    lines.insert(1, "-+-".join("-" * wide for wide in widths))
    return "\n".join(line.rstrip(" |") for line in lines)


def _cell(node: "SyntaxTreeNode") -> str:
    found: Runs = []
    _inline(node.children, (), found)
    return "".join(said for said, _ in found).replace("\n", " ")


def _width(text: str) -> int:
    """Columns in a monospaced font, in which East Asian letters take two."""
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)
