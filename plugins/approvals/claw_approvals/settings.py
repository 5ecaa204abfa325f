"""``approvals`` in the config file."""

from collections.abc import Iterator
from typing import Any

from claw import Section
from claw.runtime import Duration, Names, People, odd_people
from pydantic import Field


class ApprovalSettings(Section):
    """``approvals``: tool calls that a person must allow."""

    tools: Names = Field(
        (), description="Tools (names, groups, patterns) of which every call is asked about."
    )
    approvers: People = Field((), description="Who may allow, channel:id; empty = the owners.")
    timeout: Duration = Field(600.0, gt=0, description="After it nobody has allowed: the call is refused.")

    def odd_keys(self, agents: Any) -> Iterator[tuple[tuple[str | int, ...], str, str, dict[str, object]]]:
        """Yield path, problem, fix and values of each approver that names nobody."""
        for index, problem, fix, values in odd_people(self.approvers):
            yield ("approvers", index), problem, fix, values
