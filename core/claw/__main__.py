"""The fast door: ``--version`` answers before anything heavy is imported."""

import sys


def main() -> None:
    """Run the command line. Exit codes: 0 ok, 1 failure, 2 usage, 3 config, 4 plugin, 5 policy, 130 interrupted."""
    if sys.argv[1:] in (["--version"], ["-V"]):
        from claw import __version__

        print(f"claw {__version__}")
        return
    from claw.cli.main import run

    run()


if __name__ == "__main__":
    main()
