"""The errors that a caller reads: status, type and code by the cause, as OpenAI's API has them.

Facts from https://platform.openai.com/docs/guides/error-codes; the header ``x-should-retry`` from the SDKs, which
repeat 408, 409, 429 and 5xx without it (source of openai-python: the method that decides about a retry).
"""

import json
from collections.abc import Mapping
from typing import Any

NO_REPEAT = {"x-should-retry": "false"}
"""For the end of a turn: its tools may have run, and a repeated request would read this same end."""
REPEAT_SECONDS = 3
STOPPING = "stopping"

_SERVER, _INVALID = "server_error", "invalid_request_error"
_BY_REASON = {
    "rate_limit": (429, "rate_limit_error", "rate_limit_exceeded"),
    "budget": (429, "insufficient_quota", "insufficient_quota"),
    "overflow": (429, "rate_limit_error", "queue_full"),
    "context_overflow": (400, _INVALID, "context_length_exceeded"),
    "request_too_large": (400, _INVALID, "request_too_large"),
    "bad_request": (400, _INVALID, "model_bad_request"),
    "overloaded": (503, _SERVER, "model_overloaded"),
    "timeout": (504, _SERVER, "model_timeout"),
    "machine": (503, _SERVER, "out_of_resources"),
    "error": (500, _SERVER, "turn_failed"),
    "unknown": (500, _SERVER, "turn_failed"),
}
"""By the reason of a failure; the others are the model service's: 502, with a code of ``model_`` and the reason."""
_BY_OUTCOME = {
    "stopped": (409, _INVALID, "stopped", "the turn was stopped (/stop)"),
    "interrupted": (409, _INVALID, "interrupted", "a newer message of this conversation took its place"),
    "merged": (409, _INVALID, "merged", "it was answered together with a later message of this conversation"),
    "filtered": (403, "permission_error", "filtered", "a filter dropped the message"),
    "refused": (403, "permission_error", "channel_closed", "the message was not admitted"),
    "overflow": (429, "rate_limit_error", "queue_full", "too many messages wait in this conversation"),
    "failed": (500, _SERVER, "turn_failed", "the turn failed; claw's log has the cause"),
}


class BadRequest(Exception):
    """A request that is answered with an error.

    :param kind: the ``type`` of the error, in OpenAI's words; ``param`` the field it is about.
    """

    def __init__(
        self,
        status: int,
        message: str,
        kind: str = "invalid_request_error",
        *,
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.kind, self.param, self.code = status, kind, param, code
        self.headers = dict(headers or {})

    @property
    def body(self) -> bytes:
        """The error as the body of a response."""
        return encoded({"error": self.error_object})

    @property
    def error_object(self) -> dict[str, Any]:
        """The error object."""
        return {"message": str(self), "type": self.kind, "param": self.param, "code": self.code}


def encoded(plain: Any) -> bytes:
    """Encode to JSON."""
    return json.dumps(plain, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def failed_turn(reason: str, text: str) -> BadRequest:
    """Return the error for a turn that failed.

    :param reason: the ``stop_reason`` of its notice.
    :param text: the notice.
    """
    status, kind, code = _BY_REASON.get(reason, (502, _SERVER, f"model_{reason}"))
    return BadRequest(status, text, kind, code=code, headers=NO_REPEAT)


def no_answer(outcome: str) -> BadRequest:
    """Return the error for a message that ended without any reply."""
    status, kind, code, text = _BY_OUTCOME.get(outcome, _BY_OUTCOME["failed"])
    return BadRequest(status, text, kind, code=code, headers=NO_REPEAT)


def stopping() -> BadRequest:
    """Return the error for a call that claw's stop cuts off."""
    problem = "claw is stopping, the next start goes on with the turn: repeat the request to get its answer"
    headers = {"retry-after": str(REPEAT_SECONDS), "x-should-retry": "true"}
    return BadRequest(503, problem, _SERVER, code=STOPPING, headers=headers)


def not_accepted() -> BadRequest:
    """Return the error for a message that claw did not take: it may be sent again."""
    headers = {"retry-after": str(REPEAT_SECONDS), "x-should-retry": "true"}
    problem = "no messages are accepted just now: try again"
    return BadRequest(503, problem, _SERVER, code="not_accepted", headers=headers)


def still_running(seconds: float) -> BadRequest:
    """Return the error for a call that waited ``seconds`` for its turn."""
    problem = (
        f"no answer within {seconds:g} s (channels.http.answerSeconds); the turn continues: repeat the request "
        "to wait for its answer"
    )
    return BadRequest(504, problem, _SERVER, code="answer_timeout", headers={"x-should-retry": "true"})


def queue_full(waiting: int) -> BadRequest:
    """Return the error for a call to a conversation in which ``waiting`` calls wait already; nothing was begun."""
    problem = f"{waiting} requests wait in this conversation (queue.cap): try again later"
    headers = {"retry-after": str(REPEAT_SECONDS), "x-should-retry": "true"}
    return BadRequest(429, problem, "rate_limit_error", code="queue_full", headers=headers)


def key_of_other_request() -> BadRequest:
    """Return the error for an ``Idempotency-Key`` that another request had."""
    problem = "this Idempotency-Key was used with another request: take a new key"
    return BadRequest(422, problem, code="idempotency_key_reused")


def no_such_response(problem: str) -> BadRequest:
    """Return the error for a response that cannot be continued."""
    fix = "send the whole conversation as input"
    name = "previous_response_id"
    return BadRequest(400, f"{problem}: {fix}", param=name, code="previous_response_not_found")


def is_repeatable(why: BadRequest) -> bool:
    """Return true if a repeated request may get an answer in place of this error."""
    return why.headers.get("x-should-retry") == "true"
