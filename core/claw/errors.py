"""Every error claw raises on purpose. One branch for each reaction, not one class for each place.

ClawError            (exit 1) something a person can mend: what is wrong, where, the fix
├── UsageError       (exit 2) the command line or a request asks for what cannot be
├── ConfigError      (exit 3) the file is wrong: file, line, dotted key, problem, fix
├── PluginError      (exit 4) a plugin is wrong: id, stage, cause, mend
├── BusyError        (exit 1) another process holds it: its pid
├── BudgetError      (exit 1) a model call could pass a cap: it is not made
├── DeliveryError    (exit 1) a channel's service did not take a message: whether, and when, another try may help
├── ProviderError    (exit 1) a model call failed: ``reason``, and whether another try may help
└── ToolError        a tool failed: its text goes to the model, the turn goes on
    └── FenceError   a path or an address is outside of what this agent may touch
"""

from claw.words import say


class ClawError(Exception):
    """Something a person can mend.

    :param problem: English template of what is wrong; translated when shown.
    :param where: the file, key, line or input it is about; empty when the problem says it.
    :param fix: English template of what to do, as an instruction.
    :param values: what the two templates name.
    """

    exit_code = 1

    def __init__(self, problem: str, /, *, where: str = "", fix: str = "", **values: object) -> None:
        super().__init__(problem)
        self.where = where
        self._problem, self._fix, self._values = problem, fix, values

    @property
    def problem(self) -> str:
        """What is wrong, in the language in use."""
        return say(self._problem, **self._values)

    @property
    def fix(self) -> str:
        """What to do about it, in the language in use; empty when nobody can say."""
        return say(self._fix, **self._values) if self._fix else ""

    @property
    def parts(self) -> tuple[str, str, dict[str, str]]:
        """Both templates and the values, as text: what a file needs to hold to make this error again."""
        return self._problem, self._fix, {name: str(value) for name, value in self._values.items()}

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        told = say("{problem}. {fix}", problem=self.problem, fix=self.fix) if self._fix else self.problem
        return place + told


class UsageError(ClawError):
    """The command line, or a request, asks for what cannot be."""

    exit_code = 2


class ConfigError(ClawError):
    """A key in the config file is missing, unknown or wrong.

    :param key: dotted path as the user would type it, ``agents.list[0].tools``; empty means the whole file.
    :param file: the config file, as the user knows it.
    :param line: 1-based; None when the key is absent from the file.
    """

    exit_code = 3

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

    def under(self, key: str) -> "ConfigError":
        """The same error for a key, for a raiser that knew only the value."""
        return type(self)(key, self._problem, self._fix, file=self.file, line=self.line, **self._values)


class PluginError(ClawError):
    """A plugin is wrong, or a required one is not there.

    :param plugin: its id.
    :param stage: find, import, register, config, run, stop or integrity.
    """

    exit_code = 4

    def __init__(self, plugin: str, stage: str, problem: str, fix: str = "", **values: object) -> None:
        super().__init__(problem, where=f"plugin {plugin} ({stage})", fix=fix, **values)
        self.plugin, self.stage = plugin, stage


class BusyError(ClawError):
    """Another process holds what we need.

    :param pid: of the holder; None when it did not leave its number.
    """

    def __init__(
        self, problem: str, /, *, pid: int | None, where: str = "", fix: str = "", **values: object
    ) -> None:
        super().__init__(problem, where=where, fix=fix, pid=pid, **values)
        self.pid = pid


class ProviderError(ClawError):
    """A model call failed.

    :param reason: one of auth, auth_permanent, permission, billing, rate_limit, overloaded, server, network, tls,
        truncated, timeout, context_overflow, request_too_large, bad_request, model_not_found, session_expired, empty
        (no word and no call), unknown.
    :param retryable: the same request may succeed later. Falling over to another model is a separate question.
    :param status: HTTP status, when there was one.
    :param retry_after_seconds: what the service asked for.
    :ivar failures: of each attempt, when several came to nothing.
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
        where: str = "",
        fix: str = "",
        **values: object,
    ) -> None:
        super().__init__(problem, where=where, fix=fix, **values)
        self.reason, self.retryable = reason, retryable
        self.status, self.retry_after_seconds = status, retry_after_seconds


class BudgetError(ClawError):
    """A model call could pass a cap of ``budgets``, and is not made.

    :param excuse: what anybody may hear of it, in words.
    :param skips: nobody waits for the answer: the turn is left out, and did not fail.
    """

    def __init__(
        self,
        problem: str,
        /,
        *,
        excuse: str,
        skips: bool = False,
        where: str = "",
        fix: str = "",
        **values: object,
    ) -> None:
        super().__init__(problem, where=where, fix=fix, **values)
        self.excuse, self.skips = excuse, skips


class DeliveryError(ClawError):
    """A channel's service did not take what we sent.

    :param permanent: the same message will never be taken: do not repeat it.
    :param retry_after_seconds: what the service asked for; only this chat waits.
    :param outcome_unknown: the connection broke after the message had gone out: it may stand there, and a second one
        beside it would be seen. Not for an edit, which may be made again.
    """

    def __init__(
        self,
        problem: str,
        /,
        *,
        permanent: bool = False,
        retry_after_seconds: float | None = None,
        outcome_unknown: bool = False,
        where: str = "",
        fix: str = "",
        **values: object,
    ) -> None:
        super().__init__(problem, where=where, fix=fix, **values)
        self.permanent, self.retry_after_seconds = permanent, retry_after_seconds
        self.outcome_unknown = outcome_unknown


class ToolError(ClawError):
    """A tool failed in a way the model can act on: its text becomes the tool's error result."""


class FenceError(ToolError):
    """A path or an address is outside of what this agent may touch."""
