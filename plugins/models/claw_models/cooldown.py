"""Cooldowns: the pause of a key after a failure, and its end after a success (pure). Times are seconds since 1970.

Facts: spec/runtime.md G5. A key whose cooldown is over is half open: one request at a time, until one succeeds.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from claw import ProviderError, t
from claw_config_sdk import local_time

_HOUR = 3600.0

DISABLING_REASONS = frozenset({"billing", "auth_permanent"})
"""Reasons that do not pass soon by waiting."""
REFUSALS = frozenset({"auth", "auth_permanent", "billing"})
"""Reasons that concern the key itself, whatever the model."""
TEMPORARY_REASONS = frozenset({"rate_limit", "overloaded", "server", "timeout"})
"""Reasons that pass by themselves: a turn may wait."""
MODEL_REASONS = frozenset({"overloaded", "server", "timeout", "permission"})
"""Reasons that concern one model with this key; other models may work."""
NEUTRAL_REASONS = frozenset(
    {"network", "tls", "truncated", "empty", "bad_request", "model_not_found", "context_overflow", "request_too_large",
     "session_expired", "content_filter", "machine"}
)  # fmt: skip
"""Reasons that say nothing about the key."""
_MAY_HAVE_RETRY_AFTER = frozenset({"rate_limit", "overloaded"})


@dataclass(frozen=True, slots=True)
class CooldownRules:
    """The lengths of cooldowns.

    :param table_seconds: after the first failure in a row, the second …; the last value repeats.
    :param slow_down_most_seconds: the longest one when the service asked to slow down without a time; also the longest
        time that a ``Retry-After`` keeps the last key of a provider from being tried.
    :param disabled_seconds: for billing and permanent refusals; doubled each time up to ``disabled_most_seconds``.
    :param window_seconds: counters restart after this time without a failure.
    :param probe_seconds: between two tries of a provider whose keys all cool down.
    """

    table_seconds: tuple[float, ...] = (60.0, 300.0, 1500.0, _HOUR)
    slow_down_most_seconds: float = 300.0
    disabled_seconds: float = 5 * _HOUR
    disabled_most_seconds: float = 24 * _HOUR
    window_seconds: float = 24 * _HOUR
    probe_seconds: float = 20.0


@dataclass(frozen=True, slots=True)
class KeyState:
    """The known state of a key.

    :param failures: in a row; ``counts`` the same by reason. 0 = it works.
    :param reason: of the newest failure.
    :param not_before: the time that the service asked for, as far as it is always respected.
    """

    last_used: float = 0.0
    failures: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    reason: str = ""
    failed_at: float = 0.0
    cools_until: float = 0.0
    disabled_until: float = 0.0
    disabled_for: str = ""
    not_before: float = 0.0

    def cools_down_until(self, now: float) -> float:
        """Return the end of the cooldown; 0 when the key may be used now."""
        until = max(self.cools_until, self.disabled_until)
        return until if until > now else 0.0


def after_failure(
    use: KeyState, reason: str, now: float, rules: CooldownRules, retry_after_seconds: float | None = None
) -> KeyState:
    """Add a failure. A running cooldown is extended only when the service asks for it."""
    if use.failed_at and now - use.failed_at > rules.window_seconds:
        use = KeyState(use.last_used)
    counts = {**use.counts, reason: use.counts.get(reason, 0) + 1}
    failed = replace(use, failures=use.failures + 1, counts=counts, reason=reason, failed_at=now)
    if reason in DISABLING_REASONS:
        if use.disabled_until > now:
            return failed
        rest = min(rules.disabled_seconds * 2 ** (counts[reason] - 1), rules.disabled_most_seconds)
        return replace(failed, disabled_until=now + rest, disabled_for=reason)
    table = rules.table_seconds
    rest = table[min(failed.failures, len(table)) - 1] if table else 0.0
    if reason in _MAY_HAVE_RETRY_AFTER:
        rest = min(rest, rules.slow_down_most_seconds)
        if retry_after_seconds is not None:
            asked = now + min(retry_after_seconds, rules.disabled_most_seconds)
            kept = now + min(retry_after_seconds, rules.slow_down_most_seconds)
            until = max(use.cools_until, asked) if use.cools_until > now else asked
            return replace(failed, cools_until=until, not_before=kept)
    return failed if use.cools_until > now else replace(failed, cools_until=now + rest)


def half_open(use: KeyState) -> KeyState:
    """End the cooldown because the provider answers again: half open until the key itself succeeds."""
    if use.disabled_until or use.reason not in TEMPORARY_REASONS:
        return use
    return replace(use, cools_until=0.0, not_before=0.0)


def describe_cooldown(use: KeyState, now: float) -> str:
    """Describe a key that cools down: ``waits 4 min after 3 failures: rate limit``; empty when it does not."""
    until = use.cools_down_until(now)
    if not until:
        return ""
    return t(
        "paused for {time} after {count} failures: {reason}"
        if use.failures > 1
        else "paused for {time} after a failure: {reason}",
        time=_duration(until - now),
        count=use.failures,
        reason=t(_REASONS.get(use.disabled_for if use.disabled_until > now else use.reason, "unknown")),
    )  # fmt: skip


def describe_refusal(use: KeyState, now: float) -> str:
    """Describe why the service refused a key when it was last used, which waiting does not end; empty when it did not."""
    if not use.failures or use.reason not in REFUSALS:
        return ""
    return t("{reason} ({time})", reason=t(_REASONS[use.reason]), time=local_time(use.failed_at, now))


def cooldown_error(use: KeyState, now: float, key: str, provider: str, model: str) -> ProviderError:
    """Return the error for a key that is not used now: until when, and what ends that sooner."""
    until, disabled = use.cools_down_until(now), use.disabled_until > now
    reason = use.disabled_for if disabled else use.reason
    state = describe_cooldown(use, now) or t("another request is testing it")
    fix = _ADVICE.get("passing" if reason in TEMPORARY_REASONS else reason, _ADVICE["auth"]) if until else ""
    return ProviderError(
        "its key {key} {state}",
        reason=reason,
        where=f"{provider}/{model}",
        retryable=reason in TEMPORARY_REASONS,
        fix=fix,
        key=key,
        state=state,
        provider=provider,
        time=local_time(until, now),
    )


_ADVICE = {
    "passing": "It is retried at {time} at the latest; claw models probe tests it now",
    "billing": "Once the account has credit, run claw models probe; otherwise it is retried at {time}",
    "auth": "add a working key with claw auth add {provider}; this one is retried at {time}, or "
    "now with claw models probe",
}


_REASONS = {
    "auth": "the key was rejected", "auth_permanent": "the key was rejected permanently", "permission": "not allowed",
    "billing": "no credit left", "rate_limit": "rate limit", "overloaded": "overloaded", "server": "server error",
    "timeout": "no answer in time",
}  # fmt: skip


def _duration(seconds: float) -> str:
    if round(seconds) < 60:
        return t("{n} s", n=max(1, round(seconds)))
    if seconds < 2 * 3600:
        return t("{n} min", n=round(seconds / 60))
    return t("{n} h", n=round(seconds / 3600))
