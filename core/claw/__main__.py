"""The fast path: commands that need neither typer nor a plugin run before those are imported."""

import gc
import sys

_ALLOCATIONS = 50_000
"""Between two looks of the collector: an import allocates much and drops little (700 looks cost a tenth of a start)."""


def main() -> None:
    """Run the command line.

    Exit codes: 0 ok, 1 failure, 2 usage, 3 config, 4 plugin, 5 policy, 130 interrupted.
    """
    gc.set_threshold(_ALLOCATIONS)
    words = sys.argv[1:]
    if words in (["--version"], ["-V"]):
        from claw import __version__

        print(f"claw {__version__}")
        return
    _use_layer()
    if words in (["plugins", "list"], ["plugins", "list", "--json"]):
        _list_plugins(as_json=len(words) == 3)
    else:
        _without_pydantic_plugins()
        from claw.cli.main import run

        run()


def _without_pydantic_plugins() -> None:
    """Looking for them, pydantic would read the entry points of all that is installed (its ``plugin/_loader.py``)."""
    import os

    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")


def _use_layer() -> None:
    """Put what ``claw plugins install`` installed on the path; without any, nothing is imported for it."""
    import os

    home = os.environ.get("CLAW_HOME", "").strip() or os.path.join("~", ".claw")
    home = os.path.abspath(os.path.expanduser(home))
    if os.path.lexists(os.path.join(home, "plugins.d")):
        from claw.host.overlay import activate_layer

        activate_layer(home)


def _list_plugins(as_json: bool) -> None:
    import os

    from claw import i18n as words
    from claw.cli.errors import exit_with, report_error
    from claw.cli.plugin_list import show

    words.use_language(words.language_of(os.environ))
    try:
        show(as_json)
    except BaseException as why:  # noqa: BLE001 - the last handler: a person gets no traceback
        exit_with(report_error(why))
    exit_with(0)


if __name__ == "__main__":
    main()
