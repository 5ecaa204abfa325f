"""Every error that claw raises on purpose. One class for each reaction of the caller, not one for each place.

ClawError            (exit 1) something that a person can fix: the problem, its place, the fix
├── UsageError       (exit 2) the command line or a request asks for something impossible
├── ConfigError      (exit 3) the file is wrong: file, line, dotted key, problem, fix
├── PluginError      (exit 4) a plugin is wrong: id, stage, cause, fix
├── BusyError        (exit 1) another process holds it: its pid
├── BudgetError      (exit 1) a model call could exceed a budget: it is not made
├── DeliveryError    (exit 1) a channel's service did not accept a message; says if and when another try may help
├── ProviderError    (exit 1) a model call failed: ``reason``; ``retryable`` if another try may help
└── ToolError        a tool failed: its text goes to the model, the turn continues
    └── FenceError   a path or an address that this agent may not access
"""

import difflib
from collections.abc import Iterable
from typing import Any

from claw.i18n import listed, t


class ClawError(Exception):
    """An error that a person can fix.

    :param problem: English template of the problem; translated when shown.
    :param where: the file, key, line or input of the problem; empty when the problem names it.
    :param fix: English template of an instruction.
    :param values: values of the placeholders in both templates. ``texts`` of a class below are ``where``, ``fix`` and
        these values.
    """

    exit_code = 1

    def __init__(self, problem: str, /, *, where: str = "", fix: str = "", **values: object) -> None:
        super().__init__(problem)
        self.where = where
        self._problem, self._fix, self._values = problem, fix, values

    @property
    def problem(self) -> str:
        """The problem, in the language in use."""
        return t(self._problem, **self._values)

    @property
    def fix(self) -> str:
        """The instruction, in the language in use; empty when there is none."""
        return t(self._fix, **self._values) if self._fix else ""

    @property
    def parts(self) -> tuple[str, str, dict[str, str | int | float]]:
        """Both templates and the values, as numbers and text: the data that recreates this error from a file."""
        plain = {k: v if isinstance(v, int | float) else str(listed(v)) for k, v in self._values.items()}
        return self._problem, self._fix, plain

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        line = t("{problem}. {fix}", problem=self.problem, fix=self.fix) if self._fix else self.problem
        return place + line


class UsageError(ClawError):
    """The command line, or a request, asks for something impossible."""

    exit_code = 2


class ConfigError(ClawError):
    """A key in the config file is missing, unknown or wrong.

    :param key: dotted path as the user would type it, ``agents.list[0].tools``; empty means the whole file.
    :param file: the config file, as the user names it.
    :param line: 1-based; None when the key is absent from the file.
    :ivar grave: of a warning: what it is about does not work until the key is corrected.
    """

    exit_code = 3
    grave = False

    def __init__(
        self,
        key: str,
        problem: str,
        fix: str = "",
        *,
        file: str = "",
        line: int | None = None,
        **values: object,
    ) -> None:
        place = f"{file}:{line}" if file and line else file
        super().__init__(problem, where=": ".join(part for part in (place, key) if part), fix=fix, **values)
        self.key, self.file, self.line = key, file, line

    def under(self, key: str, file: str = "") -> "ConfigError":
        """Return the same error with a key and a file, when the raiser knew only the value."""
        file = file or self.file
        return type(self)(key, self._problem, self._fix, file=file, line=self.line, **self._values)


class PluginError(ClawError):
    """A plugin is wrong, or a required one is missing.

    :param plugin: its id.
    :param stage: find, import, register, config, run, stop or integrity.
    """

    exit_code = 4

    def __init__(self, plugin: str, stage: str, problem: str, fix: str = "", **values: object) -> None:
        place = t("plugin {id} ({stage})", id=plugin, stage=t(stage))
        super().__init__(problem, where=place, fix=fix, **values)
        self.plugin, self.stage = plugin, stage


class BusyError(ClawError):
    """Another process holds a resource that this one needs.

    :param pid: of the holder; None when it is not known.
    """

    def __init__(self, problem: str, /, *, pid: int | None, **texts: Any) -> None:
        super().__init__(problem, pid=pid, **texts)
        self.pid = pid


class ProviderError(ClawError):
    """A model call failed.

    :param reason: one of auth, auth_permanent, permission, billing, rate_limit, overloaded, server, network, tls,
        truncated, timeout, context_overflow, request_too_large, bad_request, content_filter, model_not_found,
        session_expired, empty (no text and no tool call), no_call (not the call that was asked for), machine (no
        descriptors or memory here), unknown.
    :param retryable: the same request may succeed later. Fallback to another model is decided separately.
    :param status: HTTP status, when there was one.
    :param retry_after_seconds: what the service asked for.
    :ivar failures: the error of each attempt, when several failed.
    """

    failures: "tuple[ProviderError, ...]" = ()

    def __init__(
        self,
        problem: str,
        /,
        *,
        reason: str = "unknown",
        retryable: bool = False,
        status: int | None = None,
        retry_after_seconds: float | None = None,
        **texts: Any,
    ) -> None:
        super().__init__(problem, **texts)
        self.reason, self.retryable = reason, retryable
        self.status, self.retry_after_seconds = status, retry_after_seconds


class BudgetError(ClawError):
    """A model call could exceed an entry of ``budgets``, and is not made.

    :param excuse: a text about it that anybody may read.
    :param skips: no person waits for the answer: the turn is skipped, not failed.
    """

    def __init__(self, problem: str, /, *, excuse: str, skips: bool = False, **texts: Any) -> None:
        super().__init__(problem, **texts)
        self.excuse, self.skips = excuse, skips


class DeliveryError(ClawError):
    """A channel's service did not accept what was sent.

    :param permanent: the same message will never be accepted: do not repeat it.
    :param retry_after_seconds: what the service asked for; only this chat waits, and it is no failed try.
    :param outcome_unknown: the connection broke after the message was sent: it may have arrived, and people would see a
        second one. Not for an edit, which may be repeated.
    """

    def __init__(
        self,
        problem: str,
        /,
        *,
        permanent: bool = False,
        retry_after_seconds: float | None = None,
        outcome_unknown: bool = False,
        **texts: Any,
    ) -> None:
        super().__init__(problem, **texts)
        self.permanent, self.retry_after_seconds = permanent, retry_after_seconds
        self.outcome_unknown = outcome_unknown


class ToolError(ClawError):
    """A tool failed; its text becomes the error result of the tool call, for the model to act on."""


class FenceError(ToolError):
    """A path or an address that this agent may not access."""


_MOST_COMPARED = 100  # letters of an unknown word: a model may write a megabyte


def nearest(word: str, known: Iterable[str], least: float = 0.6) -> str | None:
    """Return the known word that is closest to ``word``, ignoring case; None when none is similar.

    :param least: the similarity from which a word counts, 0 to 1; 0 = the closest one, whatever it is.
    """
    by_lower = {name.lower(): name for name in known}
    hits = difflib.get_close_matches(word[:_MOST_COMPARED].lower(), by_lower, n=1, cutoff=least)
    return by_lower[hits[0]] if hits else None
