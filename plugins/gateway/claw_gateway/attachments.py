"""Files of messages and of answers: fetched and copied within limits, always through the workspace fence."""

import asyncio
import mimetypes
import re
from collections.abc import Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from claw import Attachment, Channel, ClawError, Inbound, ToolError, t
from claw.runtime import (
    SYSTEM_CLOCK,
    WorkspaceFiles,
    describe_exception,
    make_folder,
    replace_file,
    safe_file_name,
)

INCOMING = "incoming"
"""The folder of the workspace for files of messages."""
FETCH_SECONDS = 60.0
MAX_SENT_FILES = 20  # files with one message: each is copied, and a model may name many
KEPT_SECONDS = 2 * 24 * 3600.0
"""The age at which an outgoing copy is deleted: a reply that is pending for more than a day is given up."""
_KINDS = {"image": "image", "audio": "audio", "video": "video"}
_UNSAFE = re.compile(r"[^\w.\- ]+", re.UNICODE)

Log = Callable[[str], None]


async def fetch_attachments(inbound: Inbound, channel: Channel, fence: WorkspaceFiles, log: Log) -> Inbound:
    """Fetch the files of a message into the workspace; one that fails is marked as lost, and logged."""
    if not inbound.attachments or not hasattr(channel, "fetch"):
        return inbound
    limit = channel.limits.media_in_bytes
    fetched = []
    for number, attachment in enumerate(inbound.attachments, 1):
        try:
            async with asyncio.timeout(FETCH_SECONDS):
                data = await _fetch(channel, inbound, attachment, limit)
            path = f"{INCOMING}/{_file_name(inbound, attachment, number)}"
            fence.write(path, data)
            fetched.append(replace(attachment, path=path, size_bytes=len(data)))
        except Exception as why:  # noqa: BLE001 - plugin code
            text = str(why) if isinstance(why, ClawError) else describe_exception(why)
            log(t("channel {name}: a file cannot be fetched: {why}", name=inbound.address.channel, why=text))
            fetched.append(replace(attachment, lost=True))
    return replace(inbound, attachments=tuple(fetched))


async def _fetch(channel: Channel, inbound: Inbound, attachment: Attachment, limit: int) -> bytes:
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


def _too_large(size: int, limit: int) -> ToolError:
    return ToolError(
        "it is larger than {limit} MB ({size} bytes or more)", limit=round(limit / (1 << 20), 1), size=size
    )


def _file_name(inbound: Inbound, attachment: Attachment, number: int) -> str:
    """Return a name inside our folder, whatever the sender called the file."""
    wanted = _UNSAFE.sub("_", PurePosixPath(attachment.name.replace("\\", "/")).name).strip(". ")[-80:]
    if not wanted:
        wanted = attachment.kind + (mimetypes.guess_extension(attachment.mime) or "")
    return f"{safe_file_name(inbound.message_id or inbound.event_id)[-40:]}-{number}-{wanted}"


async def copy_attachments(
    paths: Sequence[str], fence: WorkspaceFiles, folder: Path, label: str, limit: int
) -> tuple[tuple[Attachment, ...], tuple[str, ...]]:
    """Copy files of the workspace for sending: what is sent is what was checked, also after a restart.

    :param folder: of the copies; ``label`` begins their names.
    :returns: the attachments, and a line for each path that cannot be sent.
    """
    if len(paths) > MAX_SENT_FILES:
        return (), (t("a message takes at most {most} files", most=MAX_SENT_FILES),)
    ready, refused = [], []
    for number, path in enumerate(paths, 1):
        try:
            data = fence.read(path, limit + 1)
            if len(data) > limit:
                raise _too_large(len(data), limit)
            name = PurePosixPath(path).name
            stored = folder / f"{safe_file_name(label)}-{number}"
            make_folder(folder)
            _delete_older(folder, SYSTEM_CLOCK.now() - KEPT_SECONDS)
            replace_file(stored, data)
            mime = mimetypes.guess_type(name)[0] or "application/octet-stream"
            kind = _KINDS.get(mime.partition("/")[0], "file")
            ready.append(Attachment(kind, name, mime, path=str(stored), size_bytes=len(data)))
        except (ClawError, OSError) as why:
            text = (why.strerror or describe_exception(why)) if isinstance(why, OSError) else why
            refused.append(t("{path} cannot be sent: {why}", path=path, why=text))
    return tuple(ready), tuple(refused)


def _delete_older(folder: Path, oldest: float) -> None:
    """Delete the files of a folder that were written before ``oldest``, seconds since 1970."""
    for file in folder.iterdir():
        with suppress(OSError):
            if file.stat().st_mtime < oldest:
                file.unlink()
