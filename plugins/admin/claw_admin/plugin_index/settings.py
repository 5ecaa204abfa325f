"""``pluginIndex`` in the config file."""

import base64
import binascii
from typing import Self

from claw import Section
from claw.runtime import validation_error
from pydantic import model_validator


class PluginIndexSettings(Section):
    """An index of plugins of your own, beside claw's."""

    url: str = ""
    """Address (https) or file of the index; its signature is beside it, in NAME.sig."""
    key: str = ""
    """Public key of whoever signs it, as claw plugins index prints it."""

    @model_validator(mode="after")
    def _has_both(self) -> Self:
        if bool(self.url) != bool(self.key):
            fix = "Write both; claw plugins index prints the key"
            raise validation_error("an index needs its url and the key that it is signed with", fix)
        if self.key and not _is_key(self.key):
            fix = "Write the 32 bytes in base64, as claw plugins index prints them"
            raise validation_error("is no public key of Ed25519", fix, at=("key",))
        return self


def _is_key(text: str) -> bool:
    try:
        return len(base64.b64decode(text, validate=True)) == 32
    except binascii.Error:
        return False
