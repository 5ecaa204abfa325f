"""``tools.loopDetection`` in the config file, for all agents or for one."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from claw import Section
from claw.runtime import section_default
from pydantic import AliasChoices, Field


class LoopDetectors(Section):
    """The kinds of loops that are detected."""

    generic_repeat: bool = Field(True, description="The same call again and again.")
    known_poll_no_progress: bool = Field(
        True, description="The tool process asked again and again, nothing new."
    )
    ping_pong: bool = Field(True, description="Two calls in turns.")


class LoopDetection(Section):
    """Detection of repeated tool calls within one turn."""

    enabled: bool = Field(True, description="false: repeated calls are not looked for.")
    history_size: int = Field(30, ge=1, description="Newest calls that are looked at.")
    warning_threshold: int = Field(10, ge=1, description="After this many, the model gets a warning.")
    critical_threshold: int = Field(
        20, ge=1, description="The call is refused; the third refusal ends the turn."
    )
    breaker_threshold: int = Field(
        30,
        ge=1,
        validation_alias=AliasChoices(
            "breakerThreshold",
            "breaker_threshold",
            "globalCircuitBreakerThreshold",
            "global_circuit_breaker_threshold",
        ),
        description="So many equal answers of one call end the turn.",
    )
    detectors: LoopDetectors = section_default()

    def odd_keys(self, agents: Any) -> Iterator[tuple[tuple[str, ...], str, str, dict[str, object]]]:
        """Yield a warning for each threshold that is never reached, because a graver one comes first."""
        grades = (
            ("warningThreshold", self.warning_threshold),
            ("criticalThreshold", self.critical_threshold),
            ("breakerThreshold", self.breaker_threshold),
        )
        for (name, value), (next_name, limit) in pairwise(grades):
            if self.enabled and value >= limit:
                problem = "it has no effect: {next} is {limit}, and comes first"
                yield (name,), problem, "Write a smaller number", {"next": next_name, "limit": limit}
