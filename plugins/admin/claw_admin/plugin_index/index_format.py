"""The file format of an index of plugins: what their manifests say, as one static JSON document.

Beside it lies its signature: Ed25519 (RFC 8032) over the bytes of the file, in base64, in ``NAME.sig``. A reader has the
public key, the 32 bytes in base64, from whoever publishes the index.
"""

import base64
import binascii
from collections.abc import Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from claw import ClawError, UsageError
from claw.runtime import InstalledPlugin, definition_tokens

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric import ed25519

SIGNATURE_SUFFIX = ".sig"
MOST_BYTES = 8 << 20
Names = tuple[str, ...]


class IndexedTool(msgspec.Struct, frozen=True, rename="camel"):
    """A tool of a plugin."""

    name: str
    optional: bool = False
    owner_only: bool = False


class IndexedPlugin(msgspec.Struct, frozen=True, rename="camel"):
    """A plugin: its manifest, without what only a run needs. A reader ignores fields that it does not know.

    :param api: the range of the plugin API that it was made for.
    :param tool_tokens: estimated cost of its tools in each request.
    :param capabilities: what it says that it touches.
    """

    id: str
    distribution: str
    version: str
    description: str = ""
    api: str = ""
    kinds: Names = ()
    tools: tuple[IndexedTool, ...] = ()
    tool_tokens: int = 0
    channels: Names = ()
    providers: Names = ()
    commands: Names = ()
    capabilities: dict[str, Any] = {}


class PluginIndex(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """An index, in order of plugin id."""

    schema_version: Literal[1] = 1
    kind: Literal["plugin-index"] = "plugin-index"
    plugins: tuple[IndexedPlugin, ...]


def index_of(plugins: Iterable[InstalledPlugin]) -> PluginIndex:
    """Return the index of plugins; those without a manifest, or with a faulty one, are left out."""
    entries = (_entry(one) for one in sorted(plugins, key=lambda one: one.id) if one.manifest)
    return PluginIndex(plugins=tuple(entries))


def _entry(found: InstalledPlugin) -> IndexedPlugin:
    manifest = found.declares
    return IndexedPlugin(
        found.id,
        found.distribution,
        found.version,
        manifest.description,
        manifest.api,
        tuple(manifest.kinds),
        tuple(IndexedTool(tool.name, tool.optional, tool.owner_only) for tool in manifest.tools),
        sum(definition_tokens(tool.name, tool.description, tool.parameters) for tool in manifest.tools),
        tuple(manifest.channels),
        tuple(line.name for line in manifest.providers),
        tuple(manifest.commands),
        dict(manifest.capabilities),
    )


def encode_index(index: PluginIndex) -> bytes:
    """Return the bytes of the file: the same index gives the same bytes."""
    return msgspec.json.format(msgspec.json.encode(index), indent=1) + b"\n"


def decode_index(data: bytes, place: str) -> PluginIndex:
    """Read an index.

    :param place: the file or address, for the error.
    :raises ClawError: it is no index.
    """
    try:
        return msgspec.json.decode(data, type=PluginIndex)
    except (msgspec.MsgspecError, ValueError) as why:
        raise ClawError("{place} is no index of plugins: {why}", place=place, why=why) from None


def sign(data: bytes, key_file: bytes) -> tuple[str, str]:
    """Return the signature and the public key, both in base64.

    :param key_file: a private Ed25519 key in PEM (``openssl genpkey -algorithm ed25519``), without a password.
    :raises UsageError: it is no such key.
    """
    serialization = _cryptography("serialization")
    try:
        key: ed25519.Ed25519PrivateKey = serialization.load_pem_private_key(key_file, password=None)
        signature, public = key.sign(data), key.public_key().public_bytes_raw()
    except (ValueError, TypeError, AttributeError):
        fix = "openssl genpkey -algorithm ed25519 -out index-key.pem makes one"
        raise UsageError("the file of the key holds no private Ed25519 key", fix=fix) from None
    return base64.b64encode(signature).decode(), base64.b64encode(public).decode()


def require_signature(data: bytes, signature: str, key: str, place: str) -> None:
    """Refuse an index that whoever has the private key did not sign.

    :param key: the public key, in base64.
    :raises ClawError: the signature does not fit.
    """
    public = _cryptography("asymmetric.ed25519").Ed25519PublicKey
    invalid = _cryptography("", "cryptography.exceptions").InvalidSignature
    try:
        public.from_public_bytes(base64.b64decode(key, validate=True)).verify(
            base64.b64decode(signature.strip(), validate=True), data
        )
    except (invalid, ValueError, binascii.Error):
        problem = "the signature of {place} does not fit pluginIndex.key, so the index is not used"
        fix = "ask whoever publishes the index for its key; claw plugins index prints it"
        raise ClawError(problem, fix=fix, place=place) from None


def _cryptography(name: str, package: str = "cryptography.hazmat.primitives") -> Any:
    try:
        return import_module(f"{package}.{name}".rstrip("."))
    except ImportError:
        problem = "signatures need the package cryptography, which is not installed"
        raise ClawError(problem, fix="claw plugins install cryptography") from None
