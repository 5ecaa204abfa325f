"""Keys of a provider, from its section of the config file or from the environment."""

from collections.abc import Mapping, Sequence

from claw import ConfigError, Credential, ProviderConfig, Secret


def _readable_key(secret: Secret) -> str:
    """Return the text of a key as it is sent.

    :raises ConfigError: it cannot be read, or cannot be sent in a header. The caller adds the name of the setting.
    """
    text = secret.reveal().strip()
    if not text:
        raise ConfigError("", "the key is empty", "Write a value, or remove the key")
    if not text.isprintable():
        raise ConfigError(
            "", "the key contains a line break or another control character", "Write it in one line"
        )
    if not text.isascii():
        raise ConfigError("", "the key contains a letter that no key has", "Copy it again")
    return text


def configured_keys(
    section: ProviderConfig,
    name: str,
    environ: Mapping[str, str],
    variables: Sequence[str],
    *,
    keyless: bool = False,
) -> tuple[Credential, ...]:
    """Return the keys of a provider: those in its section, those of ``authOrder`` first, else that of the environment.

    :param name: of the provider, for errors.
    :param variables: environment variables that may hold a key; the first that is set counts.
    :param keyless: the service needs no key: return a blank one when there is none.
    :raises ConfigError: the section names keys and none of them can be read.
    """
    written = [
        (profile.id, f"authProfiles[{i}]", profile.api_key, profile.type)
        for i, profile in enumerate(section.auth_profiles)
    ]
    written.append(("default", "apiKey", section.api_key, "api_key"))
    found: dict[str, Credential] = {}
    fault: ConfigError | None = None
    for profile, key, secret, kind in written:
        if secret is None or secret.empty:
            continue
        try:
            found.setdefault(profile, Credential(profile, _readable_key(secret), kind))
        except ConfigError as unread:
            fault = fault or unread.under(f"providers.{name}.{key}")
    if not found and fault:
        raise fault
    if found:
        first = [found.pop(id) for id in dict.fromkeys(section.auth_order) if id in found]
        return (*first, *found.values())
    for variable in variables:
        if held := environ.get(variable, "").strip():
            if not (held.isprintable() and held.isascii()):
                problem = "the key in {name} has a line break, or a letter that no key has"
                raise ConfigError("", problem, "Copy it again", name=variable)
            return (Credential("environment", held),)
    return (Credential("none", ""),) if keyless else ()
