"""``providers.openai`` in the config file, and of every endpoint that speaks its protocol."""

from typing import Literal

from claw import ModelConfig, ProviderConfig, Section
from pydantic import Field, PositiveInt


class Quirks(Section):
    """Differences of an endpoint; absent = the entry in ``endpoints.json``, else the default."""

    max_tokens_name: Literal["max_completion_tokens", "max_tokens"] = Field(
        "max_tokens", description="What the longest answer is called."
    )
    stream_options: bool = Field(True, description="false: it refuses stream_options, which asks for usage.")
    system_role: Literal["system", "developer"] = Field("system", description="Role of the system prompt.")
    reasoning_effort: bool = Field(False, description="Send the thinking level as reasoning_effort.")
    thinking_switch: Literal["thinking", "enable_thinking", "reasoning"] | None = Field(
        None, description="By which field thinking is switched on and off."
    )
    tool_choice: Literal["all", "auto"] = Field(
        "all", description="auto: it takes no other choice; none leaves the tools out."
    )
    replay_reasoning: bool = Field(False, description="true: it wants its reasoning_content back.")


class OpenAIConfig(ProviderConfig):
    """Address, keys, timeouts and differences of the endpoint."""

    type: Literal["openai"] | None = Field(None, description="openai: this service speaks Chat Completions.")
    api: Literal["chat", "responses"] = Field(
        "chat", description="responses: for OpenAI's own reasoning models."
    )
    default_model: str | None = Field(None, description="The model, when an agent names none.")
    max_tokens: PositiveInt | None = Field(
        None, description="How long an answer may be; absent = the service decides."
    )
    context_tokens: PositiveInt | None = Field(
        None, description="How much its models can read, when models says nothing."
    )
    keyless: bool | None = Field(
        None, description="It needs no key; by default true for this machine's own addresses."
    )
    quirks: Quirks = Quirks()
    models: dict[str, ModelConfig] = Field({}, description="By the service's own name of the model.")  # type: ignore[assignment]
