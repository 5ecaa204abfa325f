"""Secrets recognised by their shape: what is masked, what stays, and the time it takes.

``secret_examples.jsonl`` has random examples that fit the rules of a public scanner (gitleaks, MIT), up to three for a
rule: a shell variable, JSON, an assignment to the issuer's name; or the token in a sentence, JSON, a command line. No
pattern was written from a rule marked ``held-out``. Rules for public identifiers (client ids) are left out. The sets
``kinds`` and ``kinds-held-out`` have invented values of kinds that the scanner does not know: keys of further vendors,
files of Docker, npm, Kubernetes and WireGuard, command lines, headers with parameters. The second was written before
the patterns.
"""

import json
import random
import re
import string
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


@pytest.mark.parametrize(
    ("which", "rules", "floor"),
    [("build", 90, 0.97), ("held-out", 90, 0.75), ("kinds", 25, 1.0), ("kinds-held-out", 20, 0.95)],
)
def test_keys_of_many_kinds_are_masked(which: str, rules: int, floor: float) -> None:
    examples = [example for example in EXAMPLES if example["set"] == which]

    assert len({example["rule"] for example in examples}) >= rules
    assert sum(map(is_hidden, examples)) / len(examples) >= floor


_HEX, _LOWER = "0123456789abcdef", string.ascii_lowercase + string.digits
_ALNUM = string.ascii_letters + string.digits
_WRITTEN = (
    "used {} for the upload", '{{"value": "{}", "user": "ann"}}', "$ cli login {}\nok", "export X={}", "token is {}",
    "密钥是{}，请保存", "curl -H 'X-Foo: {}' https://x.example", "{}",
)  # fmt: skip
_RANDOM_KINDS: dict[str, tuple[str, ...]] = {  # a text with %, and the alphabet and length of each part
    "pinecone": ("pcsk_%_%", _ALNUM, "6", _ALNUM, "63"),
    "elevenlabs": ("sk_%", _HEX, "48"),
    "baidu": ("bce-v3/ALTAK-%/%", _ALNUM, "21", _HEX, "40"),
    "zhipu": ("%.%", _HEX, "32", _ALNUM, "16"),
    "wandb": ("wandb_v1_%", _ALNUM + "_", "77"),
    "llamacloud": ("llx-%", _ALNUM, "48"),
    "gitlab": ("GR1348941%", _ALNUM + "-_", "20"),
    "vercel": ("vercel_blob_rw_%_%", _ALNUM, "16", _ALNUM, "30"),
    "ntfy": ("tk_%", _LOWER, "29"),
    "composio": ("ak_%", _ALNUM, "20"),
    "mem0": ("m0-%", _ALNUM, "40"),
    "okta": ("SSWS 00%", _ALNUM + "-_", "40"),
    "serverchan": ("https://sctapi.ftqq.com/SCT%T%.send", string.digits, "6", _ALNUM, "25"),
}


@pytest.mark.parametrize("kind", _RANDOM_KINDS)
def test_random_keys_of_a_kind_are_masked_wherever_they_are_written(kind: str) -> None:
    """A key that has few digits by chance may look like a name; so not all of them."""
    source, (shape, *parts) = random.Random(7), _RANDOM_KINDS[kind]
    hidden = 0
    for number in range(160):
        secret = shape
        for alphabet, length in zip(parts[::2], parts[1::2], strict=True):
            secret = secret.replace("%", "".join(source.choices(alphabet, k=int(length))), 1)
        shown = redact(_WRITTEN[number % len(_WRITTEN)].format(secret))
        last = secret.split(" ")[-1].removesuffix(".send")
        hidden += last[len(last) // 2 :] not in shown

    assert hidden / 160 >= 0.9


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
        ('Authorization: Digest username="ann", response="0a1b"\nDate: now', "Authorization: ***\nDate: now"),
        ('{"Authorization": "Digest username=\\"ann\\", response=\\"0a\\"", "n": 1}', '{"Authorization": "***", "n": 1}'),
        ('{"authorization": "dG9rZW4x=","model":"m"}', '{"authorization": "***","model":"m"}'),
        ('Cookie: theme="a b"; sid=abc123\nHost: x', "Cookie: ***\nHost: x"),
        ('{"ghcr.io": {"auth": "YW5uOmh1bnRlcjI="}}', '{"ghcr.io": {"auth": "***"}}'),
        ("//npm.example.com/:_auth=YW5uOmh1bnRlcjI=", "//npm.example.com/:_auth=***"),
        ("docker login ghcr.io -p hunter2 -u ann", "docker login ghcr.io -p *** -u ann"),
        ("redis-cli -h x -a hunter2 ping", "redis-cli -h x -a *** ping"),
        ("mysql -u root -phunter2 shop", "mysql -u root -p*** shop"),
        ("curl --user 'ann:correct horse' x", "curl --user 'ann:***' x"),
        ("PresharedKey = hunter2\nPort = 1", "PresharedKey = ***\nPort = 1"),
        ("https://sctapi.ftqq.com/SCT1234T" + RANDOM + ".send", "https://sctapi.ftqq.com/***.send"),
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
        '"auth": "required", auth: oauthClient2, auth=(user, name)',
        "gh auth login -p https && docker login -u ann -p $PASSWORD ghcr.io",
        "redis-cli -h cache -p 6379 INFO; curl -U x https://a:8080",
        "client-certificate-data: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUM=",
        "d41d8cd98f00b204e9800998ecf8427e.integrationtests",
        "0012ab34cd56ef7890ab12cd34ef567890abcdef, task_4f9a2b8c7d6e5f4a3b2c1d0e, disk-1a2b3c4d5e6f7a8b9c0d1e2f",
        "sk_learn_model_selection, pat-with-a-long-name-2, m0-base-model-name-for-tests",
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
        'Authorization: Digest a="b", ',
        "a=b,",
        "auth=YTpi",
        "docker login -",
        "redis-cli -a",
        "curl -u a:",
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
