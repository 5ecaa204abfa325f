"""The fakes we ship for tests: a provider, tools, a channel, and all of claw around them (from ``claw-testing``)."""

try:
    from claw_testing import *  # noqa: F403
    from claw_testing import __all__  # noqa: F401
except ModuleNotFoundError as missing:
    if missing.name != "claw_testing":
        raise
    raise ImportError("claw.testing comes with claw-testing: pip install pytest-claw") from None
