"""Rendering of a conversation: lines for a terminal, Markdown, or one self-contained HTML page. Pure."""

import html
import re
from collections.abc import Iterable, Iterator
from datetime import datetime

from claw import Image, t
from claw.runtime import with_label

from claw_sessions.render import AGENT, CALL, NOTE, PERSON, RESULT, SUMMARY, Passage, heading, one_line

_IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_BASE64 = re.compile(r"[A-Za-z0-9+/=\s]*")
_FENCES = re.compile(r"`{3,}")


def render_lines(passages: Iterable[Passage]) -> Iterator[str]:
    """Render for a terminal: a heading and the text of each message; one line for each call and result."""
    day = ""
    for passage in passages:
        date, _, time = to_local_time(passage.at).partition(" ")
        if date != day:
            day = date
            yield f"— {day} —"
        if passage.kind in (CALL, RESULT):
            yield f"{time[:5]:5}    {'→' if passage.kind == CALL else '←'} {one_line(passage)}"
            continue
        yield f"{time[:5]:5} {heading(passage)}  [{passage.id}]"
        yield from (f"    {line}".rstrip() for line in passage.text.splitlines())
        yield from (f"    [{with_label(t('a picture'), image.mime)}]" for image in passage.images)


def render_markdown(head: str, facts: Iterable[tuple[str, str]], passages: Iterable[Passage]) -> str:
    """Render as Markdown: messages unchanged, calls and results in fences that their content cannot close."""
    parts = [f"# {head}", "\n".join(f"- {with_label(name, value)}" for name, value in facts)]
    for passage in passages:
        moment = f" · {_utc_time(passage)}" if passage.at else ""
        title = _one_line(heading(passage))
        is_message = passage.kind in (PERSON, AGENT, SUMMARY, NOTE)
        parts.append(f"## {title}{moment}" if is_message else f"**{title}**{moment}")
        if passage.thinking:
            parts.append("\n".join(f"> {line}" for line in passage.thinking.splitlines()))
        if passage.text:
            parts.append(_fenced(passage) if passage.kind in (CALL, RESULT) else passage.text)
        parts += [_markdown_image(image) for image in passage.images]
    return "\n\n".join(parts) + "\n"


def render_html(head: str, facts: Iterable[tuple[str, str]], passages: Iterable[Passage]) -> str:
    """Render as one HTML page without scripts: all text escaped, pictures embedded, loading forbidden by its policy."""
    rows = "\n".join(f"<div><dt>{_escape(name)}</dt><dd>{_escape(value)}</dd></div>" for name, value in facts)
    body = "\n".join(map(_block, passages))
    return _PAGE.format(head=_escape(head), style=_STYLE, facts=rows, body=body)


def _block(passage: Passage) -> str:
    classes = f"{passage.kind} failed" if passage.is_error else passage.kind
    time = (
        f'<time datetime="{_escape(passage.at)}">{_escape(_utc_time(passage))}</time>' if passage.at else ""
    )
    pictures = "".join(map(_html_image, passage.images))
    if passage.kind in (CALL, RESULT):
        inside = f"<pre>{_escape(passage.text)}</pre>{pictures}"
        arrow = "→" if passage.kind == CALL else "←"
        return f'<details class="{classes}"><summary>{arrow} {_escape(one_line(passage))}</summary>{inside}</details>'
    thought = f'<p class="thinking">{_escape(passage.thinking)}</p>' if passage.thinking else ""
    words = f"<p>{_escape(passage.text)}</p>" if passage.text else ""
    return (
        f'<article class="{classes}" id="{_escape(passage.id)}"><header>{_escape(heading(passage))} {time}</header>'
        f"{thought}{words}{pictures}</article>"
    )


def to_local_time(at: str) -> str:
    """Convert an ISO 8601 time to local time, ``2026-06-15 14:31:07``; return other text unchanged."""
    try:
        return datetime.fromisoformat(at).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError):
        return at


def _utc_time(passage: Passage) -> str:
    """Return the time in UTC: a document is read in other time zones."""
    return passage.at[:19].replace("T", " ") + (" UTC" if passage.at.endswith("Z") else passage.at[19:])


def _fenced(passage: Passage) -> str:
    longest = max((len(run) for run in _FENCES.findall(passage.text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{'json' if passage.kind == CALL else ''}\n{passage.text}\n{fence}"


def _markdown_image(image: Image) -> str:
    return f"![]({_data_uri(image)})" if _data_uri(image) else f"[{t('a picture')}]"


def _html_image(image: Image) -> str:
    return (
        f'<img alt="" src="{_data_uri(image)}">'
        if _data_uri(image)
        else f"<p>[{_escape(t('a picture'))}]</p>"
    )


def _data_uri(image: Image) -> str:
    """Return the picture as a data URI; empty unless its type is allowed and its data valid base64."""
    if image.mime not in _IMAGE_TYPES or not _BASE64.fullmatch(image.data):
        return ""
    return f"data:{image.mime};base64,{''.join(image.data.split())}"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _escape(text: str) -> str:
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
