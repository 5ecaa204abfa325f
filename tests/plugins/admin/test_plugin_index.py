"""The index of plugins: searched by name, kind and tool; an index of one's own is used only when its signature fits."""

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import typer
from claw_admin.plugin_index.commands import index, search
from claw_admin.plugin_index.index_format import (
    IndexedPlugin,
    IndexedTool,
    PluginIndex,
    decode_index,
    encode_index,
)
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given, strategies as st
from typer.testing import CliRunner

app = typer.Typer()
app.command("search")(search)
app.command("index")(index)
TEXTS = st.text(max_size=20)
TOOLS = st.lists(st.builds(IndexedTool, TEXTS, st.booleans(), st.booleans()), max_size=3).map(tuple)
NAMES = st.lists(TEXTS, max_size=3).map(tuple)
PLUGINS = st.builds(
    IndexedPlugin,
    *(TEXTS, TEXTS, TEXTS, TEXTS, TEXTS, NAMES, TOOLS, st.integers(0, 2**40), NAMES, NAMES, NAMES),
    st.dictionaries(TEXTS, st.lists(TEXTS, max_size=2), max_size=2),
)


def claw(*words: str) -> Any:
    return CliRunner().invoke(app, words)


def found(*words: str) -> list[str]:
    return [one["distribution"] for one in json.loads(claw("search", "--json", *words).output)["plugins"]]


@pytest.fixture
def key(tmp_path: Path) -> Path:
    """A private key in a file."""
    return new_key(tmp_path / "index-key.pem")


def new_key(file: Path) -> Path:
    made = Ed25519PrivateKey.generate()
    pem, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    file.write_bytes(made.private_bytes(pem, form, serialization.NoEncryption()))
    return file


def signed(file: Path, key: Path, *packages: str) -> str:
    """Write an index; return its public key."""
    done = claw("index", str(file), *packages, "--key", str(key), "--json")
    assert done.exit_code == 0, done.output
    return str(json.loads(done.output)["key"])


def configure(home: Path, url: object, public: str) -> None:
    (home / "config.json").write_text(json.dumps({"pluginIndex": {"url": str(url), "key": public}}))


@pytest.mark.usefixtures("home")
class TestSearch:
    def test_all_words_must_be_there_and_those_with_one_in_their_name_come_first(self) -> None:
        assert found("telegram") == ["claw-telegram"]
        assert found("channel", "FEISHU") == ["claw-feishu"]
        assert found("openai")[0] == "claw-openai" and len(found("openai")) > 1

    @pytest.mark.parametrize(
        ("word", "distribution"),
        [
            ("acme_restart", "claw-plugin-acme"),
            ("sliding", "claw-plugin-sliding-window"),
            ("sandbox", "claw-sandbox"),
        ],
    )
    def test_a_tool_a_kind_or_an_example_is_found(self, word: str, distribution: str) -> None:
        assert distribution in found(word)

    def test_it_says_what_is_installed_and_how_to_install_the_rest(self) -> None:
        output = claw("search", "plugin").output
        assert "(claw plugins install claw-plugin-acme)" in output
        [telegram] = json.loads(claw("search", "telegram", "--json").output)["plugins"]
        assert (telegram["installed"], telegram["kinds"]) == (True, ["channel", "diagnostic"])

    def test_nothing_found_is_said_and_is_an_exit_code(self) -> None:
        done = claw("search", "nothing-like-it")
        assert (done.exit_code, done.output.strip()) == (1, "no plugin was found")


