"""The error of an answer without a word that reached its limit of tokens."""

from claw import ModelRef, ProviderError, t


def empty_by_limit(ref: ModelRef, limit: int | None) -> ProviderError:
    """Return the failure for an answer without a word at its limit.

    :param limit: as the agent's settings have it; None = that of the provider's settings, or the model's own.
    """
    why = t("it reached the limit of the model, or providers.{name}.maxTokens", name=ref.provider)
    if limit:
        why = t(
            "it reached the limit of {count} tokens: maxTokens of the agent, or agents.defaults.maxTokens",
            count=limit,
        )
    return ProviderError(
        "the model gave an empty answer ({why})",
        fix="set a higher agents.defaults.maxTokens, or choose another model with /model",
        reason="empty", retryable=True, where=str(ref), why=why,
    )  # fmt: skip
