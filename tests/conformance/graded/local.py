"""The model on this machine. Each test starts the engine: ``claw plugins grade plugins/local`` alone runs this."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import claw_local
import pytest
from claw.testing import plugin_contributions
from claw_local import engine
from pytest_claw import OwnProtocolSuite


class TestLocal(OwnProtocolSuite):
    model, unknown_model = "smollm2", "/no/such/model.gguf"
    limit_seconds = 60.0

    @pytest.fixture(autouse=True)
    def _installed(self) -> None:
        if find_spec(engine.ENGINE) is None or find_spec(engine.WEIGHTS) is None:
            why = "the local engine is not installed; get it with: claw local setup"
            if os.environ.get("CI"):
                pytest.fail(why)
            pytest.skip(why)

    @asynccontextmanager
    async def provider(self, folder: Path) -> AsyncIterator[Any]:
        tree = {"providers": {"local": {"threads": 1, "maxTokens": 4}}}
        async with plugin_contributions(claw_local, tree, "local", home=folder) as answers:
            yield answers["register_providers"][0]
