"""The ids of a request: equal for its repetitions, so that its turn runs once. Pure.

A repetition is recognised by its ``Idempotency-Key``, or by the header ``x-stainless-retry-count`` of OpenAI's SDKs,
which send the same bytes again. The event id of a message, ``MESSAGE_ID:DIGEST``, keeps both in the journal.
"""

import hashlib
import uuid
from collections import OrderedDict
from dataclasses import dataclass

from claw_channel_sdk import WebRequest

from claw_http.failures import BadRequest

KEY_CHARS = 255
RETRY_SECONDS = 900.0
"""Time after a lost response in which a retry without a key finds its turn."""
UNCONFIRMED_SECONDS = 30.0
"""The same after a response that was sent: it may be lost on its way. OpenAI's SDKs wait up to 8 s before a retry."""
_LOST = _UNCONFIRMED = 1024  # maximum number of remembered responses


@dataclass(frozen=True, slots=True)
class RequestIds:
    """The ids of one request.

    :param message_id: derived from the key; new for a request without one.
    :param digest: of path and body.
    :param keyed: an ``Idempotency-Key`` was sent.
    :param is_retry: the SDK says that it sent this request before.
    """

    message_id: str
    digest: str
    keyed: bool
    is_retry: bool

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
        return RequestIds(f"{head}{uuid.uuid4().hex}", digest, False, count.isdigit() and int(count) > 0)
    if not 0 < len(key.strip()) <= KEY_CHARS:
        problem = f"an Idempotency-Key has 1 to {KEY_CHARS} characters"
        raise BadRequest(400, problem, param="Idempotency-Key", code="invalid_idempotency_key")
    return RequestIds(f"{head}{hashlib.sha256(key.strip().encode()).hexdigest()[:32]}", digest, True, False)


class LostResponses:
    """The newest requests whose response is lost, or may be: a retry belongs to one of these.

    A response is lost when its caller left, or got 503 or 504. One that was sent may still be lost in a proxy or in the
    network, until its connection brings another request: a caller sends that only after he has read the response.
    """

    def __init__(self) -> None:
        self._by_digest: OrderedDict[str, tuple[str, float]] = OrderedDict()
        self._unconfirmed: OrderedDict[str, tuple[str, float]] = OrderedDict()  # connection → event id, time

    def add(self, event_id: str, now: float) -> None:
        """Record that the answer to this message did not reach its caller."""
        message_id, _, digest = event_id.rpartition(":")
        self._by_digest[digest] = message_id, now
        self._by_digest.move_to_end(digest)
        while len(self._by_digest) > _LOST:
            self._by_digest.popitem(last=False)

    def find(self, digest: str, now: float) -> str:
        """Return the message id of such a request; empty if there is none."""
        message_id, since = self._by_digest.get(digest, ("", 0.0))
        if message_id and now - since < RETRY_SECONDS:
            return message_id
        for event_id, since in reversed(self._unconfirmed.values()):
            message_id, _, sent = event_id.rpartition(":")
            if now - since >= UNCONFIRMED_SECONDS:
                break
            if sent == digest:
                return message_id
        return ""

    def sent(self, event_id: str, connection: str, now: float) -> None:
        """Record that the answer to this message was sent over a connection; with an unknown one it is delivered."""
        message_id, _, digest = event_id.rpartition(":")
        if self._by_digest.get(digest, ("", 0.0))[0] == message_id:
            del self._by_digest[digest]
        self.confirm(connection)
        if connection:
            self._unconfirmed[connection] = event_id, now
        while len(self._unconfirmed) > _UNCONFIRMED:
            self._unconfirmed.popitem(last=False)

    def confirm(self, connection: str) -> None:
        """Forget the response that was sent over a connection: it was read."""
        self._unconfirmed.pop(connection, None)
