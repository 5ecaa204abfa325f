"""A conversation as a document: lines for a terminal, Markdown, or one HTML page that needs nothing else. Pure."""

import html
import re
from collections.abc import Iterable, Iterator
from datetime import datetime

from claw.conversations.told import AGENT, CALL, NOTE, PERSON, RESULT, SUMMARY, Passage, short, title
from claw.transcript import Image
from claw.words import say

_PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_BASE64 = re.compile(r"[A-Za-z0-9+/=\s]*")
_FENCES = re.compile(r"`{3,}")


def as_lines(passages: Iterable[Passage]) -> Iterator[str]:
    """For a terminal: a head for each turn of words, calls and results on one line each."""
    day = ""
    for passage in passages:
        date, _, time = local_time(passage.at).partition(" ")
        if date != day:
            day = date
            yield f"— {day} —"
        if passage.kind in (CALL, RESULT):
            yield f"{time[:5]:5}    {'→' if passage.kind == CALL else '←'} {short(passage)}"
            continue
        yield f"{time[:5]:5} {title(passage)}  [{passage.id}]"
        yield from (f"    {line}".rstrip() for line in passage.text.splitlines())
        yield from (f"    [{say('a picture')}: {image.mime}]" for image in passage.images)


def as_markdown(head: str, facts: Iterable[tuple[str, str]], passages: Iterable[Passage]) -> str:
    """What people and models wrote stays Markdown; calls and results stand in fences that nothing inside can close."""
    parts = [f"# {head}", "\n".join(f"- {name}: {value}" for name, value in facts)]
    for passage in passages:
        moment = f" · {_moment(passage)}" if passage.at else ""
        parts.append(f"## {_one_line(title(passage))}{moment}" if passage.kind in (PERSON, AGENT, SUMMARY, NOTE)
                     else f"**{_one_line(title(passage))}**{moment}")  # fmt: skip
        if passage.thinking:
            parts.append("\n".join(f"> {line}" for line in passage.thinking.splitlines()))
        if passage.text:
            parts.append(_fenced(passage) if passage.kind in (CALL, RESULT) else passage.text)
        parts += [_picture_in_markdown(image) for image in passage.images]
    return "\n\n".join(parts) + "\n"


def as_html(head: str, facts: Iterable[tuple[str, str]], passages: Iterable[Passage]) -> str:
    """One page without scripts; every text is escaped, pictures are inside, and a browser is told to load nothing."""
    told = "\n".join(f"<div><dt>{_safe(name)}</dt><dd>{_safe(value)}</dd></div>" for name, value in facts)
    body = "\n".join(map(_block, passages))
    return _PAGE.format(head=_safe(head), style=_STYLE, facts=told, body=body)


def _block(passage: Passage) -> str:
    classes = f"{passage.kind} failed" if passage.is_error else passage.kind
    time = f'<time datetime="{_safe(passage.at)}">{_safe(_moment(passage))}</time>' if passage.at else ""
    pictures = "".join(map(_picture_in_html, passage.images))
    if passage.kind in (CALL, RESULT):
        inside = f"<pre>{_safe(passage.text)}</pre>{pictures}"
        arrow = "→" if passage.kind == CALL else "←"
        return (
            f'<details class="{classes}"><summary>{arrow} {_safe(short(passage))}</summary>{inside}</details>'
        )
    thought = f'<p class="thinking">{_safe(passage.thinking)}</p>' if passage.thinking else ""
    words = f"<p>{_safe(passage.text)}</p>" if passage.text else ""
    return (
        f'<article class="{classes}" id="{_safe(passage.id)}"><header>{_safe(title(passage))} {time}</header>'
        f"{thought}{words}{pictures}</article>"
    )


def local_time(at: str) -> str:
    """``2026-06-15 14:31:07`` where we are, of an ISO 8601 instant; as it is when it is none."""
    try:
        return datetime.fromisoformat(at).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError):
        return at


def _moment(passage: Passage) -> str:
    """In universal time: a document is read elsewhere."""
    return passage.at[:19].replace("T", " ") + (" UTC" if passage.at.endswith("Z") else passage.at[19:])


def _fenced(passage: Passage) -> str:
    longest = max((len(run) for run in _FENCES.findall(passage.text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{'json' if passage.kind == CALL else ''}\n{passage.text}\n{fence}"


def _picture_in_markdown(image: Image) -> str:
    return f"![]({_inside(image)})" if _inside(image) else f"[{say('a picture')}]"


def _picture_in_html(image: Image) -> str:
    return f'<img alt="" src="{_inside(image)}">' if _inside(image) else f"<p>[{_safe(say('a picture'))}]</p>"


def _inside(image: Image) -> str:
    """The picture as an address that holds it; empty when it is none that a browser may be given."""
    if image.mime not in _PICTURES or not _BASE64.fullmatch(image.data):
        return ""
    return f"data:{image.mime};base64,{''.join(image.data.split())}"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _safe(text: str) -> str:
    return html.escape(text)


_PAGE = """\
<!doctype html>
<html>
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<title>{head}</title>
<style>
{style}</style>
</head>
<body>
<h1>{head}</h1>
<dl>
{facts}
</dl>
<main>
{body}
</main>
</body>
</html>
"""
_STYLE = """\
:root { color-scheme: light dark; --ink: #1c2321; --quiet: #66706d; --paper: #f6f7f5; --card: #ffffff; --mine: #dff1ec;
  --line: #d9dedb; --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e9e6; --quiet: #96a19d; --paper: #151918; --card: #1e2423;
  --mine: #1d3b35; --line: #333b39; --bad: #f2867d; } }
body { margin: 0 auto; max-width: 50rem; padding: 2rem 1rem 4rem; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, "Noto Sans", "Noto Sans CJK SC", "PingFang SC", "Microsoft YaHei", sans-serif; }
h1 { font-size: 1.2rem; overflow-wrap: anywhere; }
dl { display: flex; flex-wrap: wrap; gap: .3rem 1.5rem; margin: 0 0 2rem; font-size: .85rem; }
dl div { display: flex; gap: .4rem; }
dt, header, time, .thinking, .note, summary { color: var(--quiet); }
dd { margin: 0; overflow-wrap: anywhere; }
main { display: flex; flex-direction: column; gap: .6rem; }
article { background: var(--card); border: 1px solid var(--line); border-radius: .7rem; padding: .5rem .9rem;
  max-width: 88%; align-self: flex-start; }
article.person { background: var(--mine); align-self: flex-end; }
article.summary { max-width: none; align-self: stretch; border-style: dashed; }
article.note { background: none; border: none; align-self: center; font-size: .85rem; text-align: center; }
header { font-size: .8rem; }
p { margin: .2rem 0; white-space: pre-wrap; overflow-wrap: anywhere; }
.thinking { font-style: italic; font-size: .9rem; }
details { margin-left: 1rem; font-size: .85rem; }
summary { cursor: pointer; overflow-wrap: anywhere; font-family: ui-monospace, monospace; }
pre { margin: .3rem 0; padding: .6rem; background: var(--card); border: 1px solid var(--line); border-radius: .5rem;
  max-height: 30rem; overflow: auto; white-space: pre-wrap; overflow-wrap: anywhere; font-size: .8rem; }
.failed summary, .failed p { color: var(--bad); }
img { max-width: 100%; border-radius: .5rem; }
"""
