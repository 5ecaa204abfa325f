"""Checks of the channels in the config file: who may write there, and whether a message can arrive at all."""

from collections.abc import Iterator, Sequence
from functools import partial

from claw import Address, Finding, nearest, t
from claw.runtime import (
    DISABLED,
    JOB_CHANNELS,
    TERMINAL,
    Config,
    Setup,
    account_setting,
    configured_owners,
    format_key,
    install_hint,
    values_at,
)

from claw_gateway.process.report import configured_accounts


def channel_findings(setup: Setup) -> Iterator[Finding]:
    """Find accounts that admit no one or hear nothing, and lists that admit no one where others do."""
    webhooks = webhooks_without_listener(setup.config)
    yield from {one.about: one for one in webhooks.values()}.values()
    for row in configured_accounts(setup.config.settings, setup.plugin_states):
        if row["state"] not in (DISABLED, "absent"):
            yield from _closed_lists(Address(row["channel"], "", account=row["account"]), setup.config)


def webhooks_without_listener(config: Config) -> dict[tuple[str, str], Finding]:
    """Return (channel, account) → finding of each account in ``mode: webhook`` while no HTTP listener is configured."""
    http = config.settings.channels.get("http")
    found: dict[tuple[str, str], Finding] = {}
    if http is not None and http.enabled:
        return found
    for name, section in config.settings.channels.items():
        shared = (section.model_extra or {}).get("mode")
        for account in ("default", *section.accounts):
            own = section.accounts.get(account)
            written = "mode" in (own.model_extra or {}) if own else False
            mode = (own.model_extra or {})["mode"] if own and written else shared
            if mode == "webhook" and section.enabled and not (own and not own.enabled):
                key = account_key(name, account if written else "default") + ".mode"
                why = t("no message can arrive: webhooks need channels.http, which is not configured")
                found[name, account] = Finding(
                    key, "listener", why, t("claw config set channels.http.enabled true")
                )
    return found


def unknown_channel_findings(setup: Setup) -> Iterator[Finding]:
    """Find bindings and resets for channels that no installed plugin provides, so that they apply to no message.

    None is found while a plugin without a manifest is installed, which may provide any channel.
    """
    if any(one.manifest is None and not one.fault for one in setup.found):
        return
    provided = {name for one in setup.found if one.manifest for name in one.manifest.channels}
    known = {TERMINAL, *JOB_CHANNELS, *provided}
    settings = setup.config.settings
    bindings = ((index, (one.match.channel or "").strip()) for index, one in enumerate(settings.bindings))
    places: list[tuple[tuple[object, ...], str]] = [
        *(
            (("bindings", index, "match", "channel"), name)
            for index, name in bindings
            if name.lower() not in known
        ),
        *(
            (path, str(path[-1]))
            for path, _ in values_at(setup.config.layout.tree, "session.resetByChannel.*")
        ),
    ]
    for path, name in places:
        if name and name not in known:
            near = nearest(name, known)
            fix = t("Did you mean {near}?", near=near) if near else install_hint(name)
            why = t("no installed plugin provides the channel {name}, so it has no effect", name=name)
            yield Finding(format_key(path), "channel", why, fix, grave=False)


def _closed_lists(address: Address, config: Config) -> Iterator[Finding]:
    key, setting = account_key(address.channel, address.account), partial(account_setting, address, config)
    if not _admits_someone(address, config):
        why, fix = (
            t("no one may write there: its allow lists are empty"),
            t("claw config set '{key}.allowFrom[]' ID", key=key),
        )
        if setting("dm_policy") == "disabled":
            why = t("no one may write there: dmPolicy is disabled, and no group is listed")
            fix = t("Choose another dmPolicy, list groups, or write enabled: false")
        if setting("dm_policy") != "open":  # else the channel does not start, as another finding says
            yield Finding(key, "nobody", why, fix)
        return
    section = config.settings.channels[address.channel]
    written = {
        place
        for one in (section, section.accounts.get(address.account))
        if one
        for place in one.model_fields_set
    }
    if setting("group_policy") == "allowlist" and "group_policy" in written and not setting("groups"):
        why = t("no one may write in groups: no group is listed")
        fix = t("Write ids of groups into {key}.groups, or groupPolicy: disabled", key=key)
        yield Finding(f"{key}.groupPolicy", "nobody", why, fix, False)
        return
    if setting("group_policy") == "disabled" or _has_owner(address, config):
        return
    fix = t("Write ids of people into it; to switch groups off, write groupPolicy: disabled")
    groups = {id: one for id, one in setting("groups").items() if one.enabled}
    everywhere = setting("group_allow_from")
    relies = any(one.allow_from is None for one in groups.values())
    if everywhere is not None and not _names_someone(everywhere) and relies:
        yield Finding(
            f"{key}.groupAllowFrom", "nobody", t("no one may write in groups: the list is empty"), fix, False
        )
    for id, one in groups.items():
        if one.allow_from is not None and not _names_someone(one.allow_from):
            why = t("no one may write in this group: its list is empty")
            fix = t("Write ids of people into it, or enabled: false for the group")
            yield Finding(f"{key}.groups.{id}.allowFrom", "nobody", why, fix, False)


def _admits_someone(address: Address, config: Config) -> bool:
    """Return true if ``claw.security.admission`` may admit someone's message, in a direct chat or in a group."""
    setting = partial(account_setting, address, config)
    has_owner = _has_owner(address, config)

    def is_open(people: Sequence[str] | None) -> bool:
        return people is None or has_owner or _names_someone(people)

    if setting("dm_policy") == "pairing" or (
        setting("dm_policy") != "disabled" and is_open(setting("allow_from"))
    ):
        return True
    if setting("group_policy") == "disabled":
        return False
    everywhere = setting("group_allow_from")
    lists = [everywhere] if setting("group_policy") == "open" else []
    for one in setting("groups").values():
        if one.enabled:
            lists.append(everywhere if one.allow_from is None else one.allow_from)
    return any(map(is_open, lists))


def _may_be_on(owner: str, channel: str) -> bool:
    """Return true if an owner belongs to this channel, or is a phone number, which may be on any."""
    return owner.strip().startswith("+") or owner.partition(":")[0].strip().lower() == channel


def _names_someone(people: Sequence[str]) -> bool:
    return any(one.strip() for one in people)


def _has_owner(address: Address, config: Config) -> bool:
    """Return true if an owner may write on this channel, whose message is admitted everywhere."""
    return any(_may_be_on(one, address.channel) for one in configured_owners(config.settings))


def account_key(channel: str, account: str) -> str:
    """Return the key of an account in the config file."""
    return f"channels.{channel}" if account == "default" else f"channels.{channel}.accounts.{account}"
