"""What no single section can see: references that must hold, and oddities worth a warning."""

from claw.config.names import normalise_agent_id
from claw.errors import ConfigError

TYPE = "Config"


def refusals(config):  # type: ignore[no-untyped-def]
    return []


def remarks(config):  # type: ignore[no-untyped-def]
    return ()
