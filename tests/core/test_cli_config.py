"""``claw config``, ``init``, ``status`` and ``completion``, as typed."""

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from claw.cli.output import table
from claw.config import source
from claw.contracts.errors import UsageError
from claw.host.manifest import InstalledPlugin, Manifest, ProviderDeclaration
from claw_admin.config_file.get import MASK, masked
from claw_admin.setup import init
from claw_config_sdk import get_value
from typer.testing import CliRunner

Claw = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def home() -> Path:
    return Path(os.environ["CLAW_HOME"])


@pytest.fixture
def claw() -> Claw:
    def run(*words: str, typed: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "claw", *words], input=typed, capture_output=True, text=True, timeout=60
        )

    return run


def test_set_get_and_unset_a_key(claw: Claw, home: Path) -> None:
    home.mkdir()
    (home / "config.yaml").write_text("# mine\nlocale: en\n", encoding="utf-8")

    assert claw("config", "set", "tools.deny[]", "exec").returncode == 0
    assert claw("config", "set", "channels.telegram.allowFrom[]", "123").returncode == 0

    assert claw("config", "get", "tools.deny").stdout == "- exec\n"
    assert json.loads(claw("config", "get", "channels.telegram.allowFrom", "--json").stdout)["value"] == [
        "123"
    ]
    assert claw("config", "unset", "tools.deny").returncode == 0
    assert claw("config", "get", "tools.deny").returncode == 2
    assert (home / "config.yaml").read_text(encoding="utf-8").startswith("# mine\nlocale: en\n")


@pytest.mark.parametrize(
    ("key", "value", "stored"),
    [
        ("gateway.auth.token", "-7x--h_Vh", "-7x--h_Vh"),
        ("gateway.auth.token", "--json", "--json"),
        ("channels.telegram.allowFrom[]", "-100123", ["-100123"]),
    ],
)
def test_a_value_may_begin_with_a_dash(claw: Claw, home: Path, key: str, value: str, stored: object) -> None:
    done = claw("config", "set", key, value)

    assert (done.returncode, "unknown option" in done.stderr) == (0, False), done.stderr
    written = source.read_config(home / "config.yaml").tree
    assert get_value(written, key.removesuffix("[]"), {}) == stored
    assert "Usage:" in claw("config", "set", key, "--help").stdout
    assert claw("config", "set", "--jsn", "x").returncode == 2


def test_set_and_unset_print_the_old_and_the_new_value(claw: Claw, home: Path) -> None:
    file = home / "config.yaml"

    def printed(*words: str) -> str:
        return claw("config", *words).stdout.removeprefix(f"{file}: ").rstrip("\n")

    assert printed("set", "locale", "zh") == "locale: （未设置） → zh"
    assert printed("set", "locale", "en") == "locale: zh → en"
    assert printed("set", "locale", "en") == "locale was already set"
    assert printed("set", "tools.deny[]", "exec") == 'tools.deny: (not set) → ["exec"]'
    assert printed("set", "tools.deny[]", "write") == 'tools.deny: ["exec"] → ["exec", "write"]'
    changed = json.loads(claw("config", "set", "tools.deny", "[exec]", "--json").stdout)
    assert (changed["old"], changed["new"]) == (["exec", "write"], ["exec"])
    assert printed("unset", "tools.deny") == 'tools.deny: ["exec"] → (not set)'


def test_a_secret_that_is_written_into_the_file_is_masked_and_warned_about(claw: Claw) -> None:
    key = "providers.openai.apiKey"

    first, second = (
        claw("config", "set", key, "sesame-open-1"),
        claw("config", "set", key, "sesame-open-2", "--json"),
    )
    whole = claw(
        "config", "set", "providers", "{openai: {apiKey: sesame-open-3, baseUrl: 'https://a.example'}}"
    )
    reference = claw("config", "set", key, "${PATH}")

    assert f"{key}: (not set) → {MASK}" in first.stdout
    assert f"{key}: the secret is in the file as it is" in first.stderr and "${NAME}" in first.stderr
    changed = json.loads(second.stdout)
    assert (changed["old"], changed["new"], len(changed["warnings"])) == (MASK, MASK, 1)
    assert f"{key}: the secret" in whole.stderr
    assert (f"{MASK} → ${{PATH}}" in reference.stdout, reference.stderr) == (True, "")
    assert "sesame" not in first.stdout + first.stderr + second.stdout + whole.stdout + whole.stderr


def test_a_typo_is_warned_about_as_soon_as_it_is_set(claw: Claw) -> None:
    done = claw("config", "set", "tools.deny[]", "exce")
    assert done.returncode == 0
    assert "Did you mean exec?" in done.stderr


def test_a_refused_change_leaves_the_file_and_says_why(claw: Claw, home: Path) -> None:
    claw("config", "set", "tools.profile", "coding")
    done = claw("config", "set", "tools.profile", "codng")
    assert (done.returncode, done.stdout) == (3, "")
    assert "Did you mean coding?" in done.stderr
    assert "profile: coding" in (home / "config.yaml").read_text(encoding="utf-8")


