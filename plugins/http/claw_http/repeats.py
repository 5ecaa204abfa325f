"""The ids of a request: equal for its repetitions, so that its turn runs once. Pure.

A repetition is recognised by its ``Idempotency-Key``, or by the header ``x-stainless-retry-count`` of OpenAI's SDKs,
which send the same bytes again. The event id of a message, ``MESSAGE_ID:DIGEST``, keeps both in the journal.
"""

import hashlib
import re
import uuid
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass

from claw_channel_sdk import WebRequest

from claw_http.failures import BadRequest

KEY_CHARS = 255
RETRY_SECONDS = 900.0
"""Time after a lost response in which a retry without a key finds its turn."""
UNCONFIRMED_SECONDS = 30.0
"""The same after a response that was sent: it may be lost on its way."""
PAUSE_SECONDS = 10.0
"""OpenAI's SDKs wait up to 8 s before a retry."""
_LOST, _UNCONFIRMED = 1024, 4096  # maximum number of remembered responses
_READ_SECONDS = ("x-stainless-read-timeout", "x-stainless-timeout")
_MARKS_OF_PROXIES = frozenset({"x-forwarded-for", "forwarded", "via", "x-real-ip"})


@dataclass(frozen=True, slots=True)
class RequestIds:
    """The ids of one request.

    :param message_id: derived from the key; new for a request without one.
    :param digest: of path and body.
    :param keyed: an ``Idempotency-Key`` was sent.
    :param is_retry: the SDK says that it sent this request before.
    :param read_seconds: the time for which the SDK waits for a response; 0 = unknown.
    :param lost_seconds: the age of a response that was sent and that it may still ask for: the more tries, the older.
    """

    message_id: str
    digest: str
    keyed: bool
    is_retry: bool
    read_seconds: float = 0.0
    lost_seconds: float = UNCONFIRMED_SECONDS

    @property
    def event_id(self) -> str:
        """The event id of the message."""
        return f"{self.message_id}:{self.digest}"


def request_ids(request: WebRequest, head: str) -> RequestIds:
    """Return the ids of a request.

    :param head: the beginning of its message id.
    :raises BadRequest: its key is unusable.
    """
    digest = hashlib.sha256(request.path.encode() + b"\0" + request.body).hexdigest()[:32]
    key = request.headers.get("idempotency-key")
    if key is None:
        count = request.headers.get("x-stainless-retry-count", "0")
        tries = int(count) if re.fullmatch(r"\d{1,4}", count) else 0
        seconds = max(UNCONFIRMED_SECONDS, (tries + 1) * PAUSE_SECONDS)
        waits = _read_seconds(request.headers)
        return RequestIds(f"{head}{uuid.uuid4().hex}", digest, False, tries > 0, waits, seconds)
    if not 0 < len(key.strip()) <= KEY_CHARS:
        problem = f"an Idempotency-Key has 1 to {KEY_CHARS} characters"
        raise BadRequest(400, problem, param="Idempotency-Key", code="invalid_idempotency_key")
    return RequestIds(f"{head}{hashlib.sha256(key.strip().encode()).hexdigest()[:32]}", digest, True, False)


def _read_seconds(headers: Mapping[str, str]) -> float:
    given = next((headers[name] for name in _READ_SECONDS if name in headers), "")
    return float(given) if re.fullmatch(r"\d{1,6}(\.\d{1,6})?", given) else 0.0


@dataclass(frozen=True, slots=True)
class RequestLine:
    """The line on which one request came.

    :param name: equal for the requests of one conversation that come over one connection of a caller; empty if the next
        request on it may be another caller's: that of a call without a conversation, or of a proxy.
    :param arrived: seconds of a monotonic clock.
    """

    name: str
    arrived: float


def request_line(request: WebRequest, conversation: str, now: float) -> RequestLine:
    """Return the line of a request.

    :param conversation: the name that its caller gave; empty = none.
    """
    is_own = bool(conversation and request.connection) and not _MARKS_OF_PROXIES & request.headers.keys()
    return RequestLine(f"{request.connection} {conversation}" if is_own else "", now)


def may_wait_for(ended: float, arrived: float, now: float, read_seconds: float) -> bool:
    """Return true if an SDK whose response is lost without a sign would repeat the request now: after it has waited for
    ``read_seconds``.

    :param ended: when the response was sent; ``arrived``: when its request came.
    """
    return 0 < read_seconds <= now - arrived and now - ended < read_seconds + PAUSE_SECONDS


class LostResponses:
    """The newest requests whose response is lost, or may be: a retry belongs to one of these.

    A response is lost when its caller left, or got 503 or 504. One that was sent may still be lost in a proxy or in the
    network, until its line brings another request: a caller sends that only after he has read the response.
    """

    def __init__(self) -> None:
        self._by_digest: OrderedDict[str, tuple[str, float]] = OrderedDict()
        self._unconfirmed: OrderedDict[str, tuple[str, float, float]] = (
            OrderedDict()
        )  # line → event id, time of the response, time of the request

    def add(self, event_id: str, now: float) -> None:
        """Record that the answer to this message did not reach its caller."""
        message_id, _, digest = event_id.rpartition(":")
        self._by_digest[digest] = message_id, now
        self._by_digest.move_to_end(digest)
        while len(self._by_digest) > _LOST:
            self._by_digest.popitem(last=False)

    def find(
        self, digest: str, now: float, read_seconds: float = 0.0, lost_seconds: float = UNCONFIRMED_SECONDS
    ) -> str:
        """Return the message id of such a request; empty if there is none.

        :param read_seconds: of the retry (:class:`RequestIds`), as ``lost_seconds``.
        """
        message_id, since = self._by_digest.get(digest, ("", 0.0))
        if message_id and now - since < RETRY_SECONDS:
            return message_id
        for event_id, since, arrived in reversed(self._unconfirmed.values()):
            message_id, _, sent = event_id.rpartition(":")
            is_recent = now - since < lost_seconds
            if sent == digest and (is_recent or may_wait_for(since, arrived, now, read_seconds)):
                return message_id
            if now - since >= RETRY_SECONDS:
                break
        return ""

    def sent(self, event_id: str, line: str, now: float, arrived: float | None = None) -> bool:
        """Record that the answer to this message was sent on a line; on an empty one it is delivered.

        :param arrived: when its request came; None = now.
        :returns: true if it was lost before.
        """
        message_id, _, digest = event_id.rpartition(":")
        was_lost = self._by_digest.get(digest, ("", 0.0))[0] == message_id
        if was_lost:
            del self._by_digest[digest]
        self.confirm(line)
        if line:
            self._unconfirmed[line] = event_id, now, now if arrived is None else arrived
        while len(self._unconfirmed) > _UNCONFIRMED:
            self._unconfirmed.popitem(last=False)
        return was_lost

    def confirm(self, line: str) -> None:
        """Forget the response that was sent on a line: it was read."""
        self._unconfirmed.pop(line, None)
