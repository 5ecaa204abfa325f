"""For authors of claw providers: streams, timeouts, classes of errors, schema dialects, facts of models.

Nothing is imported before it is asked for.
"""

from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_NAMES = {
    "errors": "decoded_body provider_error failure_said",
    "incremental_cache": "IncrementalCache",
    "keys": "configured_keys",
    "model_facts": "ModelFigures ModelTable model_figures",
    "schema_dialects": "function_schema gemini_schema openai_strict_schema strict_schema_problem",
    "stream": "CallIds JsonRows STREAM_DONE base_url stream_answer new_call_id tool_arguments",
    "timeouts": "StreamTimeouts",
    "usage": "Price usage_of",
    "vendor_client": "VendorClients VendorProvider",
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = sorted(_MODULES)  # noqa: PLE0605


def __getattr__(name: str) -> "Any":
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value
