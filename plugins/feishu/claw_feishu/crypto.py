"""Cryptography of the webhook: the signature over the raw body, and the decryption of its contents.

From the open platform's "encrypt key" page: signature = hex SHA-256 of timestamp + nonce + key + body; body =
AES-256-CBC with the SHA-256 of the key, the first 16 bytes being the initial vector, PKCS7 padding.
"""

import base64
import binascii
import hashlib
import hmac
import secrets

BLOCK = 16


class Undecipherable(Exception):
    """The text was not encrypted with this key."""


def signature(timestamp: str, nonce: str, key: str, body: bytes) -> str:
    """Return the expected value of the header ``X-Lark-Signature`` for this body."""
    return hashlib.sha256(f"{timestamp}{nonce}{key}".encode() + body).hexdigest()


def same(one: str, other: str) -> bool:
    """Compare two secrets in constant time; an empty one equals nothing. JSON text may hold lone surrogates."""
    first, second = (text.encode("utf-8", "surrogatepass") for text in (one, other))
    return bool(one and other) and hmac.compare_digest(first, second)


def decrypt(key: str, text: str) -> str:
    """Decrypt the text in ``{"encrypt": …}``.

    :raises Undecipherable: not base64, not whole blocks, wrong padding or no UTF-8: another key was used.
    """
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
    from cryptography.hazmat.primitives.padding import PKCS7

    try:
        raw = base64.b64decode(text, validate=True)
        opened = Cipher(algorithms.AES(_aes_key(key)), modes.CBC(raw[:BLOCK])).decryptor()
        padded = opened.update(raw[BLOCK:]) + opened.finalize()
        strip = PKCS7(BLOCK * 8).unpadder()
        return (strip.update(padded) + strip.finalize()).decode()
    except (binascii.Error, ValueError) as why:  # UnicodeDecodeError is a ValueError
        raise Undecipherable("it was encrypted with another key") from why


def encrypt(key: str, text: str, vector: bytes = b"") -> str:
    """Encrypt as the service does; for the fake."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
    from cryptography.hazmat.primitives.padding import PKCS7

    vector = vector or secrets.token_bytes(BLOCK)
    pad = PKCS7(BLOCK * 8).padder()
    padded = pad.update(text.encode()) + pad.finalize()
    closed = Cipher(algorithms.AES(_aes_key(key)), modes.CBC(vector)).encryptor()
    return base64.b64encode(vector + closed.update(padded) + closed.finalize()).decode()


def _aes_key(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()
