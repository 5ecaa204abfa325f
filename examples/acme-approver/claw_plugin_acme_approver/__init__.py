"""An approver over files: ``ID.question`` holds a request, and a person writes yes or no into ``ID.answer``."""

import asyncio
from pathlib import Path

from claw import Decision, Section, hookimpl

PAUSE_SECONDS = 0.1


class Settings(Section):
    """``plugins.entries.acme-approver.config``."""

    folder: str = ""


class FolderApprover:
    """Asks about each request again; a request is known by its digest, which covers all that the call does."""

    name = "acme-approver"

    def __init__(self, folder):
        self._folder = folder

    async def ask(self, request):
        if request.for_owners:  # a file does not say who wrote it
            return Decision("deny", "only an owner may allow this, and a file does not say who answered")
        self._folder.mkdir(parents=True, exist_ok=True)
        question = self._folder / f"{request.digest[:40]}.question"
        answer = question.with_suffix(".answer")
        question.write_text(f"{request.tool}: {request.title}\n\n{request.shown}\n")
        try:
            while not answer.exists():  # noqa: ASYNC110 - a file sends no event
                await asyncio.sleep(PAUSE_SECONDS)
            allowed = answer.read_text().strip().lower() == "yes"
            return Decision("once") if allowed else Decision("deny", "the person said no")
        finally:  # also when the turn is stopped, which cancels the wait
            question.unlink(missing_ok=True)
            answer.unlink(missing_ok=True)


@hookimpl
def register_approvers(config):
    folder = config.plugin(Settings).folder
    return [FolderApprover(Path(folder) if folder else config.state_dir / "questions")]
