"""The provider that calls no service keeps to what pytest-claw asks of everybody's."""

from pathlib import Path
from typing import Any

import claw_offline
from pytest_claw import OwnProtocolSuite


class TestOffline(OwnProtocolSuite):
    model = "rules"

    def make(self, folder: Path) -> Any:
        return claw_offline.register_providers(None)[0]  # type: ignore[index, arg-type]  it reads no config
