"""Named keys of a provider, and the order in which they are tried. A secret never prints.

First form: the order is what the operator wrote. Cooldowns, pins and stored profiles come with the issue on
models.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from claw.errors import ConfigError

if TYPE_CHECKING:
    from claw.config.settings import ProviderConfig


@dataclass(frozen=True, slots=True)
class Credential:
    """A named key. Its ``repr`` never shows it.

    :param name: profile name, ``main``.
    :param secret: what goes on the wire; empty for a local service that needs none.
    """

    name: str
    secret: str = field(repr=False)


def in_order(keys: Sequence[Credential], order: Sequence[str] = ()) -> tuple[Credential, ...]:
    """The keys to try: those of ``order`` first and in that order, the rest behind, each name once."""
    by_name: dict[str, Credential] = {}
    for key in keys:
        by_name.setdefault(key.name, key)
    named = [by_name.pop(name) for name in dict.fromkeys(order) if name in by_name]
    return (*named, *by_name.values())


def configured_keys(
    section: "ProviderConfig",
    name: str,
    environ: Mapping[str, str],
    variables: Sequence[str],
    *,
    keyless: bool = False,
) -> tuple[Credential, ...]:
    """The keys of a provider, in the order to try them: those its section names, else the environment's.

    :param name: of the provider, for errors.
    :param variables: environment variables that may hold a key; the first that is set counts.
    :param keyless: the service needs none: without any key, an empty one.
    :raises ConfigError: the section names keys and not one of them can be read.
    """
    written = [
        (profile.id, f"authProfiles[{i}]", profile.api_key) for i, profile in enumerate(section.auth_profiles)
    ]
    written.append(("default", "apiKey", section.api_key))
    found: list[Credential] = []
    fault: ConfigError | None = None
    for profile, key, secret in written:
        if secret is None or secret.empty:
            continue
        try:
            found.append(Credential(profile, secret.reveal().strip()))
        except ConfigError as unread:
            fault = fault or unread.under(f"providers.{name}.{key}")
    if not found and fault:
        raise fault
    if found:
        return in_order(found, section.auth_order)
    held = next(
        (environ[variable].strip() for variable in variables if environ.get(variable, "").strip()), None
    )
    if held is not None:
        return (Credential("environment", held),)
    return (Credential("none", ""),) if keyless else ()
