"""The plugin of the rig: four tools that append a line to a file, and an import that takes a while.

Its source is text: it is installed as a distribution of its own, in a folder that a gateway has on its path.
"""

from pathlib import Path

SOURCE = '''
import os
import time

from claw import hookimpl, tool

with open(os.environ["RIG_IMPORTED"], "a") as file:
    file.write(f"{os.getpid()}\\n")
time.sleep(float(os.environ.get("RIG_IMPORT_SECONDS", "0")))


def _append(name, question):
    with open(os.environ["RIG_EFFECTS"], "a") as file:
        file.write(f"{name} {question}\\n")
    time.sleep(float(os.environ.get("RIG_TOOL_SECONDS", "0.2")))
    return f"noted {question}"


@tool(effects="once")
def note_once(question: str) -> str:
    """Note a question; must not run twice."""
    return _append("once", question)


@tool(effects="idempotent")
def note_idempotent(question: str) -> str:
    """Note a question; may run again."""
    return _append("idempotent", question)


@tool
def note_undeclared(question: str) -> str:
    """Note a question; it does not say whether it may run again."""
    return _append("undeclared", question)


@tool(effects="idempotent")
def note_file(question: str) -> str:
    """Write a file for a question."""
    os.makedirs(os.environ["RIG_FILES"], exist_ok=True)
    with open(os.path.join(os.environ["RIG_FILES"], f"file-{question}.txt"), "w") as file:
        file.write(question)
    return _append("file", question)


@hookimpl
def register_tools(config):
    return [note_once, note_idempotent, note_undeclared, note_file]
'''


def install(folder: Path) -> Path:
    """Install the plugin ``rignotes`` below ``folder``; return the folder for ``PYTHONPATH``."""
    package = folder / "rignotes"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(SOURCE)
    info = folder / "rignotes-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: rignotes\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[claw.plugins]\nrignotes = rignotes\n")
    return folder
