"""Shared by all tests: options, and a machine of its own for each test."""

import os
import signal
from pathlib import Path

import pytest
from hypothesis import settings

pytest.register_assert_rewrite("cases.adapters", "cases.made")  # a row that fails shows what was compared

# A busy machine is no fault of a property. What Hypothesis takes for itself under CI stays as it is.
settings.register_profile("busy", settings(), deadline=None)
settings.load_profile("busy")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--cases", default=None, help="folder of *.jsonl tables to run instead of the project's copy"
    )
    # pytest itself has --fixtures: run.py hands ours on under this name.
    parser.addoption(
        "--wire-fixtures", default=None, help="folder of wire fixtures to run instead of the project's copy"
    )
    parser.addoption("--full", action="store_true", help="run the large figures whole, not as a sample")


def pytest_configure(config: pytest.Config) -> None:
    """A shell that starts us in the background has switched Ctrl-C off, for our children too: they get it back."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Stop if pytest-xdist does not keep the tests of a group together: each rig would run in every worker."""
    grouped = [one for one in items if one.get_closest_marker("xdist_group")]
    if config.getoption("loadgroup", False) and not all("@" in one.nodeid for one in grouped):
        raise pytest.UsageError(
            f"pytest-xdist forms no groups with pytest {pytest.__version__}: see constraints.txt"
        )


@pytest.fixture
def full(request: pytest.FixtureRequest) -> bool:
    """Return true if the large cases run in full."""
    return bool(request.config.getoption("--full"))


@pytest.fixture(autouse=True)
def _own_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No test sees this machine's home, keys, proxies or language."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("CLAW_HOME", str(home / ".claw"))
    monkeypatch.setenv("LANG", "C.UTF-8")
    for name in (
        "LC_ALL",
        "LC_MESSAGES",
        "ANTHROPIC_API_KEY",
        "OPENAI_API_KEY",
        "GEMINI_API_KEY",
        "GOOGLE_API_KEY",
        "MISTRAL_API_KEY",
        "ANTHROPIC_BASE_URL",
        "OPENAI_BASE_URL",
        "GOOGLE_GEMINI_BASE_URL",
        "MISTRAL_BASE_URL",
    ):
        monkeypatch.delenv(name, raising=False)
    for name in (
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "http_proxy",
        "https_proxy",
        "all_proxy",
        "NO_COLOR",
    ):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def home(_own_machine: None) -> Path:
    """The home of the commands that a test runs in this process: empty, and closed to others."""
    folder = Path(os.environ["CLAW_HOME"])
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder
