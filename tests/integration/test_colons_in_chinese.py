"""In Chinese, no command prints a half-width colon behind a Chinese word; documents (``--json``) keep what they hold."""

import ast
import re
from collections.abc import Iterator

import pytest
from core.source import CORE, plugin_packages, sources
from integration.surfaces import Forked, machine_in, server  # noqa: F401 - a fixture
from integration.test_states_in_chinese import PLUGINS, WORLD

HALF_WIDTH = re.compile(r".*[一-鿿）」”] ?:(?:\s.*|$)")
COMMANDS = (
    *("status", "doctor", "version", "plugins list", "plugins doctor", "plugins doctor bad", "plugins outdated"),
    *(f"plugins info {id}" for id in PLUGINS),
    *("tools list", "tools list --all", "tools explain exec", "tools explain one_do", "tools explain five_do"),
    *("tools explain two_do", "tools explain none", "tools call ls", "tools call none", "policy show", "policy layers"),
    *("route explain", "route explain --channel telegram --sender 7", "route explain --channel discord --sender 7"),
    *("route explain --channel slack --sender 7", "config validate", "config path", "config get locale"),
    *("config set agents.defaults.temperature 1", "config set agents.defaults.model toy", "config validate"),
    *("config set agents.defaults.model offline/rules", "models list", "models status", "auth list", "usage"),
    *("sessions list", "sessions show main", "sessions export main", "sessions search hello", "sessions archive"),
    *("sessions reset main", "sessions list --aside", "sessions repair --all", "turns list", "prompt show"),
    *("prompt stability", "memory status", "skills list", "skills check", "mcp list", "mcp show far", "approvals list"),
    *("pairing list", "channels list", "channels status", "gateway status", "gateway logs", "logs", "hooks list"),
    *("llm-bridge list", "plugins disable good", "plugins enable good", "plugins lock", "plugins verify", "people list"),
    *("none", "tools", "chat --agent none hello", "sessions show none", "gateway stop", "gateway install --print"),
)  # fmt: skip


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory, server: Forked) -> Forked:  # noqa: F811
    machine = machine_in(WORLD, tmp_path_factory.mktemp("colons"), server)
    machine.claw("config", "unset", "locale")
    machine.environ["LANG"] = "zh_CN.UTF-8"
    machine.claw("plugins", "doctor")
    assert machine.claw("chat", "hello: what time is it?").code == 0
    return machine


def wrong_lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if HALF_WIDTH.match(line)]


def test_no_command_prints_a_half_width_colon_behind_a_chinese_word(machine: Forked) -> None:
    wrong, chinese = list[str](), 0
    for command in COMMANDS:
        said = machine.claw(*command.split())
        chinese += bool(re.search("[一-鿿]", said.out + said.err))
        wrong += [f"claw {command}: {line}" for line in wrong_lines(said.out + said.err)]

    assert wrong == []
    assert chinese > 60


def test_a_label_has_no_blank_behind_its_colon(machine: Forked) -> None:
    said = machine.claw("route", "explain", "--channel", "telegram", "--sender", "7").out

    assert "：" in said
    assert "： " not in said
    assert (
        '"why": ' in machine.claw("route", "explain", "--channel", "telegram", "--sender", "7", "--json").out
    )


def joined_with_a_colon(tree: ast.AST) -> Iterator[int]:
    """Yield the lines of texts that join a translation, or what a finding is about, with a half-width colon."""
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            for part, then in zip(node.values, node.values[1:], strict=False):
                label = part.value if isinstance(part, ast.FormattedValue) else None
                is_translated = isinstance(label, ast.Call) and getattr(label.func, "id", "") == "t"
                is_about = isinstance(label, ast.Attribute) and label.attr == "about"
                if (
                    (is_translated or is_about)
                    and isinstance(then, ast.Constant)
                    and re.match(r":(\s|$)", str(then.value))
                ):
                    yield node.lineno


def test_no_code_joins_a_translation_with_a_half_width_colon() -> None:
    files = [source for package in (CORE, *plugin_packages()) for source in sources(package)]
    found = [f"{source.path}:{line}" for source in files for line in joined_with_a_colon(source.tree)]

    assert found == [], "use claw.runtime.with_label"
    assert len(files) > 300
    assert list(joined_with_a_colon(ast.parse("f\"{t('why')}: {why}\""))) == [1]
    assert list(joined_with_a_colon(ast.parse('f"{one.about}: {one.problem}"'))) == [1]


@pytest.mark.parametrize(
    ("line", "is_wrong"),
    [
        ("  原因: x", True),
        ("值 : x", True),
        ("网关:", True),
        ("原因：x", False),
        ("时间 3:4", False),
        ("key: 值", False),
    ],
)
def test_a_half_width_colon_is_found(line: str, is_wrong: bool) -> None:
    assert bool(wrong_lines(line)) is is_wrong
