"""``session.keep``, and ``session.reset`` with its siblings, in the config file."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from claw import PluginConfig, Section
from claw.runtime import Config, Duration
from claw_config_sdk import Size
from pydantic import BeforeValidator, Field, RootModel


class Reset(Section):
    """Automatic reset of conversations."""

    mode: Literal["off", "daily", "idle"] = Field(
        "off", description="Absent: daily when atHour is there, idle when idleMinutes is, else off."
    )
    at_hour: int = Field(4, ge=0, le=23, description="daily: the hour that begins a new day.")
    idle_minutes: int | None = Field(
        None, ge=1, description="idle: quiet time; next to daily a second limit."
    )


def _kinds_of_chat(value: Any) -> Any:
    return (
        {"direct" if key == "dm" else key: kind for key, kind in value.items()}
        if isinstance(value, dict)
        else value
    )


_ResetByType = Annotated[dict[Literal["direct", "group", "thread"], Reset], BeforeValidator(_kinds_of_chat)]


class ResetByType(RootModel[_ResetByType]):
    """In place of session.reset, key by key, for one kind of chat."""

    root: _ResetByType = {}


class ResetByChannel(RootModel[dict[str, Reset]]):
    """In place of session.reset, key by key, for one channel; it goes before the kind of chat."""

    root: dict[str, Reset] = {}


class IdleMinutes(RootModel[int | None]):
    """Quiet time where no reset names idleMinutes."""

    root: int | None = Field(None, ge=1)


@dataclass(frozen=True, slots=True)
class ResetSettings:
    """``session.reset`` and its siblings."""

    reset: Reset
    reset_by_type: Mapping[Any, Reset]
    reset_by_channel: Mapping[str, Reset]
    idle_minutes: int | None

    @classmethod
    def of(cls, config: Config | PluginConfig) -> "ResetSettings":
        """Read them from the config file."""
        return cls(
            config.section("session.reset", Reset),
            config.section("session.resetByType", ResetByType).root,
            config.section("session.resetByChannel", ResetByChannel).root,
            config.section("session.idleMinutes", IdleMinutes).root,
        )


class Retention(Section):
    """Compression and removal of conversations that were reset or deleted. By default they are kept as they are."""

    compress_after: Duration = Field(0.0, ge=0, description="Age at which one is compressed; off: never.")
    remove_after: Duration = Field(0.0, ge=0, description="Age at which one is removed for good; off: never.")
    max_size: Size | None = Field(
        None, description="Of all of them together: beyond it the oldest are removed for good."
    )

    def odd_keys(self, agents: Any) -> Iterator[tuple[tuple[str, ...], str, str, dict[str, object]]]:
        """Yield a warning if conversations are removed before they would be compressed."""
        if 0 < self.remove_after <= self.compress_after:
            problem = "it has no effect: conversations are removed before"
            yield ("compressAfter",), problem, "Write a shorter time than removeAfter", {}
