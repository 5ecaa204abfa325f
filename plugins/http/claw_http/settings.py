"""``channels.http``: the settings of the listener. Its address and token stand in ``gateway``."""

from typing import Literal, Self

from claw import ChannelConfig
from pydantic import Field, model_validator

CALLER = "api"
"""The stable id of all callers with the gateway's token."""


class HttpSettings(ChannelConfig):
    """``channels.http``. Whoever has ``gateway.auth.token`` may write: his id is ``api``.

    He is no owner, unless ``owners`` names ``http:api``.
    """

    dm_policy: Literal["pairing", "allowlist", "open", "disabled"] = Field(
        "allowlist", description="disabled takes the API away and leaves the webhooks."
    )
    allow_from: tuple[str, ...] = Field((CALLER,), description="Leave it: api is who has the token.")
    hosts: tuple[str, ...] = Field(
        (), description="Names by which callers reach the API, beside localhost and those of allowOrigins."
    )
    answer_seconds: float = Field(600, gt=0, description="How long a caller waits for an answer.")

    @model_validator(mode="after")
    def _each_request_has_its_answer(self) -> Self:
        written = self.queue.model_fields_set if self.queue else ()
        if self.queue and "mode" in written and self.queue.mode not in ("followup", "interrupt"):
            raise ValueError(
                f"a request waits for its own answer, and {self.queue.mode} answers several at once. "
                "Take queue.mode followup or interrupt"
            )
        return self

    @property
    def admits_callers(self) -> bool:
        """True if a caller who has the token is admitted."""
        if self.dm_policy == "open":
            return True
        return self.dm_policy != "disabled" and bool({CALLER, f"http:{CALLER}"} & set(self.allow_from))
