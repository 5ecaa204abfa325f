"""Credentials from the config file and the environment: the named keys of a provider. A secret is never printed.

They come from ``providers.NAME.authProfiles``, ``apiKey`` and the environment. A model selector may know
more sources.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from claw.contracts.errors import ConfigError, ProviderError, UsageError
from claw.contracts.provider import Credential

if TYPE_CHECKING:
    from claw.config.models import ProviderConfig


def configured_keys(
    section: "ProviderConfig",
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
            found.setdefault(profile, Credential(profile, secret.reveal().strip(), kind))
        except ConfigError as unread:
            fault = fault or unread.under(f"providers.{name}.{key}")
    if not found and fault:
        raise fault
    if found:
        first = [found.pop(id) for id in dict.fromkeys(section.auth_order) if id in found]
        return (*first, *found.values())
    held = next(
        (environ[variable].strip() for variable in variables if environ.get(variable, "").strip()), None
    )
    if held is not None:
        return (Credential("environment", held),)
    return (Credential("none", ""),) if keyless else ()


def missing_key_error(provider: str, variables: Sequence[str], where: str = "") -> ProviderError:
    """Return the error for a provider without a key.

    :param variables: environment variables that may hold it.
    """
    fix = "add one with claw auth add {provider}, or set {variables}, or set providers.{provider}.apiKey"
    plain = "add one with claw auth add {provider}, or set providers.{provider}.apiKey"
    return ProviderError(
        "{provider} has no API key",
        reason="auth",
        where=where,
        fix=fix if variables else plain,
        provider=provider,
        variables=" / ".join(variables),
    )


def unknown_key_error(provider: str, name: str, names: Sequence[str]) -> UsageError:
    """Return the error for a key that was named and that the provider does not have.

    :param names: of its keys.
    """
    fix = "Its keys are: {names}" if names else "add one with claw auth add {provider} --name {name}"
    return UsageError(
        "{provider} has no key {name}", fix=fix, provider=provider, name=name, names=", ".join(names)
    )
