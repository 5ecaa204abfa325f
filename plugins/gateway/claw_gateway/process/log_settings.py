"""``logging`` in the config file: the log file of the gateway, ``logs/claw.jsonl``."""

from typing import Literal

from claw_config_sdk import Size
from pydantic import Field, RootModel

_Level = Literal["debug", "info", "warning", "error"]


class LogLevel(RootModel[_Level]):
    """This and graver; of libraries warnings and graver ones alone."""

    root: _Level = "info"


class LogSize(RootModel[Size]):
    """A file that grows beyond it is put aside."""

    root: Size = Field(10 << 20, ge=10_000)


class LogsKept(RootModel[int]):
    """Number of files put aside that stay."""

    root: int = Field(5, ge=0, le=100)
