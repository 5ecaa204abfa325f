"""Upload and download of files. Sizes (images 10 MB, files 30 MB, none empty) from the open platform's upload pages."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path, PurePath

from claw import Attachment, Inbound, Outbound

from claw_feishu.outbound import Form, file_form
from claw_feishu.tenant import MEDIA_SECONDS, FeishuError, Tenant

IMAGE_BYTES = 10 << 20
FILE_BYTES = 30 << 20
FETCH_BYTES = 100 << 20
_IMAGES = {".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp", ".ico", ".tiff"}
_OPUS = {".opus", ".ogg"}
_TYPES = {
    ".mp4": "mp4", ".pdf": "pdf", ".doc": "doc", ".docx": "doc", ".xls": "xls", ".xlsx": "xls",
    ".ppt": "ppt", ".pptx": "ppt", **dict.fromkeys(_OPUS, "opus"),
}  # fmt: skip


def kind_of(name: str, kind: str, size: int, voice: bool) -> str:
    """Return the ``msg_type`` of a file: image, audio, media (a playable video) or file. Pure."""
    suffix = PurePath(name).suffix.lower()
    if size <= IMAGE_BYTES and (suffix in _IMAGES or (kind == "image" and not suffix)):
        return "image"
    if suffix in _OPUS and (voice or kind == "audio"):
        return "audio"
    return "media" if suffix == ".mp4" and kind == "video" else "file"


async def upload(tenant: Tenant, outbound: Outbound, attachment: Attachment) -> Form:
    """Upload a file; return the form that shows it in a chat.

    :raises FeishuError: it is too large or gone (permanent), or the service refused it.
    """
    path = Path(attachment.path)
    name = attachment.name or path.name
    try:
        size = (await asyncio.to_thread(path.stat)).st_size
        if not 0 < size <= FILE_BYTES:
            raise FeishuError(
                "{name} has {size} bytes; Feishu takes 1 to {most}",
                name=name,
                size=size,
                most=FILE_BYTES,
                permanent=True,
            )
        data = await asyncio.to_thread(path.read_bytes)
    except OSError as why:
        raise FeishuError(
            "{name} cannot be read: {why}", name=name, why=why.strerror, permanent=True
        ) from why
    kind = kind_of(name, attachment.kind, size, outbound.voice)
    if kind == "image":
        path_, form, part, key = "images", {"image_type": "message"}, "image", "image_key"
    else:
        file_type = _TYPES.get(PurePath(name).suffix.lower(), "stream")
        path_, form, part, key = "files", {"file_type": file_type, "file_name": name}, "file", "file_key"
    answer = await tenant.call(
        "POST",
        f"/open-apis/im/v1/{path_}",
        form=form,
        files={part: (name, data)},
        timeout_seconds=MEDIA_SECONDS,
    )
    return file_form(kind, str(answer["data"][key]))


def download(tenant: Tenant, inbound: Inbound, attachment: Attachment) -> AsyncIterator[bytes]:
    """Yield the bytes of an attachment; the message must be the one that carries it.

    :raises FeishuError: raised while reading: gone, not allowed, or larger than ``FETCH_BYTES``.
    """
    kind = "image" if attachment.kind == "image" else "file"
    path = f"/open-apis/im/v1/messages/{inbound.message_id}/resources/{attachment.key}"
    return tenant.download(path, query={"type": kind}, most_bytes=FETCH_BYTES)
