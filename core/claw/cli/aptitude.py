"""What a model is good for besides talking: how it is told of tools, and whether it reads enough for them."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from claw.app import House, commands_host
from claw.builtin.offline import Offline
from claw.config.settings import Settings
from claw.errors import ClawError, ConfigError
from claw.fallback import ModelRef
from claw.finding import Finding
from claw.provider import Provider
from claw.spoken.interpreter import mode_of
from claw.standing import LOADED
from claw.words import say


@dataclass(frozen=True, slots=True)
class Aptitude:
    """What is known of one model.

    :param tools: native, prompt or none; empty = nobody says.
    :param window: how many tokens it reads; None = nobody says.
    :param needs_key: False = its service takes none.
    :param fault: why it cannot be asked, whatever keys there are.
    """

    tools: str = ""
    window: int | None = None
    needs_key: bool = True
    fault: str = ""


def written(settings: Settings, ref: ModelRef) -> Aptitude:
    """What the file says of a model."""
    section = settings.providers.get(ref.provider)
    facts = section.models.get(ref.model) if section else None
    if section is None:
        return Aptitude()
    window = (facts and facts.context_tokens) or (section.model_extra or {}).get("contextTokens")
    mode = (facts and facts.tools) or section.tools or ""
    return Aptitude(mode, window if isinstance(window, int) else None)


def asked(provider: Provider, settings: Settings, ref: ModelRef) -> Aptitude:
    """What its provider says, and the file where it says otherwise."""
    mode, window, needs_key, fault = written(settings, ref).tools, None, True, ""
    try:
        mode = mode_of(provider, ref.model, mode or None)
        window = provider.context_tokens(ref.model)
        needs_key = all(key.secret for key in provider.credentials())
    except ConfigError:  # of a key that cannot be read: the list of keys says so
        pass
    except ClawError as why:
        fault = str(why)
    except Exception:  # noqa: BLE001 - a stranger's code; what it fails to say is not known
        pass
    return Aptitude(mode, window if isinstance(window, int) else None, needs_key, fault)


def known(house: House, wanted: Mapping[ModelRef, str]) -> dict[ModelRef, Aptitude]:
    """Of models with the ids of their plugins; those that are in use are loaded for it, and not the rest of the house."""
    host = commands_host()
    ready = {one.id for one in host.standings if one.state == LOADED} & set(wanted.values())
    brought: dict[str, Any] = {"offline": Offline()}
    for plugin in sorted(ready):
        for provider in (host.ask(plugin) or {}).get("register_providers", ()):
            brought.setdefault(provider.name, provider)
    settings = house.config.settings
    return {
        ref: asked(brought[ref.provider], settings, ref)
        if ref.provider in brought
        else replace(
            written(settings, ref), fault=say("nobody serves the provider {provider}", provider=ref.provider)
        )
        for ref in wanted
    }


def findings(settings: Settings, aptitudes: Iterable[tuple[ModelRef, Aptitude]]) -> Iterator[Finding]:
    """What a person should know of these models: no tools of its own, or too small a window for them."""
    least, small = settings.models.least_context, settings.models.small_context
    for ref, one in aptitudes:
        if one.tools == "prompt":
            why = say("it has no tools of its own: it is told of them in its instructions")
            yield Finding(str(ref), "tools", why, grave=False)
        elif one.tools == "none":
            yield Finding(str(ref), "tools", say("it only talks: it is given no tools"), grave=False)
            continue
        window = one.window or small
        if window < least:
            why = say("it reads {window} tokens, and an agent with tools needs {least} at least",
                      window=f"{window:,}", least=f"{least:,}")  # fmt: skip
            mend = say("choose another model (claw models use PROVIDER/MODEL), say how much it really reads "
                       "(providers.{name}.models.MODEL.contextTokens), or lower models.leastContext",
                       name=ref.provider)  # fmt: skip
            yield Finding(str(ref), "window", why, mend)
        elif window < small:
            why = say("it reads {window} tokens: with tools and a longer conversation that is little",
                      window=f"{window:,}")  # fmt: skip
            yield Finding(str(ref), "window", why, grave=False)
