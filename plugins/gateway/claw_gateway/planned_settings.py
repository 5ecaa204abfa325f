"""Settings of features that are not built yet: ``agents.heartbeat``, ``cron`` and ``hooks``. They are checked and have no
effect, which a warning says."""

from collections.abc import Iterator
from typing import Any

from claw import Secret, Section
from claw.runtime import Duration, Model, Zone, validation_error
from pydantic import Field, field_validator, model_validator

OddKey = tuple[tuple[str | int, ...], str, str, dict[str, object]]
"""Path inside the section, problem, fix, and the values of both."""


def _no_effect(feature: str) -> OddKey:
    problem = "it has no effect: {feature} are not built yet"
    return (), problem, "Remove it; claw runs when someone writes to it", {"feature": feature}


class ActiveHours(Section):
    """Start, end and time zone of the active hours."""

    start: str | None = Field(
        None, pattern=r"^([01]\d|2[0-3]):[0-5]\d$", examples=["09:00"], description="HH:MM."
    )
    end: str | None = Field(
        None,
        pattern=r"^(([01]\d|2[0-3]):[0-5]\d|24:00)$",
        examples=["22:30"],
        description="HH:MM, not included.",
    )
    timezone: Zone = Field("user", description="user, local or a name such as Asia/Shanghai.")


class Heartbeat(Section):
    """Turns that the scheduler starts. They are not built yet: none is started."""

    every: Duration = Field(1800.0, description="off, or at least 10s.")
    active_hours: ActiveHours | None = None
    model: Model | None = Field(None, description="The model of these turns; absent = the agent's.")
    session: str = Field("main", description="The conversation in which they run.")
    target: str = Field("last", description="Where to say it: last, none, or a channel.")
    to: str | None = Field(None, description="Id of the chat in that channel.")
    prompt: str | None = Field(None, description="What the agent is told.")
    ack_max_chars: int = Field(
        300, ge=0, description="Longest text beside an acknowledgement that is not sent."
    )
    light_context: bool = Field(False, description="Leave most context files out of the prompt.")

    @field_validator("every")
    @classmethod
    def _not_a_busy_loop(cls, value: float) -> float:
        if 0 < value < 10 or value < 0:
            raise validation_error(
                "must be at least 10s", "Write a longer time such as 30m; off or 0m switches it off"
            )
        return value

    def odd_keys(self, agents: Any) -> Iterator[OddKey]:
        """Yield that no turn is started by it."""
        if self.every:
            yield _no_effect("heartbeats")


class Hooks(Section):
    """``hooks``: messages that other programs post. They are not built yet: nothing listens."""

    enabled: bool = Field(False, description="Accept posted messages; not built yet.")
    path: str = Field("/hooks", description="Path of their URLs.")
    token: Secret | None = Field(None, description="What the programs must send; needed when enabled.")
    allow_request_session_key: bool = Field(False, description="Let them name the conversation.")

    @model_validator(mode="after")
    def _posting_needs_token(self) -> "Hooks":
        if (self.enabled or self.allow_request_session_key) and (self.token is None or self.token.empty):
            problem = "the token is empty, so anyone could post"
            raise validation_error(problem, "Write a long random token", at=("token",))
        return self

    def odd_keys(self, agents: Any) -> Iterator[OddKey]:
        """Yield that nothing listens."""
        if self.enabled:
            yield _no_effect("hooks")


class CronJob(Section):
    """One scheduled job."""

    id: str = Field(min_length=1, description="Name of the job.")
    enabled: bool = Field(True, description="false: it does not run.")
    schedule: str | None = Field(None, description="Five cron fields: minute hour day month weekday.")
    prompt: str = Field("", description="What the agent is told.")


class Cron(Section):
    """``cron``: scheduled jobs. They are not built yet: no job runs."""

    enabled: bool = Field(True, description="false: no job runs.")
    jobs: tuple[CronJob, ...] = Field((), description="The jobs.")

    def odd_keys(self, agents: Any) -> Iterator[OddKey]:
        """Yield that no job runs, and each schedule that is wrong."""
        if self.enabled and self.jobs:
            yield _no_effect("scheduled jobs")
        for index, job in enumerate(self.jobs):
            if job.schedule is not None and len(job.schedule.split()) != 5:
                problem = "a schedule has five fields, and this one does not: the job is disabled"
                fix = "Write minute hour day month weekday, such as: 0 9 * * 1-5"
                yield ("jobs", index, "schedule"), problem, fix, {}
