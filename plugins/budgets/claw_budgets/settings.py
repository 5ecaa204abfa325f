"""``budgets`` in the config file."""

from collections.abc import Iterator, Sequence
from typing import Literal, Self

from claw import Section
from claw.runtime import validation_error
from pydantic import Field, PositiveInt, RootModel, model_validator

_OTHER_PERIODS = frozenset(
    {"hour", "hourly", "week", "weekly", "month", "monthly", "year", "yearly", "turn", "session"}
)
_PATTERN = frozenset("*?[")


class BudgetSettings(Section):
    """A cap. A model call that could exceed it is not made."""

    usd: float | None = Field(None, gt=0, description="Dollars.")
    tokens: PositiveInt | None = Field(None, description="Tokens, read and written, cached ones too.")
    per: Literal["day", "session", "turn"] = Field(
        "day", description="day: of this machine's clock; session: until it is reset; turn: one message."
    )
    agent: str | None = Field(None, description="Only calls of this agent; a pattern such as team-*.")
    job: str | None = Field(None, description="Only calls for this job of the clock; * = all of them.")
    session: str | None = Field(None, description="Only calls in this session key, or pattern.")

    @model_validator(mode="after")
    def _has_a_cap(self) -> Self:
        if self.usd is None and self.tokens is None:
            raise validation_error("sets no limit", "Write usd: 5, or tokens: 1000000")
        return self


class Budgets(RootModel[dict[str, BudgetSettings]]):
    """Caps on what model calls may cost, by names of yours."""

    root: dict[str, BudgetSettings] = {}

    @model_validator(mode="after")
    def _name_promises_no_other_period(self) -> Self:
        for name, budget in self.root.items():
            if name.lower() in _OTHER_PERIODS and "per" not in budget.model_fields_set:
                problem = "is a name, and this budget counts per day"
                raise validation_error(problem, "Write per: day, or another name", at=(name,))
        return self

    def odd_keys(
        self, agents: Sequence[str]
    ) -> Iterator[tuple[tuple[str, ...], str, str, dict[str, object]]]:
        """Yield a warning for each cap on an unknown agent, which has no effect. A pattern may match later agents."""
        for name, budget in self.root.items():
            wanted = budget.agent or ""
            if wanted and not _PATTERN.intersection(wanted) and wanted not in agents:
                problem = "there is no agent {id}, so this budget has no effect"
                yield (name, "agent"), problem, "Agents: {names}", {"id": wanted, "names": [*agents]}