def test_get_never_shows_a_secret(claw: Claw) -> None:
    claw("config", "set", "providers.openai.apiKey", "sesame-open-1")
    for words in (
        ("config", "get"),
        ("config", "get", "--json"),
        ("config", "get", "providers.openai.apiKey"),
    ):
        assert "sesame" not in claw(*words).stdout
        assert MASK in claw(*words).stdout


def test_what_only_points_at_a_secret_is_shown() -> None:
    tree = {"apiKey": "${KEY}", "token": {"env": "T"}, "botToken": "1:a", "maxTokens": 5, "silentToken": "NO_REPLY",
            "headers": {"x-team": "t"}, "password": ""}  # fmt: skip
    assert masked(tree) == tree | {"botToken": MASK, "headers": {"x-team": MASK}}


def test_a_key_whose_plugin_is_switched_off_is_an_error_for_every_command_that_judges_the_file(
    claw: Claw, home: Path
) -> None:
    home.mkdir()
    text = "budgets:\n  day: {usd: 1}\nplugins: {entries: {budgets: {enabled: false}}}\n"
    (home / "config.yaml").write_text(text, encoding="utf-8")
    said = "budgets: it has no effect: plugin budgets is disabled. claw config set plugins.entries.budgets.enabled true"

    for words in (["config", "validate"], ["chat", "hi"], ["gateway", "run"]):
        done = claw(*words)
        assert (done.returncode, f"config.yaml:1: {said}" in done.stderr) == (3, True), words
    assert "config.yaml:1: budgets: it has no effect: plugin budgets is disabled" in claw("doctor").stdout
    assert claw("plugins", "list").returncode == 0


def test_validate_reports_every_error_and_exits_with_3(claw: Claw, home: Path) -> None:
    assert claw("config", "validate").returncode == 0
    home.mkdir(exist_ok=True)
    (home / "config.yaml").write_text("gateway: {port: x}\ntools: {profile: y}\n", encoding="utf-8")

    done = claw("config", "validate", "--json")

    found = json.loads(done.stdout)
    assert done.returncode == 3
    assert [error["key"] for error in found["errors"]] == ["gateway.port", "tools.profile"]
    assert [error["line"] for error in found["errors"]] == [1, 2]
    assert claw("config", "validate").stderr.count("error: ") == 2


def test_the_schema_is_one_and_knows_the_file(claw: Claw) -> None:
    import jsonschema

    schema = json.loads(claw("config", "schema").stdout)
    jsonschema.Draft202012Validator.check_schema(schema)
    judge = jsonschema.Draft202012Validator(schema)
    assert judge.is_valid({"heartbeat": {"every": "30m"}, "agents": {"list": [{"id": "a", "model": "x/y"}]}})
    assert not judge.is_valid({"tools": {"alow": []}})


def test_path_says_where_the_file_is_or_would_be(claw: Claw, home: Path) -> None:
    assert claw("config", "path").stdout.strip() == str(home / "config.yaml")
    assert json.loads(claw("config", "path", "--json").stdout)["exists"] is False


def test_init_asks_nothing_with_yes_and_overwrites_nothing(claw: Claw, home: Path) -> None:
    done = claw("init", "--provider", "anthropic", "--key", "-", "--yes", typed="sesame\n")
    assert done.returncode == 0, done.stderr
    file, soul = home / "config.yaml", home / "agents" / "default" / "agent" / "SOUL.md"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "apiKey: sesame" in file.read_text(encoding="utf-8")
    assert "sesame" not in done.stdout
    assert {path.name for path in soul.parent.iterdir()} == set(init.STARTERS)

    soul.write_text("mine", encoding="utf-8")
    before = file.read_bytes()
    assert claw("init").returncode == 0
    assert claw("init", "--provider", "openai").returncode == 2
    assert (soul.read_text(encoding="utf-8"), file.read_bytes()) == ("mine", before)
    assert json.loads(claw("status", "--json").stdout)["key"] == "providers.anthropic"


def test_status_says_how_claw_is_set_up(claw: Claw, home: Path) -> None:
    facts = json.loads(claw("status", "--json").stdout)
    assert facts["home"] == str(home)
    assert (facts["agent"], facts["model"], facts["key"]) == ("default", "offline/rules", "not needed")
    assert "model: offline/rules" in claw("status").stdout


SOME = (
    InstalledPlugin("anthropic", "claw_anthropic", "claw-anthropic", "1", manifest=Manifest(
        "anthropic", providers=(ProviderDeclaration("anthropic", ("A_KEY",), "sonnet"),))),
    InstalledPlugin("openai", "claw_openai", "claw-openai", "1", manifest=Manifest(
        "openai", providers=(ProviderDeclaration("openai", ("O_KEY",), "gpt"),))),
    InstalledPlugin("offline", "claw_offline", "claw-offline", "1", manifest=Manifest(
        "offline", providers=(ProviderDeclaration("offline", default_model="rules", fallback=True),))),
)  # fmt: skip


