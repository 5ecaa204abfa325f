"""Redaction: what must never be shown, and what must stay readable."""

import base64
import json
import time

import pytest
from claw.security.redaction import Redactor, redact
from hypothesis import given, settings, strategies as st

PIECES = st.sampled_from([
    "token=", "token: ", '"apiKey": "', "password", "--token ", "://", "user:", "@", "Bearer ", "authorization: ", "sk-",
    "sk-abcdefghij0123456789", "eyJhbGciOiJIUzI1NiJ9.", "123456789:", "'", '"', "\\", "\n", "\n  ", ": |\n  ", " ", ",",
    "}", "]", "&", "a=b", "***", "${VAR}", "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", "\x1b[0m",
    "host", "密码是",
])  # fmt: skip
TEXTS = st.lists(PIECES | st.text(max_size=6), max_size=12).map("".join)
SECRETS = st.text(min_size=4, max_size=30).filter(lambda text: len(text.strip()) >= 4)


@given(before=TEXTS, secret=SECRETS, after=TEXTS)
@settings(max_examples=100, deadline=None)
def test_a_known_secret_is_in_no_result(before: str, secret: str, after: str) -> None:
    assert secret.strip() not in redact(before + secret + after, (secret,))


@given(text=TEXTS)
@settings(max_examples=150, deadline=None)
def test_what_was_redacted_stays_as_it_is(text: str) -> None:
    once = redact(text)
    assert redact(once) == once


@given(before=st.binary(max_size=5), after=st.binary(max_size=5))
@settings(max_examples=50, deadline=None)
def test_a_known_secret_is_found_inside_base64(before: bytes, after: bytes) -> None:
    shown = redact(
        base64.b64encode(before + b"correct-horse-battery" + after).decode(), ("correct-horse-battery",)
    )
    assert (
        "***" in shown and len(shown) <= 3 + 2 * 8 + 2
    )  # what is left codes the bytes round it, and their borders


@pytest.mark.parametrize("secret", ['with "quotes" and \\', "two\nlines", "a b/c?d", "密码很长的"])
def test_a_known_secret_is_found_escaped_too(secret: str) -> None:
    from urllib.parse import quote

    for spelled in (json.dumps(secret), json.dumps(secret, ensure_ascii=False)):
        assert spelled[1:-1] not in redact(f"<{spelled}>", (secret,))
    assert quote(secret, safe="") not in redact(f"x/{quote(secret, safe='')}", (secret,))


@pytest.mark.parametrize(
    "piece",
    ["token=", "token: ", 'token="', '\\"token\\": \\"', "://", "://a:b", "sk-", "eyJ", "mysql ", "curl -u a", "-", "x",
     "-----BEGIN PRIVATE KEY-----", "password: |\n  x\n", "1", "Maaaaaaaaaaaaaaaaaaaaaaaa.", "cookie:", "&key=",
     "machine h login u "],
)  # fmt: skip
def test_a_line_of_100_kb_is_quick_whatever_is_in_it(piece: str) -> None:
    line = (piece * 100_000)[:100_000]
    began = time.process_time()
    redact(line)
    assert time.process_time() - began < 1


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("client(token='abc', retries=3)", "client(token='***', retries=3)"),
        ('{"password": "a\\"b c", "user": "ann"}', '{"password": "***", "user": "ann"}'),
        ('{\\"token\\": \\"abc\\", \\"n\\": 1}', '{\\"token\\": \\"***\\", \\"n\\": 1}'),
        ("DB_PASS=hunter2,really", "DB_PASS=***"),
        ("/run?token=abc&user=ann", "/run?token=***&user=ann"),
        ("tool --api-key abc --verbose", "tool --api-key *** --verbose"),
        ('os.environ["TOKEN"] = "abc"', 'os.environ["TOKEN"] = "***"'),
        ("curl -u ann:hunter2 https://example.com", "curl -u ann:*** https://example.com"),
        ("token: str = 'abc'", "token: str = '***'"),
        ("Cookie: a=b; c=d\nAccept: */*", "Cookie: ***\nAccept: */*"),
        ("[(b'Authorization', b'Bearer abc')]", "[(b'Authorization', b'Bearer ***')]"),
        ("密码：hunter2，请记住", "密码：***"),
        ("postgres://ann:p@ss@db/x", "postgres://ann:***@db/x"),
        ("<password>hunter2</password>", "<password>***</password>"),
        ("machine h.example login ann password hunter2", "machine h.example login ann password ***"),
        ("machine h\n  login ann\n  password hunter2\n", "machine h\n  login ann\n  password ***\n"),
    ],
)
def test_only_the_value_is_masked(text: str, shown: str) -> None:
    assert redact(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "git@example.com:a/b.git", "http://localhost:8080/x@y", "the token was accepted", "tokens: 12", "token: null",
        '"token": {"env": "ACME_TOKEN"}', "a task-list-of-things-that-matter", "password=${DB_PASSWORD}", 'token: ""',
        "Basic understanding of the subject", "sha256:" + "a1" * 32, "key: value", "tokenizer=fast",
        "type `headers::authorization::Authorization<Bearer>` was not found",
    ],
)  # fmt: skip
def test_ordinary_text_stays(text: str) -> None:
    assert redact(text) == text


def test_patterns_of_the_operator_are_masked_too() -> None:
    assert Redactor(patterns=[r"ACME-\d+"])("order ACME-4711 came") == "order *** came"


