"""The commits of ``state.db`` on the medium."""

import os

import pytest
from claw.contracts.errors import ClawError
from claw.storage.database import Database
from claw.storage.files import Disk
from claw_gateway.commit_sync import CommitSync


def test_the_name_of_a_new_log_is_synced_again_when_that_failed(tmp_path):
    folders, refuse = [], [OSError(5, "Input/output error")]

    def sync_all(fd):
        if refuse:
            raise refuse.pop()
        folders.append(os.readlink(f"/proc/self/fd/{fd}"))

    database = Database(tmp_path / "state.db", disk=Disk(sync_all=sync_all))
    database.write("CREATE TABLE t (x)")
    commits = CommitSync(database)
    with pytest.raises(ClawError, match="cannot write"):
        commits.sync()
    commits.sync()
    assert folders == [str(tmp_path)]
    commits.sync()
    assert folders == [str(tmp_path)], "once is enough"
    commits.close()
    database.close()