@pytest.mark.parametrize(
    ("environ", "flags", "tree"),
    [
        ({}, ("", "", "", ""), {}),
        ({"O_KEY": "x"}, ("", "", "", ""), {"agents": {"defaults": {"model": "openai/gpt"}}}),
        ({}, ("offline", "", "", ""), {"agents": {"defaults": {"model": "offline/rules"}}}),
        (
            {},
            ("anthropic", "${A_KEY}", "opus", ""),
            {
                "providers": {"anthropic": {"apiKey": "${A_KEY}"}},
                "agents": {"defaults": {"model": "anthropic/opus"}},
            },
        ),
        (
            {},
            ("ollama", "", "llama3", "http://localhost:11434/v1"),
            {
                "providers": {"ollama": {"type": "openai", "baseUrl": "http://localhost:11434/v1"}},
                "agents": {"defaults": {"model": "ollama/llama3"}},
            },
        ),
    ],
)
def test_the_first_file_says_what_was_chosen(
    environ: dict[str, str], flags: tuple[str, str, str, str], tree: dict[str, object]
) -> None:
    assert init.config_tree(init.choice_from_flags(SOME, environ, *flags)) == tree


def test_a_provider_nobody_serves_gets_the_nearest_name() -> None:
    with pytest.raises(UsageError, match="Did you mean anthropic"):
        init.choice_from_flags(SOME, {}, "antropic", "", "", "")


def test_a_provider_whose_package_is_not_installed_gets_the_package() -> None:
    with pytest.raises(UsageError, match="claw plugins install claw-mistral"):
        init.choice_from_flags(SOME, {}, "mistral", "", "", "")


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("openai", "sk-x", "clear; claw auth add openai", ""), "is no name of a model"),
        (("openai", "sk-x", "gpt", "sk-not-a-url"), "not an HTTP address"),
        (("openai", "https://api.example.com", "gpt", ""), "is no key"),
    ],
)
def test_flags_that_cannot_be_right_are_refused(flags: tuple[str, str, str, str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        init.choice_from_flags(SOME, {}, *flags)


@pytest.mark.parametrize(
    ("answers", "environ", "choice"),
    [
        (["openai", "sk-x", ""], {}, init.InitChoice("openai", "sk-x", "gpt")),
        (["", "opus"], {"A_KEY": "x"}, init.InitChoice("anthropic", "", "opus")),
        (
            ["opnai", "openai", "two words", "sk-x", "clear; ls", "gpt-5"],
            {},
            init.InitChoice("openai", "sk-x", "gpt-5"),
        ),
        (
            ["other", "sk-not-a-url", "http://localhost:9/v1", "toy", "", "llama3"],
            {},
            init.InitChoice("toy", "", "llama3", "http://localhost:9/v1", "openai"),
        ),
        (["offline"], {}, init.InitChoice("offline", "", "rules")),
    ],
)
def test_init_asks_for_provider_key_and_model_and_again_for_what_cannot_be_right(
    answers: list[str], environ: dict[str, str], choice: init.InitChoice
) -> None:
    with CliRunner().isolation(input="\n".join(answers) + "\n"):
        assert init.ask_choice(SOME, environ) == choice


def test_init_asks_once_about_programs_and_the_answer_is_a_mode() -> None:
    app = typer.Typer()
    app.command()(lambda: typer.echo(f"mode={init.ask_exec_mode()}"))

    assert "mode=ask" in CliRunner().invoke(app, input="\n").output
    refused = CliRunner().invoke(app, input="yes\ndeny\n").output
    assert ("write ask or deny" in refused, "mode=deny" in refused) == (True, True)


def test_a_second_init_sets_up_a_model_where_the_offline_provider_answers(claw: Claw, home: Path) -> None:
    assert claw("init", "--provider", "offline").returncode == 0
    file = home / "config.yaml"
    file.write_text("# mine\n" + file.read_text())

    told = claw("init")
    assert told.returncode == 0 and "claw init --provider NAME" in told.stdout
    assert claw("init", "--provider", "openai", "--key", "sk-x-123456", "--model", "gpt-9").returncode == 0

    assert "# mine" in file.read_text()
    assert json.loads(claw("status", "--json").stdout)["model"] == "openai/gpt-9"
    assert claw("init", "--provider", "anthropic").returncode == 2


def test_the_bash_script_completes_in_a_real_bash(claw: Claw) -> None:
    script = claw("completion", "bash").stdout
    probe = 'COMP_WORDS=(claw config va); COMP_CWORD=2; _claw; echo "${COMPREPLY[@]}"'
    done = subprocess.run(["bash", "-c", f"{script}\n{probe}"], capture_output=True, text=True, timeout=30)
    assert done.stdout.strip() == "validate"


def test_an_unknown_shell_reads_which_there_are(claw: Claw) -> None:
    done = claw("completion", "tcsh")
    assert done.returncode == 2
    assert "bash, zsh, fish" in done.stderr


def test_no_cell_of_a_table_steers_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    table(["name"], [["a\x1b]0;owned\x07b\u202e"]])

    assert capsys.readouterr().out.splitlines()[1] == "a⟨U+001B⟩]0;owned⟨U+0007⟩b⟨U+202E⟩"
