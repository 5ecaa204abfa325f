"""For authors of claw tools: a strict parser of shell command lines, the pip command for packages of a tool.

Nothing is imported before it is asked for.
"""

from claw import add_translations, lazy_names

_NAMES = {
    "command_line": "CommandStep split_commands split_single_command",
    "interpreters": "is_interpreter",
    "packages": "changed_files pip_command",
}
__all__, __getattr__, __dir__ = lazy_names(
    __name__, {f"{__name__}.{module}": names for module, names in _NAMES.items()}
)

add_translations(__name__)
