"""Cooldowns: how long a key rests after a failure, and what a success undoes (pure). Times are seconds since 1970.

Facts: spec/runtime.md G5. A key whose rest is over is half open: one request at a time, until one succeeds.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from claw.clock import here
from claw.errors import ProviderError
from claw.words import say

_HOUR = 3600.0

DISABLING = frozenset({"billing", "auth_permanent"})
"""What no waiting cures soon."""
PASSING = frozenset({"rate_limit", "overloaded", "server", "timeout"})
"""What passes by itself: a turn may wait for it."""
OF_THE_MODEL = frozenset({"overloaded", "server", "timeout", "permission"})
"""What one model meets with this key while others may be well."""
BLAMELESS = frozenset(
    {"network", "tls", "truncated", "empty", "bad_request", "model_not_found", "context_overflow", "request_too_large",
     "session_expired"}
)  # fmt: skip
"""What says nothing of the key."""
_SERVICE_SAYS_WHEN = frozenset({"rate_limit", "overloaded"})


@dataclass(frozen=True, slots=True)
class Rules:
    """How long keys rest.

    :param table_seconds: after the first failure in a row, the second …; the last one stays.
    :param slow_down_most_seconds: the most of it when the service asked us to slow down without saying how long; also
        the longest that a ``Retry-After`` keeps the last key of a provider from being tried.
    :param disabled_seconds: for billing and permanent refusals; doubled each time up to ``disabled_most_seconds``.
    :param window_seconds: counters start again after so long without a failure.
    :param probe_seconds: between two tries of a provider whose keys all rest.
    """

    table_seconds: tuple[float, ...] = (60.0, 300.0, 1500.0, _HOUR)
    slow_down_most_seconds: float = 300.0
    disabled_seconds: float = 5 * _HOUR
    disabled_most_seconds: float = 24 * _HOUR
    window_seconds: float = 24 * _HOUR
    probe_seconds: float = 20.0


@dataclass(frozen=True, slots=True)
class Use:
    """What is known of a key.

    :param failures: in a row; ``counts`` the same by reason. 0 = well.
    :param reason: of the newest failure.
    :param not_before: what the service asked for, as far as we keep to it at all costs.
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

    def rests_until(self, now: float) -> float:
        """When it may be used as any other; 0 when it may now."""
        until = max(self.cools_until, self.disabled_until)
        return until if until > now else 0.0


def after_failure(
    use: Use, reason: str, now: float, rules: Rules, retry_after_seconds: float | None = None
) -> Use:
    """One more failure. A rest that lasts is not made longer, unless the service says so."""
    if use.failed_at and now - use.failed_at > rules.window_seconds:
        use = Use(use.last_used)
    counts = {**use.counts, reason: use.counts.get(reason, 0) + 1}
    failed = replace(use, failures=use.failures + 1, counts=counts, reason=reason, failed_at=now)
    if reason in DISABLING:
        if use.disabled_until > now:
            return failed
        rest = min(rules.disabled_seconds * 2 ** (counts[reason] - 1), rules.disabled_most_seconds)
        return replace(failed, disabled_until=now + rest, disabled_for=reason)
    table = rules.table_seconds
    rest = table[min(failed.failures, len(table)) - 1] if table else 0.0
    if reason in _SERVICE_SAYS_WHEN:
        rest = min(rest, rules.slow_down_most_seconds)
        if retry_after_seconds is not None:
            asked = now + min(retry_after_seconds, rules.disabled_most_seconds)
            kept = now + min(retry_after_seconds, rules.slow_down_most_seconds)
            until = max(use.cools_until, asked) if use.cools_until > now else asked
            return replace(failed, cools_until=until, not_before=kept)
    return failed if use.cools_until > now else replace(failed, cools_until=now + rest)


def half_open(use: Use) -> Use:
    """Its rest is over, because its provider answers again: one request at a time, until it has answered itself."""
    if use.disabled_until or use.reason not in PASSING:
        return use
    return replace(use, cools_until=0.0, not_before=0.0)


def waits(use: Use, now: float) -> str:
    """What is to be said of a key that rests: ``waits 4 min after 3 failures: rate limit``; empty when it does not."""
    until = use.rests_until(now)
    if not until:
        return ""
    return say(
        "waits {time} after {count} failures: {reason}" if use.failures > 1 else "waits {time} after a failure: {reason}",
        time=_span(until - now),
        count=use.failures,
        reason=say(_REASONS.get(use.disabled_for if use.disabled_until > now else use.reason, "unknown")),
    )  # fmt: skip


def resting(use: Use, now: float, key: str, provider: str, model: str) -> ProviderError:
    """The error for a key that is not used now: until when, and what ends that sooner."""
    until, disabled = use.rests_until(now), use.disabled_until > now
    reason = use.disabled_for if disabled else use.reason
    told = waits(use, now) or say("another request tries it")
    fix = _ADVICE.get("passing" if reason in PASSING else reason, _ADVICE["auth"]) if until else ""
    return ProviderError(
        "its key {key} {told}", reason=reason, where=f"{provider}/{model}", retryable=reason in PASSING, fix=fix,
        key=key, told=told, provider=provider, time=here(until, now),
    )  # fmt: skip


_ADVICE = {
    "passing": "It is tried again at {time} at the latest; claw models probe tries it now",
    "billing": "Once the account has credit, claw models probe tries it; without that it is tried at {time}",
    "auth": "claw auth add {provider} takes one that works; this one is tried again at {time}, by claw models probe now",
}


_REASONS = {
    "auth": "the key was refused", "auth_permanent": "the key was refused for good", "permission": "not allowed",
    "billing": "no credit left", "rate_limit": "rate limit", "overloaded": "overloaded", "server": "server error",
    "timeout": "no answer in time",
}  # fmt: skip


def _span(seconds: float) -> str:
    if round(seconds) < 60:
        return say("{n} s", n=max(1, round(seconds)))
    if seconds < 2 * 3600:
        return say("{n} min", n=round(seconds / 60))
    return say("{n} h", n=round(seconds / 3600))
