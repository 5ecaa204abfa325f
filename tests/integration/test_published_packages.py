"""Packages that nobody here wrote, from the index: installed, listed, explained, called, in a turn, and removed.

Two of them run in CI; ``python3 run.py test --full -m index tests/integration/test_published_packages.py`` tries all and
writes what came of each into published_outcomes.json, from which ``python docs/make.py`` makes docs/tried-packages.md.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import pytest
from integration.published import OUTCOMES, Outcome, Package, Trial, packages, service
from integration.test_packaging import Venv
from plugins.fresh_environment import built

pytestmark = [pytest.mark.index, pytest.mark.timeout(900), pytest.mark.xdist_group("published")]
RECORDED = {line["name"]: Outcome(**line) for line in json.loads(OUTCOMES.read_text("utf-8"))["outcomes"]}


class Shop:
    """claw as a person installs it, and homes for trials."""

    def __init__(self, folder: Path, url: str) -> None:
        self._folder, self._url = folder, url
        self._venv = Venv(folder)
        core, *plugins = built(folder / "wheels", "llm-bridge", "mcp")
        self._venv.install(core, *plugins)
        self._sdk = f"{plugins[1]}[sdk]"  # large: installed for the first MCP server
        self._seed = folder / "seed"
        self._trial(self._seed, None).install("llm")
        self.outcomes: list[Outcome] = []

    def try_out(self, package: Package) -> Outcome:
        """Return what came of a package in a home of its own."""
        home = self._folder / "homes" / package.name.replace("/", "+")
        if package.kind != "llm" and self._sdk:
            self._venv.install(self._sdk)
            self._sdk = ""
        outcome = self._trial(home, self._seed if package.kind == "llm" else None).run(package)
        self.outcomes.append(outcome)
        return outcome

    def _trial(self, home: Path, seed: Path | None) -> Trial:
        return Trial(self._venv.folder / "bin" / "claw", home, self._venv.links, self._url, seed)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "package" in metafunc.fixturenames:
        full = metafunc.config.getoption("--full")
        chosen = [package for package in packages() if full or package.sample]
        metafunc.parametrize("package", chosen, ids=lambda package: package.name)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[Shop]:
    with service() as url:
        shop = Shop(tmp_path_factory.mktemp("published"), url)
        yield shop
    if pytestconfig.getoption("--full"):
        date = datetime.now(UTC).date().isoformat()
        tried = {name: asdict(one) for name, one in RECORDED.items()} | {
            o.name: asdict(o) for o in shop.outcomes
        }
        lines = [tried[package.name] for package in packages() if package.name in tried]
        OUTCOMES.write_text(
            json.dumps({"date": date, "outcomes": lines}, ensure_ascii=False, indent=2) + "\n", "utf-8"
        )


def test_a_published_package_does_what_it_did_when_it_was_recorded(package: Package, shop: Shop) -> None:
    recorded, outcome = RECORDED[package.name], shop.try_out(package)
    assert (outcome.version, outcome.result) == (recorded.version, recorded.result), outcome


def test_enough_packages_work() -> None:
    works = [package.kind for package in packages() if RECORDED[package.name].result in ("works", "needs")]
    assert works.count("llm") >= 20
    assert len(works) - works.count("llm") >= 10
