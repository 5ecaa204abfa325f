"""Channel states for the supervisor: channels that cannot be served, and what a new configuration breaks."""

from collections.abc import Callable
from dataclasses import replace

from claw import Channel, ChannelState, PluginError, t
from claw.runtime import (
    LOADED,
    QUARANTINED,
    App,
    Contribution,
    channel_key,
    describe_exception,
)
from claw_channel_sdk import UnavailableChannel

from claw_gateway.channel_checks import webhooks_without_listener
from claw_gateway.process.report import LOG_CONTEXT, ChannelReport, unserved_accounts


def accounts_not_served(app: App) -> tuple[ChannelReport, ...]:
    """Return the accounts of the file that no channel serves."""
    rows = unserved_accounts(app.config.settings, app.host.plugin_states)
    return tuple(one for one in rows if channel_key(one.name, one.account) not in app.registry.channels)


def channels_without_listener(app: App) -> dict[str, str]:
    """Return the channels that wait for webhooks which nothing accepts, each with the reason."""
    return {
        channel_key(*where): t("{problem}. {fix}", problem=one.problem, fix=one.fix)
        for where, one in webhooks_without_listener(app.config).items()
    }


def newly_wrong(old: App, new: App) -> str:
    """Return why a plugin or an account that worked with the old file fails with the new one; empty when none
    does.
    """
    loaded = {state.id for state in old.host.plugin_states if state.state == LOADED}
    faults = [
        str(PluginError(state.id, *state.fault_parts()))
        for state in new.host.plugin_states
        if state.id in loaded and state.state == QUARANTINED and state.stage == "config"
    ]
    known = {key for key, one in old.registry.channels.items() if isinstance(one.value, UnavailableChannel)}
    channels = [one.value for key, one in new.registry.channels.items() if key not in known]
    faults += [str(channel.error) for channel in channels if isinstance(channel, UnavailableChannel)]
    return "; ".join(faults)


def take_over(
    before: Contribution[Channel] | None, after: Contribution[Channel] | None, log: Callable[[str], None]
) -> bool:
    """Let a channel take over what the one that it replaces has open; return false when it takes nothing over."""
    step = getattr(after and after.value, "take_over", None)
    if step is None or before is None or after is None or before.plugin != after.plugin:
        return False
    try:
        step(before.value)
    except Exception as why:  # noqa: BLE001 - a plugin's code
        log(t("channel {name} failed: {why}", name=after.value.name, why=describe_exception(why)))
        return False
    return True


def state_from(channel: Channel, pausing: str = "", submitted: float | None = None) -> ChannelState:
    """Return the state that a channel reports; up when it reports none.

    :param pausing: why it does not listen until its next try; empty while it listens.
    :param submitted: when it last submitted a message, for a channel that does not report its last data.
    """
    try:
        state = getattr(channel, "state", None)
    except Exception as why:  # noqa: BLE001 - a plugin's code
        return ChannelState("failed", describe_exception(why))
    state = state if isinstance(state, ChannelState) else ChannelState("up")
    if pausing and state.state in ("starting", "up"):
        state = replace(state, state="waiting", detail=pausing, last_error=pausing)
    return state if state.last_frame_at else replace(state, last_frame_at=submitted)


def report_failure(
    reported: set[str], key: str, state: ChannelState, log: Callable[[str], None] | None
) -> None:
    """Log once that a channel reports a failure while it continues to listen.

    :param reported: the keys of channels whose failure is known; it is changed.
    :param log: None if the channel does not listen.
    """
    if state.state != "failed":
        reported.discard(key)
    elif key not in reported:
        reported.add(key)
        if log:
            name, _, account = key.partition("/")
            before = LOG_CONTEXT.set({"channel": name, "account": account})
            log(f"{key}: {state.detail}")
            LOG_CONTEXT.reset(before)
