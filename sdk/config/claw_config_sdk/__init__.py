"""For authors of commands: changes of the config file, and options that name a run.

A change is one key; comments stay, and the result is validated.

Nothing is imported before it is asked for.
"""

from claw import add_translations, lazy_names

_NAMES = {
    "editor": "parse_value set_value unset_value",
    "keys": "get_value written_path",
    "scenario": "Scenario probe_message sender_of takes_scenario",
    "times": "parse_time",
}
__all__, __getattr__, __dir__ = lazy_names(
    __name__, {f"{__name__}.{module}": names for module, names in _NAMES.items()}
)

add_translations(__name__)
