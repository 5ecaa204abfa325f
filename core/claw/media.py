"""Files that come with a message or go with an answer: fetched and kept within limits, always through the fence."""

import asyncio
import mimetypes
import re
from base64 import b64encode
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from claw.channel import Channel
from claw.clock import SYSTEM
from claw.errors import ClawError, ToolError
from claw.guard.fence import Fence
from claw.guard.names import safe_name
from claw.message import Attachment, Inbound
from claw.shelf import clear
from claw.store import make_folder, replace as replace_file
from claw.transcript import Image
from claw.wall import name_of
from claw.words import say

INCOMING = "incoming"
"""Folder of the workspace where files of messages are put."""
FETCH_SECONDS = 60.0
PICTURE_BYTES = 5_000_000
"""Of one picture that a model is shown: what the strictest service takes (Anthropic, "Vision": 5 MB)."""
MOST_PICTURES = 8
MOST_SENT = 20  # files with one message: each is copied, and a model may name one a thousand times
_PICTURES_BYTES = 16_000_000  # of one message's: base64 makes 21 MB of it, and a request may have 32 MB there
_MAGIC = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif"}
KEPT_SECONDS = 2 * 24 * 3600.0
"""Of a copy that goes out: what is owed for more than a day is given up."""
_KINDS = {"image": "image", "audio": "audio", "video": "video"}
_SAFE = re.compile(r"[^\w.\- ]+", re.UNICODE)

Complain = Callable[[str], None]


async def brought_in(inbound: Inbound, channel: Channel, fence: Fence, complain: Complain) -> Inbound:
    """Fetch the files of a message into the workspace; one that cannot be had is lost, and is told of."""
    if not inbound.attachments or not hasattr(channel, "fetch"):
        return inbound
    limit = channel.limits.media_in_bytes
    got = []
    for number, attachment in enumerate(inbound.attachments, 1):
        try:
            async with asyncio.timeout(FETCH_SECONDS):
                data = await _fetched(channel, inbound, attachment, limit)
            path = f"{INCOMING}/{_file_name(inbound, attachment, number)}"
            fence.write(path, data)
            got.append(replace(attachment, path=path, size_bytes=len(data)))
        except Exception as why:  # noqa: BLE001 - a stranger's code
            told = str(why) if isinstance(why, ClawError) else name_of(why)
            complain(
                say("channel {name}: a file cannot be fetched: {why}", name=inbound.address.channel, why=told)
            )
            got.append(replace(attachment, lost=True))
    return replace(inbound, attachments=tuple(got))


async def _fetched(channel: Channel, inbound: Inbound, attachment: Attachment, limit: int) -> bytes:
    if attachment.size_bytes is not None and attachment.size_bytes > limit:
        raise _too_large(attachment.size_bytes, limit)
    asked: Any = channel
    pieces, size = [], 0
    async with aclosing(asked.fetch(inbound, attachment)) as stream:
        async for piece in stream:
            size += len(piece)
            if size > limit:
                raise _too_large(size, limit)
            pieces.append(bytes(piece))
    return b"".join(pieces)


def pictures_of(inbound: Inbound, fence: Callable[[], Fence]) -> tuple[Image, ...]:
    """What a model may look at of the files that came with a message: PNG, JPEG, GIF and WebP, by their first bytes.

    The first :data:`MOST_PICTURES`, each within :data:`PICTURE_BYTES`; of any other its line in the words has to do. So
    has it for a file that is no longer there.

    :param fence: asked for only when there may be one.
    """
    found: list[Image] = []
    room = _PICTURES_BYTES
    for file in inbound.attachments:
        mime = file.mime or mimetypes.guess_type(file.name)[0] or ""
        if (
            not (file.kind == "image" or mime.startswith("image/"))
            or not file.path
            or len(found) == MOST_PICTURES
        ):
            continue
        most = min(room, PICTURE_BYTES)
        try:
            data = fence().read(file.path, most + 1)
        except (ClawError, OSError):
            continue
        if len(data) <= most and (seen := _picture_type(data)):
            found.append(Image(b64encode(data).decode(), seen))
            room -= len(data)
    return tuple(found)


def _picture_type(data: bytes) -> str:
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((mime for magic, mime in _MAGIC.items() if data.startswith(magic)), "")


def _too_large(size: int, limit: int) -> ToolError:
    return ToolError(
        "it is larger than {limit} MB ({size} bytes or more)", limit=round(limit / (1 << 20), 1), size=size
    )


def _file_name(inbound: Inbound, attachment: Attachment, number: int) -> str:
    """A name inside our folder, whatever the sender called the file."""
    wanted = _SAFE.sub("_", PurePosixPath(attachment.name.replace("\\", "/")).name).strip(". ")[-80:]
    if not wanted:
        wanted = attachment.kind + (mimetypes.guess_extension(attachment.mime) or "")
    return f"{safe_name(inbound.message_id or inbound.event_id)[-40:]}-{number}-{wanted}"


async def carried_out(
    paths: Sequence[str], fence: Fence, folder: Path, label: str, limit: int
) -> tuple[tuple[Attachment, ...], tuple[str, ...]]:
    """Copies of files of the workspace, ready to be sent: what is sent is what was judged, also after a restart.

    :param folder: where the copies lie; ``label`` begins their names.
    :returns: the attachments, and a line for each path that cannot be sent.
    """
    if len(paths) > MOST_SENT:
        return (), (say("a message takes at most {most} files", most=MOST_SENT),)
    ready, refused = [], []
    for number, path in enumerate(paths, 1):
        try:
            data = fence.read(path, limit + 1)
            if len(data) > limit:
                raise _too_large(len(data), limit)
            name = PurePosixPath(path).name
            place = folder / f"{safe_name(label)}-{number}"
            make_folder(folder)
            clear(folder, SYSTEM.now() - KEPT_SECONDS)
            replace_file(place, data)
            mime = mimetypes.guess_type(name)[0] or "application/octet-stream"
            kind = _KINDS.get(mime.partition("/")[0], "file")
            ready.append(Attachment(kind, name, mime, path=str(place), size_bytes=len(data)))
        except (ClawError, OSError) as why:
            told = (why.strerror or name_of(why)) if isinstance(why, OSError) else why
            refused.append(say("{path} cannot be sent: {why}", path=path, why=told))
    return tuple(ready), tuple(refused)
