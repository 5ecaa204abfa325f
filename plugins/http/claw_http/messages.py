"""The messages of a request: instructions, earlier messages, and the new message with its images. Pure.

Facts from https://platform.openai.com/docs/api-reference/chat/create (messages) and .../responses/create (input).
"""

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from claw_http.failures import BadRequest

IMAGES = 16
IMAGE_BEFORE = "(an image of an earlier message, not shown again)"
"""The text in place of an image of an earlier message."""
_INSTRUCTIONS = ("system", "developer")
_DATA_URL = re.compile(r"data:(image/[a-z0-9.+-]{1,40});base64,", re.I)


@dataclass(frozen=True, slots=True)
class Picture:
    """An image of the new message."""

    mime: str
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class EarlierMessage:
    """A message that the caller sent as a part of the history.

    :param role: user or assistant.
    """

    role: str
    text: str


@dataclass(frozen=True, slots=True)
class PartTypes:
    """The types of the parts of a message in one protocol: text of people, images, text of agents."""

    text: str
    image: str
    answer: str


CHAT_PARTS = PartTypes("text", "image_url", "text")
RESPONSE_PARTS = PartTypes("input_text", "input_image", "output_text")


@dataclass(frozen=True, slots=True)
class CallerMessages:
    """The messages of one request.

    :param text: the new message, with its ``pictures``.
    :param earlier: the messages before it, oldest first.
    :param instructions: the system and developer messages, joined by blank lines.
    """

    text: str
    pictures: tuple[Picture, ...] = ()
    earlier: tuple[EarlierMessage, ...] = ()
    instructions: str = ""


def parse_messages(messages: Any, name: str, types: PartTypes, most_chars: int) -> CallerMessages:
    """Parse the messages of a request. The last one must be a user's.

    :param name: the field that holds them, for errors.
    :param most_chars: limit of all texts together.
    :raises BadRequest: a message is invalid or of an unsupported kind, or the texts are too long.
    """
    if not isinstance(messages, list) or not messages or not all(isinstance(one, dict) for one in messages):
        raise BadRequest(400, f"{name} must be a list of messages", param=name)
    last, at = messages[-1], f"{name}[{len(messages) - 1}]"
    if last.get("role") != "user":
        problem = "the last message must be the user's: the server keeps the messages of agents and tools"
        raise BadRequest(400, problem, param=f"{at}.role")
    earlier: list[EarlierMessage] = []
    instructions: list[str] = []
    texts: list[str] = []  # the blank ones too
    for number, message in enumerate(messages[:-1]):
        role, text = _before(message, f"{name}[{number}]", types)
        texts.append(text)
        if role in _INSTRUCTIONS:
            instructions.append(text)
        elif text.strip():
            earlier.append(EarlierMessage(role, text))
    text, pictures = _content(last.get("content"), f"{at}.content", types.text, types.image)
    if not text.strip() and not pictures:
        raise BadRequest(400, "the message is empty", param=f"{at}.content")
    if len(pictures) > IMAGES:
        raise BadRequest(400, f"a message has at most {IMAGES} images", param=f"{at}.content")
    check_length((text, *texts), name, most_chars)
    whole = "\n\n".join(filter(str.strip, instructions))
    return CallerMessages(text, pictures, tuple(earlier), whole)


def check_length(texts: Sequence[str], name: str, most_chars: int) -> None:
    """Check the length of all texts of a request.

    :raises BadRequest: they are too long together.
    """
    if (chars := sum(map(len, texts))) > most_chars:
        limit = f"at most {most_chars:,} are accepted (channels.http.maxTextChars)"
        problem = f"the texts of this request have {chars:,} characters together: {limit}"
        raise BadRequest(413, problem, param=name, code="request_too_large")


def valid_text(text: str, at: str) -> str:
    """Return the text.

    :raises BadRequest: it has an unpaired surrogate, which JSON can have, but no file and no model accepts.
    """
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise BadRequest(400, "there is half a surrogate pair in the text", param=at) from None
    return text


def _before(message: Mapping[str, Any], at: str, types: PartTypes) -> tuple[str, str]:
    """Return the role and the text of a message before the last one."""
    role, content = message.get("role"), message.get("content")
    if role == "assistant":
        for name in ("tool_calls", "function_call", "audio"):
            if message.get(name):
                problem = (
                    f"an earlier message may not have {name}: leave messages of tools away, or write text"
                )
                raise BadRequest(400, problem, param=f"{at}.{name}", code="unsupported_message")
        content = content if content is not None else message.get("refusal") or ""
        return role, _content(content, f"{at}.content", types.answer, refusal=True)[0]
    if role in _INSTRUCTIONS:
        return str(role), _content(content, f"{at}.content", types.text)[0]
    if role == "user":
        return role, _content(content, f"{at}.content", types.text, types.image, keep=False)[0]
    problem = "messages may be of the roles user, assistant, system and developer: leave those of tools away"
    raise BadRequest(400, problem, param=f"{at}.role", code="unsupported_message")


def _content(
    content: Any, at: str, text_type: str, image_type: str = "", *, keep: bool = True, refusal: bool = False
) -> tuple[str, tuple[Picture, ...]]:
    """Return the text and the images of a content.

    :param keep: decode images; otherwise a line is in the place of each.
    :param refusal: accept the words of a refusal.
    """
    if isinstance(content, str):
        return valid_text(content, at), ()
    if not isinstance(content, list):
        raise BadRequest(400, "content must be a text or a list of parts", param=at)
    texts: list[str] = []
    pictures: list[Picture] = []
    for number, part in enumerate(content):
        here = f"{at}[{number}]"
        kind = part.get("type") if isinstance(part, dict) else None
        said = part.get("refusal" if kind == "refusal" else "text") if kind else None
        if isinstance(said, str) and (kind == text_type or (refusal and kind == "refusal")):
            texts.append(valid_text(said, here))
        elif image_type and kind == image_type:
            if keep:
                pictures.append(_picture(part.get("image_url"), here))
            else:
                texts.append(IMAGE_BEFORE)
        else:
            accepted = f"{text_type} or {image_type}" if image_type else text_type
            raise BadRequest(400, f"a part must be {accepted}", param=here)
    return "\n".join(texts), tuple(pictures)


def _picture(image: Any, at: str) -> Picture:
    url = image.get("url") if isinstance(image, dict) else image
    text = url if isinstance(url, str) else ""
    match = _DATA_URL.match(text)
    if match is None:
        problem = (
            "an image must be a data: URL (data:image/png;base64,…): addresses are not fetched for callers"
        )
        raise BadRequest(400, problem, param=f"{at}.image_url", code="invalid_image_url")
    try:
        return Picture(match[1].lower(), base64.b64decode(text[match.end() :], validate=True))
    except (binascii.Error, ValueError):
        raise BadRequest(400, "the image is not base64", param=f"{at}.image_url") from None
