"""For authors of claw providers: streams, timeouts, classes of errors, schema dialects, facts of models.

Nothing is imported before it is asked for.
"""

from claw import add_translations, lazy_names

_NAMES = {
    "calls": "limit_reason read_call unreadable_call",
    "error_bodies": "is_failure",
    "errors": "decoded_body provider_error failure_said",
    "incremental_cache": "IncrementalCache",
    "keys": "configured_keys",
    "json_repair": "parse_lenient_json",
    "model_facts": "ModelFigures ModelTable model_figures",
    "schema_dialects": "function_schema gemini_schema object_schema openai_strict_schema strict_schema_problem",
    "stream": "CallIds JsonRows STREAM_DONE base_url stream_answer new_call_id tool_arguments",
    "timeouts": "StreamTimeouts",
    "tool_limits": "ToolLimits",
    "usage": "Price usage_of",
    "vendor_client": "VendorClients VendorProvider",
}
__all__, __getattr__, __dir__ = lazy_names(
    __name__, {f"{__name__}.{module}": names for module, names in _NAMES.items()}
)

add_translations(__name__)
