"""``providers.anthropic`` in the config file, and of every other provider with ``type: anthropic``."""

from typing import Literal

from claw import ModelConfig, ProviderConfig
from pydantic import Field, PositiveInt


class AnthropicModelConfig(ModelConfig):
    """Known facts of one model."""


class AnthropicConfig(ProviderConfig):
    """Address, keys and timeouts of the service."""

    type: Literal["anthropic"] | None = Field(
        None, description="anthropic: this service speaks the Messages API."
    )
    default_model: str | None = Field(None, description="The model, when an agent names none.")
    max_tokens: PositiveInt | None = Field(
        None,
        description="How long an answer may be; absent = 32,000 tokens, 8,192 for older and unknown models.",
    )
    key_header: Literal["authorization", "x-api-key"] = Field(
        "authorization", description="x-api-key: for gateways that want the key where it used to be."
    )
    models: dict[str, AnthropicModelConfig] = Field({}, description="By the service's own name of the model.")  # type: ignore[assignment]
