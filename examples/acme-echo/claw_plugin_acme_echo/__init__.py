"""A provider, a channel and a sandbox that need no service: the smallest answers to their hooks."""

import asyncio
import shutil
from pathlib import Path

from claw import (
    Address,
    Assistant,
    ChannelConfig,
    ChannelLimits,
    Credential,
    Finished,
    Inbound,
    Receipt,
    Sender,
    Text,
    TextDelta,
    User,
    hookimpl,
)
from pydantic import Field


class Echo:
    """A provider: it repeats the newest message of the person."""

    name = "echo"

    async def stream(self, request):
        said = next(message for message in reversed(request.messages) if isinstance(message, User))
        text = "\n".join(block.text for block in said.content if isinstance(block, Text))
        yield TextDelta(text)
        yield Finished(Assistant((Text(text),)))

    def context_tokens(self, model):
        return 100_000

    def credentials(self):
        return (Credential("none", ""),)  # an empty secret: it needs no key


class FolderConfig(ChannelConfig):
    """``channels.folder``."""

    path: Path = Field(description="A folder: each file NAME.txt is a message, NAME.reply its answer.")


class Folder:
    """A channel: files come in, files go out."""

    name = "folder"
    capabilities = frozenset({"idempotent"})  # a second send of a key writes the same file again
    limits = ChannelLimits(text_chars=100_000)

    def __init__(self, path):
        self._path = path

    async def run(self, inbox):
        while True:
            for file in sorted(self._path.glob("*.txt")):
                address = Address(self.name, file.stem)
                text = file.read_text()
                if await inbox.submit(Inbound(address, text, Sender("writer"), message_id=file.name)):
                    file.rename(file.with_suffix(".read"))  # acknowledged: claw has it on disk
            await asyncio.sleep(0.1)

    async def send(self, outbound):
        (self._path / f"{outbound.address.chat}.reply").write_text(outbound.text)
        return Receipt((outbound.key,))


class Bubblewrap:
    """A sandbox: the whole disk can be read, only the workspace can be written."""

    name = "bwrap"

    async def probe(self):
        if not shutil.which("bwrap"):
            return "bubblewrap is not installed"
        process = await asyncio.create_subprocess_exec("bwrap", "--ro-bind", "/", "/", "true")
        return "" if await process.wait() == 0 else "bubblewrap does not work here"

    def wrap(self, argv, *, workspace, environment):
        writable = ["--bind", str(workspace), str(workspace), "--chdir", str(workspace)]
        return ["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", *writable, *argv]


@hookimpl
def register_providers(config):
    return [Echo()]


@hookimpl
def register_channels(config):
    if section := config.channel("folder", FolderConfig):
        yield Folder(section.path)


@hookimpl
def register_sandboxes(config):
    return [Bubblewrap()]
