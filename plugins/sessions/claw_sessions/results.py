"""The kept tool results of a session, which end with it: moved away when it is archived, deleted with its file."""

import shutil
from contextlib import suppress
from pathlib import Path

from claw.runtime import results_folder, safe_file_name


def archive_results(agent_dir: Path, session_key: str, session_id: str) -> None:
    """Move the results of an ended session below its id, where no agent reads.

    :raises OSError: the disk refused.
    """
    with suppress(FileNotFoundError):
        results_folder(agent_dir, session_key).rename(_archived_results(agent_dir, session_id))


def delete_results(agent_dir: Path, session_id: str) -> None:
    """Delete the results of a session that is deleted."""
    shutil.rmtree(_archived_results(agent_dir, session_id), ignore_errors=True)


def _archived_results(agent_dir: Path, session_id: str) -> Path:
    return results_folder(agent_dir, "").with_name(safe_file_name(session_id))
