"""``budgets``: how much model calls may cost; and what is known of a model: its window, its price."""

from typing import Literal, Self

from pydantic import ConfigDict, Field, NonNegativeFloat, PositiveInt, model_validator

from claw.config.values import Section, wrong

ToolMode = Literal["native", "prompt", "none"]


class Budget(Section):
    """A cap. A model call that could pass it is not made."""

    usd: float | None = Field(None, gt=0, description="Dollars.")
    tokens: PositiveInt | None = Field(None, description="Tokens, read and written, cached ones too.")
    per: Literal["day", "session", "turn"] = Field(
        "day", description="day: of this machine's clock; session: until it begins anew; turn: one message."
    )
    agent: str | None = Field(None, description="Only calls of this agent; a pattern such as team-*.")
    job: str | None = Field(None, description="Only calls for this job of the clock; * = all of them.")
    session: str | None = Field(None, description="Only calls in this session key, or pattern.")

    @model_validator(mode="after")
    def _caps_something(self) -> Self:
        if self.usd is None and self.tokens is None:
            raise wrong("caps nothing", "Write usd: 5, or tokens: 1000000")
        return self


class LongPrice(Section):
    """What a token costs when the request is long."""

    tokens: PositiveInt = Field(description="Requests that are longer cost this.")
    input: NonNegativeFloat | None = None
    output: NonNegativeFloat | None = None
    cache_read: NonNegativeFloat | None = None
    cache_write: NonNegativeFloat | None = None


class ModelPrice(Section):
    """Dollars for a million tokens."""

    input: NonNegativeFloat | None = Field(None, description="Read, not from a cache.")
    output: NonNegativeFloat | None = Field(None, description="Written, thoughts too.")
    cache_read: NonNegativeFloat | None = Field(None, description="Absent = as input.")
    cache_write: NonNegativeFloat | None = Field(None, description="Absent = as input.")
    over: LongPrice | None = Field(None, description="What holds for long requests.")


class ModelConfig(Section):
    """What is known of one model. A provider's own model inherits it and adds its keys."""

    context_tokens: PositiveInt | None = Field(None, description="How much it can read.")
    max_tokens: PositiveInt | None = Field(None, description="How long an answer may be.")
    price: ModelPrice | None = Field(None, description="In place of what the plugin knows.")
    tools: ToolMode | None = Field(None, description="native, prompt (in words), or none.")


class AnyModel(ModelConfig):
    """A model's section as core reads it."""

    model_config = ConfigDict(extra="allow")
