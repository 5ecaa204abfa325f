"""Checks of ``claw doctor`` and their findings."""

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem and its fix.

    :param about: id of a plugin, a key, or a file; a channel that checks itself may leave it empty.
    :param kind: one word for programs, the same in every language; ``fact`` = nothing is wrong: a line of information.
    :param fix: an instruction that removes the cause.
    :param grave: the finding affects the exit code; otherwise it is only reported.
    :param edit: key and value of the config file that fix it without a question to anybody.
    """

    about: str
    kind: str
    problem: str
    fix: str = ""
    grave: bool = True
    edit: tuple[str, Any] | None = None


class DiagnosticContext(Protocol):
    """The subject of a check: this home, its config file and its plugins."""

    @property
    def setup(self) -> Any:
        """The config file and the plugin states, a :class:`claw.runtime.Setup`."""

    @property
    def environ(self) -> Mapping[str, str]: ...

    @property
    def online(self) -> bool:
        """True if services may be asked over the network."""

    @property
    def channel(self) -> str:
        """The channel that alone is checked (``NAME`` or ``NAME/ACCOUNT``); empty = everything."""


class Diagnostic(Protocol):
    """A check of ``claw doctor``.

    It may have ``subject``: ``claw doctor CHANNEL`` asks only those with the subject ``channels``. It may have
    ``status(context) -> Mapping[str, Any]``: facts for ``claw status``, name → value as plain data. It may have
    ``check_config(setup) -> Iterable[Finding]``: what is wrong in the config file, ``about`` a key, judged by the file,
    the installed plugins and the environment of this process (``setup.config.environ``); shown by every command that
    judges the file, such as ``claw config validate``, and with ``configChecks`` in the manifest at the start of each chat
    and of the gateway. It may take 10 s. It may have ``tables``: statements of tables in ``state.db`` that the plugin
    declares only later than it registers (``Database.tables``); ``claw doctor`` names those that lack a column.
    """

    name: str

    def check(self, context: DiagnosticContext) -> Sequence[Finding] | Awaitable[Sequence[Finding]]:
        """Return what is wrong, each finding with a fix; empty when nothing is."""


LOADED, IDLE, DISABLED, BLOCKED = "loaded", "idle", "disabled", "blocked"
QUARANTINED, INCOMPATIBLE, UNTRIED = "quarantined", "incompatible", "untried"
"""States of an installed plugin, as ``claw plugins list`` prints them."""
