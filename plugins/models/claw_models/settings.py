"""``models.cooldowns`` and ``models.wait`` in the config file."""

from claw import Section
from claw.runtime import Duration
from pydantic import Field, RootModel


class Cooldowns(Section):
    """Cooldown of API keys after failures."""

    table: tuple[Duration, ...] = Field(
        (60.0, 300.0, 1500.0, 3600.0), description="After the first failure in a row, the second …"
    )
    slow_down: Duration = Field(300.0, description="The most of it after a rate limit without Retry-After.")
    disabled: Duration = Field(
        18_000.0, description="Without credit, or refused for good; doubled each time."
    )
    disabled_most: Duration = Field(86_400.0, description="The most of that.")
    window: Duration = Field(86_400.0, description="So long without a failure, and the counters start again.")
    probe: Duration = Field(20.0, gt=0, description="Between two tries while all keys of a provider rest.")


class Wait(RootModel[Duration]):
    """The longest that a call waits for a model to be had again; off = nothing is tried twice."""

    root: Duration = 120.0
