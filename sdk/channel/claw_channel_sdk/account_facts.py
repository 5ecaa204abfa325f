"""Facts about an account of a channel, for ``claw doctor NAME``."""

from claw import ChannelConfig, t


def account_fact(bot: str, connection: str, settings: ChannelConfig) -> str:
    """Return the line about an account: the bot, how it is connected, and the groups that may talk to it.

    :param bot: the name that people see.
    :param connection: one word, such as ``polling`` or ``webhook``.
    """
    allowed = {id for id, group in settings.groups.items() if group.enabled}
    groups = t("{count:group|groups} allowed", count=len(allowed))
    if settings.group_policy == "disabled" or (settings.group_policy == "allowlist" and not allowed):
        groups = t("no groups allowed")
    elif settings.group_policy == "open" or "*" in allowed:
        groups = t("all groups allowed")
    return t("bot {name}, {connection}, {groups}", name=bot, connection=connection, groups=groups)
