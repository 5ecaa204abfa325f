"""Environment of a child process."""

from claw.security.child_env import child_environment

OURS = {
    "PATH": "/usr/bin:.::bin:/opt/x", "HOME": "/home/ann", "LANG": "C.UTF-8", "LC_ALL": "C", "TERM": "xterm", "TZ": "UTC",
    "ANTHROPIC_API_KEY": "abc", "LD_PRELOAD": "/tmp/x.so", "PYTHONPATH": "/tmp", "BASH_ENV": "/tmp/x",
    "GIT_SSH_COMMAND": "x", "HTTPS_PROXY": "http://ann:pw@proxy", "LC_SECRET": "abc", "LC_evil": "x", "ACME": "1",
}  # fmt: skip


def test_only_what_is_harmless_is_passed_on() -> None:
    assert child_environment(OURS) == {
        "PATH": "/usr/bin:/opt/x", "HOME": "/home/ann", "LANG": "C.UTF-8", "LC_ALL": "C", "TERM": "xterm", "TZ": "UTC",
    }  # fmt: skip


def test_what_the_operator_names_is_passed_whatever_it_holds() -> None:
    passed = child_environment(OURS, allow=("ANTHROPIC_API_KEY", "ACME"))
    assert passed["ANTHROPIC_API_KEY"] == "abc" and passed["ACME"] == "1"
    assert "LD_PRELOAD" not in passed


def test_a_credential_in_a_harmless_variable_stays_here() -> None:
    assert "TERM" not in child_environment({"TERM": "sk-abcdefghij0123456789abcdef"})


def test_the_folder_we_are_in_never_decides_which_program_starts() -> None:
    assert child_environment({"PATH": ".:bin"})["PATH"] == "/usr/local/bin:/usr/bin:/bin"
    assert child_environment({})["PATH"] == "/usr/local/bin:/usr/bin:/bin"
