"""Rendering of Markdown as Telegram's HTML. Pure.

A text becomes *runs*: pieces of visible text with the tags around them, outermost first. Writing the runs
nests tags properly for any Markdown, and the length that Telegram counts is the length of their text.
Tags and their nesting rules: https://core.telegram.org/bots/api#html-style ("pre and code entities
can't contain other entities"; blockquotes cannot be nested).
"""

import re
from collections.abc import Iterable
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from claw_channel_sdk import text_width

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.tree import SyntaxTreeNode

Tags = tuple[str, ...]
Runs = list[tuple[str, Tags]]

_STYLES = {"strong": "b", "em": "i", "s": "s"}
_SPOILER = re.compile(r"\|\|(\S(?:.*?\S)?)\|\|")
_LINK_SCHEMES = ("http://", "https://", "tg://", "mailto:", "tel:", "ftp://")
_MAX_COLUMNS = (
    24  # the parser pads every row to the header's columns: a wide header over many rows would take seconds
)
_RULE = "———"


def render(text: str) -> str:
    """Convert Markdown to Telegram's HTML."""
    html, open_tags = "", ()
    for piece, tags in _trimmed(runs(text)):
        html += _tag_changes(open_tags, tags) + escaped(piece)
        open_tags = tags
    return html + _tag_changes(open_tags, ())


@lru_cache(maxsize=256)
def length(text: str) -> int:
    """Return the length that Telegram counts: UTF-16 units of the visible text."""
    return sum(utf16_units(piece) for piece, _ in _trimmed(runs(text)))


def visible_text(text: str) -> str:
    """Return the visible text of Markdown, without its formatting."""
    return "".join(piece for piece, _ in runs(text))


def utf16_units(text: str) -> int:
    """Return the number of UTF-16 code units, the unit of every length and offset at Telegram."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def escaped(text: str) -> str:
    """Escape the three characters that Telegram's HTML reserves, and no others."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


@lru_cache(maxsize=64)  # an answer is measured, inspected and rendered
def runs(text: str) -> tuple[tuple[str, Tags], ...]:
    """Return the visible text of a Markdown document in runs, each with its tags."""
    from markdown_it.tree import SyntaxTreeNode

    found: Runs = []
    tables = not any(line.count("|") > _MAX_COLUMNS for line in text.splitlines())
    _blocks(SyntaxTreeNode(_parser(tables).parse(text)).children, (), found)
    return tuple(found)


@cache
def _parser(tables: bool) -> "MarkdownIt":
    """Build a CommonMark parser for chat text: no HTML, setext headings, indented code (a cut list would
    become code) or link definitions (they would swallow a line)."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False})
    return parser.enable(["table", "strikethrough"] if tables else ["strikethrough"]).disable(
        ["lheading", "code", "reference", "html_block", "html_inline"]
    )


def _tag_changes(open_tags: Tags, wanted: Tags) -> str:
    """Return the closing and opening tags between two runs."""
    same = 0
    while same < min(len(open_tags), len(wanted)) and open_tags[same] == wanted[same]:
        same += 1
    closing = "".join(f"</{tag.split()[0]}>" for tag in reversed(open_tags[same:]))
    return closing + "".join(f"<{tag}>" for tag in wanted[same:])


def _trimmed(found: Iterable[tuple[str, Tags]]) -> Runs:
    """Drop empty runs and the white space at both ends, which Telegram strips too."""
    kept = [(piece, tags) for piece, tags in found if piece]
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
    """Add blocks separated by line breaks."""
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
    """Add a fenced code block; show the info string of a fence without content, so that no text is lost."""
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
    """Add plain text, with ``||…||`` as spoilers."""
    end = 0
    for hit in _SPOILER.finditer(text):
        found.append((text[end : hit.start()], tags))
        found.append((hit[1], (*tags, "tg-spoiler")))
        end = hit.end()
    found.append((text[end:], tags))


def _link(address: str, nodes: "list[SyntaxTreeNode]", tags: Tags, found: Runs) -> None:
    if address.lower().startswith(_LINK_SCHEMES) and not any(tag.startswith("a ") for tag in tags):
        _inline(nodes, (*tags, f'a href="{escaped(address).replace(chr(34), "&quot;")}"'), found)
    else:
        _inline(nodes, tags, found)
        found.append((f" ({address})" if address else "", tags))


def _image(node: "SyntaxTreeNode", tags: Tags, found: Runs) -> None:
    address = str(node.attrs.get("src", ""))
    before = len(found)
    _link(address, node.children, tags, found)
    if address.lower().startswith(_LINK_SCHEMES) and not "".join(piece for piece, _ in found[before:]):
        found.append((address, tags))


def _table(node: "SyntaxTreeNode") -> str:
    """Return a table as lines of text with aligned columns."""
    rows = [[_cell(cell) for cell in row.children] for part in node.children for row in part.children]
    widths = [max(text_width(row[at]) if at < len(row) else 0 for row in rows) for at in range(len(rows[0]))]
    lines = [
        " | ".join(cell + " " * (wide - text_width(cell)) for cell, wide in zip(row, widths, strict=False))
        for row in rows
    ]
    lines.insert(1, "-+-".join("-" * wide for wide in widths))
    return "\n".join(line.rstrip(" |") for line in lines)


def _cell(node: "SyntaxTreeNode") -> str:
    found: Runs = []
    _inline(node.children, (), found)
    return "".join(piece for piece, _ in found).replace("\n", " ")
