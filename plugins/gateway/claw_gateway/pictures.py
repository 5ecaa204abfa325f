"""Pictures of messages that a model looks at."""

import mimetypes
from base64 import b64encode
from collections.abc import Callable

from claw import ClawError, Image, Inbound
from claw.runtime import WorkspaceFiles

PICTURE_BYTES = 5_000_000
"""The largest picture for a model: the limit of the strictest service (Anthropic, "Vision": 5 MB)."""
MAX_PICTURES = 8
_PICTURES_BYTES = 16_000_000  # of one message: base64 makes 21 MB of it, and that service takes 32 MB
_MAGIC = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif"}


def pictures_of(inbound: Inbound, fence: Callable[[], WorkspaceFiles]) -> tuple[Image, ...]:
    """Return the pictures of a message that a model may see: PNG, JPEG, GIF and WebP, by their first bytes.

    The first :data:`MAX_PICTURES`, each within :data:`PICTURE_BYTES`. Of any other, and of a file that no
    longer exists, the model gets the line in the text only.

    :param fence: called only when there may be a picture.
    """
    found: list[Image] = []
    left_bytes = _PICTURES_BYTES
    for file in inbound.attachments:
        mime = file.mime or mimetypes.guess_type(file.name)[0] or ""
        is_picture = file.kind == "image" or mime.startswith("image/")
        if not is_picture or not file.path or len(found) == MAX_PICTURES:
            continue
        most = min(left_bytes, PICTURE_BYTES)
        try:
            data = fence().read(file.path, most + 1)
        except (ClawError, OSError):
            continue
        if len(data) <= most and (seen := _picture_type(data)):
            found.append(Image(b64encode(data).decode(), seen))
            left_bytes -= len(data)
    return tuple(found)


def _picture_type(data: bytes) -> str:
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((mime for magic, mime in _MAGIC.items() if data.startswith(magic)), "")
