"""``providers.google`` in the config file, and of every other provider with ``type: google``."""

from typing import Literal

from claw import ModelConfig, ProviderConfig
from pydantic import Field, PositiveInt


class GoogleModelConfig(ModelConfig):
    """Known facts of one model."""

    thinking: Literal["level", "budget", "none"] | None = Field(
        None,
        description="How thinking is requested: by a level (Gemini 3 on), by a budget of tokens (2.5), not at all; "
        "absent = by its name.",
    )


class GoogleConfig(ProviderConfig):
    """Address, keys and timeouts of the service."""

    type: Literal["google"] | None = Field(None, description="google: this service speaks generateContent.")
    default_model: str | None = Field(None, description="The model, when an agent names none.")
    max_tokens: PositiveInt | None = Field(
        None, description="How long an answer may be, thoughts included; absent = the service decides."
    )
    models: dict[str, GoogleModelConfig] = Field({}, description="By the service's own name of the model.")  # type: ignore[assignment]
