"""``claw config get``: the config file as written, with secrets hidden."""

import json
import os
import re
import sys
from collections.abc import Mapping
from typing import Annotated, Any

import typer
from claw.runtime import (
    AsJson,
    document,
    find_config,
    home_of,
    installed_plugins,
    read_config,
    short_forms,
    split_key,
)
from claw_config_sdk import get_value

_SECRET = re.compile(
    r"(^|[a-z_])(api_?key|encrypt_?key|token|secret|password|passphrase|private_?key|dsn)$", re.I
)
_NO_SECRET = frozenset({"silentToken", "silent_token"})
MASK = "******"


def get(
    key: Annotated[str, typer.Argument(help="Dotted; empty = the whole file.")] = "", as_json: AsJson = False
) -> None:
    """Print the value of KEY as written in the file; secrets are shown as asterisks."""
    path = find_config(home_of(os.environ))
    tree = read_config(path).tree if path else {}
    forms = short_forms(installed_plugins())
    value = masked(get_value(tree, key, forms) if key else tree, _last_name(key))
    if as_json:
        document("config-value", {"key": key, "value": value})
    else:
        sys.stdout.write(_as_text(value))


def masked(value: Any, key: str = "") -> Any:
    """Return ``value`` as it may be shown: values under a secret's name are hidden, references are not."""
    if isinstance(value, Mapping):
        if set(value) in ({"env"}, {"file"}):
            return value
        inner = key if key == "headers" else ""
        return {name: masked(child, inner or str(name)) for name, child in value.items()}
    if isinstance(value, list):
        return [masked(child, key) for child in value]
    hidden = key == "headers" or (_SECRET.search(key) is not None and key not in _NO_SECRET)
    if hidden and isinstance(value, str | int | float) and not isinstance(value, bool) and value != "":
        return value if re.fullmatch(r"\$\{\w+\}", str(value)) else MASK
    return value


def _last_name(key: str) -> str:
    """Return the last name in ``key``."""
    return next((step for step in reversed(split_key(key) or ()) if isinstance(step, str)), "")


def _as_text(value: Any) -> str:
    """Format a scalar as it is, anything larger as YAML."""
    if not isinstance(value, Mapping | list):
        return f"{json.dumps(value) if not isinstance(value, str) else value}\n"
    import yaml

    return yaml.safe_dump(value, allow_unicode=True, sort_keys=False) if value else ""