class TestAnIndexOfYourOwn:
    def test_it_is_read_beside_ours_and_takes_the_place_of_what_ours_says(
        self, home: Path, tmp_path: Path, key: Path
    ) -> None:
        file = tmp_path / "index.json"
        public = signed(file, key, "claw-telegram", "claw-openai")
        assert [one.id for one in decode_index(file.read_bytes(), "x").plugins] == ["openai", "telegram"]

        theirs = IndexedPlugin("ours", "acme-ours", "2", "Our \x1b[31mown\x1b[0m words.", kinds=("tool",))
        telegram = IndexedPlugin("telegram", "claw_telegram", "9.9", "A newer one.")
        public = replaced(file, key, PluginIndex(plugins=(theirs, telegram)))
        configure(home, file, public)

        assert found("ours") == ["acme-ours"]
        assert "\x1b" not in claw("search", "ours").output
        [listed] = json.loads(claw("search", "telegram", "--json").output)["plugins"]
        assert listed["version"] == "9.9"
        assert "claw-discord" in found("discord")

    def test_a_changed_byte_or_another_key_is_refused(self, home: Path, tmp_path: Path, key: Path) -> None:
        file = tmp_path / "index.json"
        public = signed(file, key, "claw-telegram")
        configure(home, file, public)
        file.write_bytes(file.read_bytes().replace(b"Telegram", b"Telegrim", 1))
        assert "does not fit pluginIndex.key" in str(claw("search", "telegram").exception)

        signed(file, new_key(tmp_path / "other.pem"), "claw-telegram")
        assert "does not fit pluginIndex.key" in str(claw("search", "telegram").exception)

    @pytest.mark.parametrize("signature", [b"", b"no base64 \xff", b"AAAA"])
    def test_what_is_no_signature_is_refused(
        self, home: Path, tmp_path: Path, key: Path, signature: bytes
    ) -> None:
        file = tmp_path / "index.json"
        configure(home, file, signed(file, key, "claw-telegram"))
        Path(f"{file}.sig").write_bytes(signature)
        assert "does not fit pluginIndex.key" in str(claw("search", "telegram").exception)
        Path(f"{file}.sig").unlink()
        assert f"{file}.sig cannot be read" in str(claw("search", "telegram").exception)

    @pytest.mark.parametrize(
        "body", [b"[]", b"{", b'{"plugins": [{"id": 5}]}', b'{"schemaVersion": 2, "plugins": []}']
    )
    def test_what_is_signed_and_no_index_is_refused(
        self, home: Path, tmp_path: Path, key: Path, body: bytes
    ) -> None:
        file = tmp_path / "index.json"
        configure(home, file, sign_bytes(file, key, body))
        assert f"{file} is no index of plugins" in str(claw("search", "telegram").exception)

    def test_it_is_fetched_from_an_address(self, home: Path, tmp_path: Path, key: Path) -> None:
        file = tmp_path / "index.json"
        public = replaced(file, key, PluginIndex(plugins=(IndexedPlugin("ours", "acme-ours", "2"),)))
        with serving(tmp_path) as address:
            configure(home, f"{address}/index.json", public)
            assert found("ours") == ["acme-ours"]
            configure(home, f"{address}/gone.json", public)
            assert "gone.json answered with HTTP 404" in str(claw("search", "ours").exception)
        assert "gone.json cannot be fetched" in str(claw("search", "ours").exception)

    @pytest.mark.parametrize(
        ("section", "problem"),
        [
            ({"url": "https://x.example/i.json"}, "needs its url and the key"),
            ({"key": "A" * 44}, "needs its url and the key"),
            ({"url": "https://x.example/i.json", "key": "abc"}, "no public key of Ed25519"),
            ({"url": "https://x.example/i.json", "key": "AAAA"}, "no public key of Ed25519"),
        ],
    )
    def test_settings_that_cannot_work_are_named(
        self, home: Path, section: dict[str, str], problem: str
    ) -> None:
        (home / "config.json").write_text(json.dumps({"pluginIndex": section}))
        assert problem in str(claw("search", "telegram").exception)

    def test_what_is_not_installed_or_no_key_is_named(self, home: Path, tmp_path: Path) -> None:
        file, no_key = tmp_path / "index.json", tmp_path / "key.pem"
        no_key.write_text("no key")
        assert "claw-nothing is not installed" in str(claw("index", str(file), "claw-nothing").exception)
        done = claw("index", str(file), "--key", str(no_key))
        assert "holds no private Ed25519 key" in str(done.exception)
        assert not file.exists()


@given(st.lists(PLUGINS, max_size=3).map(tuple))
def test_an_index_is_read_as_it_was_written(plugins: tuple[IndexedPlugin, ...]) -> None:
    made = PluginIndex(plugins=plugins)
    assert decode_index(encode_index(made), "x") == made
    assert encode_index(made) == encode_index(decode_index(encode_index(made), "x"))


def replaced(file: Path, key: Path, made: PluginIndex) -> str:
    return sign_bytes(file, key, encode_index(made))


def sign_bytes(file: Path, key: Path, data: bytes) -> str:
    """Write and sign a file as another program would; return the public key."""
    import base64

    private = serialization.load_pem_private_key(key.read_bytes(), None)
    assert isinstance(private, Ed25519PrivateKey)
    file.write_bytes(data)
    Path(f"{file}.sig").write_bytes(base64.b64encode(private.sign(data)))
    return base64.b64encode(private.public_key().public_bytes_raw()).decode()


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Serve the files of a folder on this machine."""

    class Files(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            file = folder / self.path.lstrip("/")
            self.send_response(200 if file.is_file() else 404)
            self.end_headers()
            self.wfile.write(file.read_bytes() if file.is_file() else b"")

        def log_message(self, *said: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Files)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
