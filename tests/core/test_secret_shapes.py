"""Secrets recognised by their shape: what is masked, what stays, and the time it takes.

``secret_examples.jsonl`` has random examples that fit the rules of a public scanner (gitleaks, MIT), up to three for a
rule: a shell variable, JSON, an assignment to the issuer's name; or the token in a sentence, JSON, a command line. No
pattern was written from a rule marked ``held-out``. Rules for public identifiers (client ids) are left out.
"""

import json
import re
import time
import uuid
from pathlib import Path

import pytest
from claw.security.redaction import redact
from claw.security.secret_patterns import mask_patterns
from hypothesis import given, settings, strategies as st

ROOT = Path(__file__).parents[2]
EXAMPLES = [
    json.loads(line)
    for line in (ROOT / "tests/core/secret_examples.jsonl").read_text(encoding="utf-8").splitlines()
]
SHAPES = json.loads((ROOT / "core/claw/security/secret_shapes.json").read_text(encoding="utf-8"))
HEADS = [head for heads, _ in SHAPES["prefixed"].values() for head in heads]
PARTS = [part for part, _ in SHAPES["other"].values()]
NAMES_A_SECRET = re.compile(
    r"(?i)key|token|secret|passw|passcode|pwd|authorization|cookie|credential|://|[密口令]"
)
RANDOM = "q7Xw2Lr9Tz4Kd8Vb3Nf6Hs1Jm5Pc0Yg"


def is_hidden(example: dict[str, str]) -> bool:
    shown, secret = redact(example["text"]), example["secret"]
    return secret[len(secret) // 2 :] not in shown


@pytest.mark.parametrize(("which", "floor"), [("build", 0.97), ("held-out", 0.75)])
def test_keys_of_a_public_scanners_rules_are_masked(which: str, floor: float) -> None:
    examples = [example for example in EXAMPLES if example["set"] == which]

    assert len({example["rule"] for example in examples}) >= 90
    assert sum(map(is_hidden, examples)) / len(examples) >= floor


def test_at_least_120_kinds_of_tokens_are_known_by_shape() -> None:
    assert len(SHAPES["prefixed"]) + len(SHAPES["other"]) >= 120


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://api.telegram.org/bot123456789:AAH-abcdefghijklmnopqrstuvwxyz01234/getMe", "https://api.telegram.org/bot***/getMe"),
        ("https://discord.com/api/webhooks/123456789012345678/" + RANDOM * 2, "https://discord.com/api/webhooks/***"),
        ("https://open.feishu.cn/open-apis/bot/v2/hook/8f14e45f-ceea-167a-5a36-dedd4bea2543", "https://open.feishu.cn/open-apis/bot/v2/hook/***"),
        ("Set-Cookie: session=abc; Path=/; HttpOnly\nDate: now", "Set-Cookie: ***\nDate: now"),
        ("https://x.example/a?X-Amz-Expires=60&X-Amz-Signature=0123456789abcdef", "https://x.example/a?X-Amz-Expires=60&X-Amz-Signature=***"),
        ("https://x.example/a?se=2026&sig=abc%2Fdef012345", "https://x.example/a?se=2026&sig=***"),
        ("https://s.example/a?Expires=1&GoogleAccessId=a&Signature=AbC123%2Bx", "https://s.example/a?Expires=1&GoogleAccessId=a&Signature=***"),
        ('<add key="ApiPassword" value="correct horse" />', '<add key="ApiPassword" value="***" />'),
        ("ALGOLIA=" + RANDOM, "ALGOLIA=***"),
        ("client_secret_key: " + RANDOM, "client_secret_key: ***"),
    ],
)  # fmt: skip
def test_only_the_secret_part_is_masked(text: str, shown: str) -> None:
    assert redact(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "toolu_01A09q90qw90lq917835lq9",
        "call_9x2VbN7kLm3QpR5tYw8Zc1Df and chatcmpl-9x2VbN7kLm3QpR5tYw8Zc1Df",
        "req_011CSSdA5fqJCVm1m4XMjNks, msg_013Zva2CMHLNnjNjJKqJ2EF",
        "org-VDAWofJASuLH0vVz8o9tiQZr",
        "sha256:" + "a1" * 32,
        "commit b58d3f102cf3a2c84cb7f923d05c25c9b1aede6a",
        "image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk",
        "v1.22.333-rc4+build.20261123T0401Z",
        "discord_message_id=1304881234567890123",
        "telegram_file_id: 'AgACAgIAAxkBAAIBY2Zk1aB2c3D4e5F6'",
        "mailgun-2026-11-23-nightly-build.log",
        "google_commit = '9f8e7d6c5b4a39281706f5e4d3c2b1a098765432'",
        "k8s-node-7f9d-pool-3.internal",
        "lark: the bird that sings at 5am over 12 fields",
        "https://example.com/webhooks/incoming",
        "pk.json and sk.json.lock, the pat. of 3 people",
    ],
)
def test_identifiers_and_hashes_stay(text: str) -> None:
    assert redact(text) == text


def test_source_code_is_masked_only_where_it_names_a_secret() -> None:
    lines = (
        line
        for path in (ROOT / "core").rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
    )

    assert [line for line in lines if not NAMES_A_SECRET.search(line) and mask_patterns(line) != line] == []


@given(st.uuids(), st.binary(min_size=20, max_size=32))
@settings(max_examples=200, deadline=None)
def test_uuids_and_digests_stay(number: uuid.UUID, digest: bytes) -> None:
    for text in (str(number), f'"id": "{number}"', digest.hex(), f"sha1: {digest.hex()}"):
        assert redact(text) == text


def test_the_time_grows_with_the_length_of_the_text_whatever_is_in_it() -> None:
    slow = {}
    for piece in {
        *HEADS,
        *PARTS,
        *(head + RANDOM for head in HEADS[::8]),
        *(f"{head}{RANDOM}." for head in HEADS[::8]),
    }:
        short, long = (min(seconds(piece, size) for _ in range(3)) for size in (8_000, 32_000))
        if long > 8 * short + 0.02:  # 4 times the text; a square would take 16 times
            slow[piece] = (short, long)
    assert slow == {}


def seconds(piece: str, size: int) -> float:
    text = (piece * size)[:size]
    began = time.process_time()
    mask_patterns(text)
    return time.process_time() - began
