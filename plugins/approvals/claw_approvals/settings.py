"""``approvals`` in the config file."""

from claw import Section
from claw.runtime import Duration, Names, People
from pydantic import Field


class ApprovalSettings(Section):
    """``approvals``: tool calls that a person must allow."""

    tools: Names = Field(
        (), description="Tools (names, groups, patterns) of which every call is asked about."
    )
    approvers: People = Field((), description="Who may allow, channel:id; empty = the owners.")
    timeout: Duration = Field(600.0, gt=0, description="After it nobody has allowed: the call is refused.")
