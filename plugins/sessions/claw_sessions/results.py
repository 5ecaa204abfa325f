"""The kept tool results of a session, which end with it: moved away when it is archived, deleted with its file."""

import errno
import shutil
from contextlib import suppress
from pathlib import Path

from claw.runtime import results_folder, safe_file_name


def archive_results(agent_dir: Path, session_key: str, session_id: str) -> None:
    """Move the results of an ended session below its id, where no agent reads.

    :raises OSError: the disk refused.
    """
    results, place = results_folder(agent_dir, session_key), _archived_results(agent_dir, session_id)
    with suppress(FileNotFoundError):
        try:
            results.rename(place)
        except OSError as refused:
            if refused.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            for path in tuple(results.iterdir()):  # an earlier attempt was interrupted after the rename
                path.replace(place / path.name)
            results.rmdir()


def delete_results(agent_dir: Path, session_id: str) -> None:
    """Delete the results of a session that is deleted."""
    shutil.rmtree(_archived_results(agent_dir, session_id), ignore_errors=True)


def _archived_results(agent_dir: Path, session_id: str) -> Path:
    return results_folder(agent_dir, "").with_name(safe_file_name(session_id))
