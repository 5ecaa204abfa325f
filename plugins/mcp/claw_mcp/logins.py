"""The logins of the operator at remote servers: a private file for each server, with its tokens."""

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from claw import ClawError
from claw.runtime import make_folder, replace_file

LOGINS = "logins"
"""The folder of these files, in the folder of this plugin."""
_SECRETS = (("tokens", "access_token"), ("tokens", "refresh_token"), ("client", "client_secret"))


class LoginNeeded(ClawError):
    """A server answered 401, and only a person can change that."""


class LoginFile:
    """The login at one server, readable by us only.

    :param url: address of the server: a login at another address is none.
    :param learn: masks secrets from now on.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        url: str = "",
        learn: Callable[[Iterable[str]], None] = lambda secrets: None,
    ) -> None:
        self.path, self._url, self._learn = folder / f"{name}.json", url, learn

    def read(self) -> dict[str, Any]:
        """Return the login, and mask its secrets: ``client``, ``tokens``, ``expires_at`` (seconds since 1970) and the
        metadata ``resource`` and ``issuer``. Empty when there is none.
        """
        try:
            tree = json.loads(self.path.read_text(encoding="utf-8"))
            if tree["url"] != self._url:
                return {}
        except (OSError, ValueError, KeyError, TypeError):
            return {}
        self._learn(_secrets(tree))
        return dict(tree)

    @property
    def version(self) -> int:
        """A number that changes with each write; 0 = there is no file."""
        try:
            return self.path.stat().st_mtime_ns
        except OSError:
            return 0

    def write(self, login: Mapping[str, Any]) -> None:
        """Replace the login durably, and mask its secrets."""
        self._learn(_secrets(login))
        make_folder(self.path.parent)
        replace_file(self.path, json.dumps({"url": self._url, **login}).encode())

    def remove(self) -> bool:
        """Remove the login; return false if there was none."""
        was_there = self.path.exists()
        for path in (self.path, self.lock):
            path.unlink(missing_ok=True)
        return was_there

    @property
    def lock(self) -> Path:
        """The file whose lock is held while the tokens are renewed: a refresh token may work once."""
        return self.path.with_suffix(".lock")


def _secrets(tree: Mapping[str, Any]) -> list[str]:
    return [str(tree[part][key]) for part, key in _SECRETS if (tree.get(part) or {}).get(key)]
