"""Classification of failed model calls, beyond the error bodies among the wire fixtures."""

import json

import pytest
from claw_provider_sdk.errors import failure_said, reason_of, retry_after
from hypothesis import given, strategies as st

NOW = 1_781_534_000.0


@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (400, {"object": "error", "message": "maximum context length is 4096 tokens", "code": 400}, "context_overflow"),
        (400, {"error": {"message": "Invalid value for max_tokens"}}, "bad_request"),
        (400, {"type": "error", "error": {"message": "Your credit balance is too low to access the API"}}, "billing"),
        (402, {}, "billing"),
        (403, "<html><body>Forbidden</body></html>", "permission"),
        (404, "404 page not found", "model_not_found"),
        (405, {"detail": "Method Not Allowed"}, "bad_request"),
        (404, {"error": {"message": "model 'x' not found", "type": "not_found_error"}}, "model_not_found"),
        (408, "", "timeout"),
        (422, {"detail": [{"msg": "field required"}]}, "bad_request"),
        (429, {"error": {"message": "prompt is too long for tokens per minute"}}, "rate_limit"),
        (500, "upstream exploded", "server"),
        (502, "<html><title>502 Bad Gateway</title></html>", "server"),
        (200, {"error": {"code": 429, "message": "slow down"}}, "rate_limit"),
        (200, {"error": {"code": "502", "message": "upstream"}}, "server"),
        (200, {"error": "something"}, "unknown"),
        (None, None, "unknown"),
    ],
)  # fmt: skip
def test_an_error_body_of_any_form_has_a_reason(status, body, reason):
    error = failure_said("acme/m", body, status=status)

    assert error.reason == reason
    assert "<html" not in str(error)
    assert str(error).startswith("acme/m: ")


@pytest.mark.parametrize(
    ("status", "text", "reason", "again"),
    [
        (409, "another request is under way", "unknown", True),
        (409, "insufficient credits", "billing", False),
        (418, "I am a teapot", "bad_request", False),
        (
            500,
            "image input is not supported - hint: you may need to provide the mmproj",
            "bad_request",
            False,
        ),
    ],
)
def test_whether_another_try_may_help_is_reported_with_the_reason(status, text, reason, again):
    error = failure_said("acme/m", {"error": {"message": text}}, status=status)

    assert (error.reason, error.retryable) == (reason, again)


def test_an_essay_about_money_is_no_bill():
    assert reason_of(500, "api_error", "story: " + "insufficient balance " * 200) == "server"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "17"}, 17.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after": "3", "retry-after-ms": "2612"}, 2.612),
        ({"retry-after": "Mon, 15 Jun 2026 14:34:20 GMT"}, 60.0),
        ({"retry-after": "Mon, 15 Jun 2020 14:34:20 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "1e999"}, None),
        ({"retry-after-ms": "nan"}, None),
    ],
)
def test_the_time_to_wait_is_read_in_all_its_forms(headers, seconds):
    assert retry_after(headers, NOW) == seconds


def test_a_long_error_is_shortened():
    assert (
        len(str(failure_said("acme/m", {"error": {"message": json.dumps(["x"] * 9999)}}, status=400))) < 500
    )


@pytest.mark.parametrize(
    ("status", "body", "is_the_address"),
    [
        (404, "404 page not found", True),
        (404, "<!doctype html><html>nothing here</html>", True),
        (404, "", True),
        (404, {"detail": "Not Found"}, True),
        (404, {"error": {"message": "Invalid URL (POST /v1/v1/chat/completions)"}}, True),
        (404, {"error": {"message": "Unknown request URL: POST /openai/chat/completions."}}, True),
        (404, {"error": {"code": 404, "message": "File Not Found", "type": "not_found_error"}}, True),
        (404, {"error": {"code": "404", "message": "Resource not found"}}, True),
        (405, {"detail": "Method Not Allowed"}, True),
        (
            404,
            {"code": 5, "error": "url.not_found", "message": "没找到对象", "url": "/chat/completions"},
            True,
        ),
        (
            404,
            {"code": "not_found", "message": "The requested URL was not found on the server.", "status": 404},
            True,
        ),
        (404, {"error": {"message": "The model `x` does not exist", "code": "model_not_found"}}, False),
        (404, {"error": {"message": 'model "x" not found, try pulling it first'}}, False),
        (404, {"type": "error", "error": {"type": "not_found_error", "message": "model: claude-9"}}, False),
        (404, {"error": {"message": "No endpoints found for x"}}, False),
        (400, {"error": {"message": "Invalid URL in image_url"}}, False),
    ],
)
def test_an_address_that_a_service_does_not_know_is_distinguished_from_a_model(status, body, is_the_address):
    problem = str(failure_said("gate/x", body, status=status))

    assert ("does not know this address" in problem and "providers.gate.baseUrl" in problem) is is_the_address


@given(st.text(max_size=300))
def test_whatever_a_service_says_of_a_404_is_one_error(text):
    assert failure_said("gate/x", {"error": {"message": text}}, status=404).where == "gate/x"