def test_data_is_masked_by_the_names_of_its_keys() -> None:
    data = {
        "apiKey": "abc", "maxTokens": 4096, "authorization": ["Bearer x"], "password": 1234, "secret": {"env": "NAME"},
        "botToken": "${TOKEN}", "token": None, "nested": [{"client_secret": "abc", "text": "sk-abcdefghij0123456789"}],
    }  # fmt: skip
    assert Redactor().redact_data(data) == {
        "apiKey": "***", "maxTokens": 4096, "authorization": ["***"], "password": "***", "secret": {"env": "NAME"},
        "botToken": "${TOKEN}", "token": None, "nested": [{"client_secret": "***", "text": "***"}],
    }  # fmt: skip


def test_our_own_errors_about_a_secret_key_stay_readable() -> None:
    error = (
        "/h/config.yaml:5: providers.anthropic.apiKey: the environment variable ANTHROPIC_API_KEY is not set"
    )

    assert redact(error) == error
    for text in (
        "channels.telegram.botToken: is empty, so it is off",
        "channels.telegram.botToken: Telegram knows no bot with this token",
        "channels.telegram.accounts.work.botToken: Telegram 上没有使用这个令牌的机器人",
        "channels.feishu.appSecret：缺少",
        "channels.discord.token: a token of three parts is wanted",
    ):
        assert redact(text) == text
    assert redact("channels.feishu.appSecret: 天王盖地虎呀", ["天王盖地虎呀"]).endswith(": ***")
    for shown in (
        "providers.x.apiKey: hunter2 and",
        "db.password: correct horse",
        "apiKey: the lot",
        "providers.x.apiKey=the lot",
        "channels.x.token: Hunter2 and",
        "channels.x.token: hunterhunterhunterhunter and",
    ):
        assert "***" in redact(shown)


# --- what an agent says, piece by piece

KEYS = ("sk-live-4242424242", "sk-live-42xyz-99999", "hunter2hunter2", "密码是天王盖地虎呀")
SAID = Redactor(KEYS).answer_mask


def shown(text: str, *sizes: int) -> str:
    """Return the text that a person sees when it arrives in pieces of these sizes, repeated."""
    held, out, at, turn = "", [], 0, 0
    while at < len(text):
        piece, held = SAID.certain(held + text[at : at + sizes[turn % len(sizes)]])
        out.append(piece)
        at, turn = at + sizes[turn % len(sizes)], turn + 1
    return "".join((*out, SAID.masked(held)))


BITS = st.sampled_from(
    [*KEYS, *(key[:9] for key in KEYS), *(key[3:] for key in KEYS), "sk-", "s", "***", " ", "and"]
)
WORDS = st.lists(BITS | st.text(max_size=4), max_size=10).map("".join)


@given(WORDS, st.lists(st.integers(1, 7), min_size=1, max_size=4))
def test_no_known_secret_is_in_an_answer_however_it_is_cut(text: str, sizes: list[int]) -> None:
    said = shown(text, *sizes)

    assert not any(key in said for key in KEYS)
    assert said == SAID.masked(text)


@given(st.text(max_size=60), st.integers(1, 7))
def test_an_answer_without_a_secret_is_said_to_the_byte(text: str, size: int) -> None:
    assert shown(f"{text} sk-live-4242 hunter2 s", size) == f"{text} sk-live-4242 hunter2 s"


def test_only_what_may_still_become_a_secret_is_held_back() -> None:
    held = ""
    for chunk, expected in (
        ("The key is sk-live", "The key is "),
        ("ly", "sk-lively"),
        (" and sk-live-42", " and "),
        ("xyz-99999.", "***."),
    ):
        piece, held = SAID.certain(held + chunk)
        assert piece == expected


def test_a_secret_is_masked_in_an_answer_as_it_may_be_written() -> None:
    assert (
        SAID.masked(base64.b64encode(b"hunter2hunter2").decode())
        != base64.b64encode(b"hunter2hunter2").decode()
    )


@pytest.mark.parametrize("word", ["ollama", "EMPTY", "none", "placeholder", "password"])
def test_a_word_that_is_where_no_key_is_needed_does_not_vanish_from_answers(word: str) -> None:
    redactor = Redactor([word])

    assert redactor.answer_mask.masked(f"Use {word} here.") == f"Use {word} here."
    assert redactor(f"log: {word}") == "log: ***"


def test_what_merely_looks_like_a_key_stays_in_an_answer() -> None:
    text = "A key looks like sk-abcdefghij0123456789, or token=abcdef1234567890."

    assert SAID.masked(text) == text


def test_a_secret_learnt_later_is_masked_from_then_on() -> None:
    redactor = Redactor()
    redactor.add_values(["sk-of-an-agent-1"])

    assert redactor.answer_mask.masked("It is sk-of-an-agent-1.") == "It is ***."


@pytest.mark.parametrize(
    "error",
    [
        "config.yaml:4: mcpServers.ev.headers.Authorization: the environment variable EVTOK is not set. Set EVTOK",
        "config.yaml:4: mcpServers.ev.headers.Cookie: the environment variable EVTOK is not set. Set EVTOK",
        "config.yaml:9: mcpServers.ev.env.API_TOKEN: the secret file /x cannot be read. Check the path",
        "config.yaml:4: mcpServers.ev.headers.Authorization: 环境变量 EVTOK 没有设置",
    ],
)
def test_an_error_about_a_key_of_a_plugin_stays_readable(error: str) -> None:
    assert redact(error) == error


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a.headers.Authorization: Basic dXNlcjpwYXNzd29yZA==", "a.headers.Authorization: Basic ***"),
        ("x.y.headers.Authorization: Bearer abc def", "x.y.headers.Authorization: Bearer *** def"),
        ("x.y.headers.Cookie: id=abc; theme=dark", "x.y.headers.Cookie: ***"),
        ("x.y.env.API_TOKEN: hunter2 and more", "x.y.env.API_TOKEN: *** and more"),
    ],
)
def test_a_value_of_a_dotted_key_is_masked(text: str, shown: str) -> None:
    assert redact(text) == shown
