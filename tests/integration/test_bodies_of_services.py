"""Failures in the body that a service really sends, through a whole turn: the class, the text, and one request."""

import json
from typing import Any

import claw_openai
import pytest
from claw.contracts.errors import ProviderError
from claw.testing import FakeProvider, Harness
from claw_testing.services import OpenAIService, ServiceReply


def whole(body: Any) -> ServiceReply:
    return ServiceReply(body=json.dumps(body).encode(), content_type="application/json")


def streamed(event: Any) -> ServiceReply:
    return ServiceReply(raw=b"data: " + json.dumps(event).encode() + b"\n\ndata: [DONE]\n\n")


POOR = {"base_resp": {"status_code": 1008, "status_msg": "insufficient balance"}}
LOGIN = {"id": "x", "choices": [], "base_resp": {"status_code": 1004, "status_msg": "login fail"}}
ALLOCATION = {"success": False, "errors": [{"code": 3036, "message": "used up your daily free allocation"}]}
EXPIRED = {
    "__type": "ExpiredTokenException",
    "message": "The security token included in the request is expired",
}
SIGNED = {"Response": {"Error": {"Code": "AuthFailure", "Message": "signature is expired"}, "RequestId": "x"}}
ROWS = [
    (whole(POOR), "billing", "insufficient balance"),
    (streamed(POOR), "billing", "insufficient balance"),
    (streamed(LOGIN), "auth", "login fail"),
    (ServiceReply(status=429, body=ALLOCATION), "billing", "daily free allocation"),
    (ServiceReply(status=403, body=EXPIRED), "auth", "is expired"),
    (whole(SIGNED), "auth", "signature is expired"),
    (whole({"error_code": 18, "error_msg": "qps request limit reached"}), "rate_limit", "qps request limit"),
]


@pytest.mark.parametrize(("reply", "reason", "text"), ROWS)
async def test_a_lasting_failure_is_classified_shown_and_not_repeated(
    reply: ServiceReply, reason: str, text: str
) -> None:
    async with OpenAIService(lambda request: reply) as service:
        section = {"type": "openai", "baseUrl": service.url, "apiKey": "sk-of-the-test-0001"}
        config = {"providers": {"toy": section}, "agents": {"defaults": {"model": "toy/m"}}}
        async with Harness(FakeProvider(), config=config, plugins={"openai": claw_openai}) as harness:
            with pytest.raises(ProviderError, match=text) as wrong:
                await harness.send("hi")
        assert (wrong.value.reason, len(service.requests)) == (reason, 1)
