"""``tools.loopDetection`` in the config file, for all agents or for one."""

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

    enabled: bool = True
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
