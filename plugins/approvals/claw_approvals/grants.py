"""Lasting permissions: calls that a person allowed for always, each until it is revoked or not used for a long time."""

from dataclasses import astuple, fields

from claw import ApprovalRequest
from claw.runtime import Clock, Database

from claw_approvals.records import Grant, new_id
from claw_approvals.seals import WRITE, Seals

UNUSED_DAYS = 90  # spec P16: a permanent grant that is not used for this long expires
DAY_MS = 24 * 3600 * 1000


class LastingGrants:
    """The calls that are always allowed."""

    def __init__(self, database: Database, clock: Clock, seals: Seals) -> None:
        self._database, self._clock, self._seals = database, clock, seals

    def all(self) -> tuple[Grant, ...]:
        """Return those in force, oldest first."""
        columns = ", ".join(field.name for field in fields(Grant))
        rows = self._database.read(f"SELECT {columns} FROM grants ORDER BY granted_at_ms, id")
        return tuple(filter(self._is_ours, (Grant(*row) for row in rows)))

    def add(self, request: ApprovalRequest, by: str) -> None:
        """Allow this call for always.

        :param by: who said so, ``channel:id``.
        """
        now, asked = self._clock.now_ms(), request
        grant = Grant(
            new_id(), asked.agent, asked.tool, asked.grant, asked.title, asked.shown, by, now, now
        )  # fmt: skip
        self._database.write_all(
            ("INSERT OR REPLACE INTO grants VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", astuple(grant)),
            (WRITE, (grant.id, self._seals.make(*_facts(grant)))),
        )

    def use(self, request: ApprovalRequest) -> bool:
        """Return true if this call is allowed for always, and count the use."""
        now = self._clock.now_ms()
        wanted = request.agent, request.tool, request.grant
        found = (
            (one for one in self.all() if (one.agent, one.tool, one.digest) == wanted)
            if request.grant
            else ()
        )
        grant = next(iter(found), None)
        return grant is not None and self._database.write(
            "UPDATE grants SET used_at_ms = ? WHERE id = ? AND used_at_ms > ?",
            now, grant.id, now - UNUSED_DAYS * DAY_MS,
        ) == 1  # fmt: skip

    def revoke(self, id: str) -> bool:
        """Delete one; return false when there is none of this id."""
        return self._database.write("DELETE FROM grants WHERE id = ?", id.strip().lower()) == 1

    def delete_unused(self) -> None:
        """Delete those that were not used for :data:`UNUSED_DAYS`."""
        self._database.write(
            "DELETE FROM grants WHERE used_at_ms <= ?", self._clock.now_ms() - UNUSED_DAYS * DAY_MS
        )

    def _is_ours(self, grant: Grant) -> bool:
        return self._seals.is_sealed(grant.id, *_facts(grant))


def _facts(grant: Grant) -> tuple[object, ...]:
    """Return all but the time of its use."""
    return astuple(grant)[:-1]
