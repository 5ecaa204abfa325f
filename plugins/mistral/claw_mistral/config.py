"""``providers.mistral`` in the config file, and of every other provider with ``type: mistral``."""

from typing import Literal

from claw import ModelConfig, ProviderConfig
from pydantic import Field, PositiveInt


class MistralModelConfig(ModelConfig):
    """Known facts of one model."""

    thinking: Literal["levels", "switch", "mode", "none"] | None = Field(
        None,
        description="How thinking is requested: by an effort of several levels, by one that is high or none, by a mode "
        "(magistral), not at all; absent = by its name.",
    )


class MistralConfig(ProviderConfig):
    """Address, keys and timeouts of the service."""

    type: Literal["mistral"] | None = Field(
        None, description="mistral: this service speaks Mistral's chat completions."
    )
    default_model: str | None = Field(None, description="The model, when an agent names none.")
    max_tokens: PositiveInt | None = Field(
        None, description="How long an answer may be; absent = the service decides."
    )
    models: dict[str, MistralModelConfig] = Field({}, description="By the service's own name of the model.")  # type: ignore[assignment]
