"""The public names of claw_provider_sdk and their modules, one name a line: for type checkers and ``__init__.py``."""

from claw_provider_sdk.calls import (
    limit_reason as limit_reason,
    read_call as read_call,
    unreadable_call as unreadable_call,
)
from claw_provider_sdk.error_bodies import (
    is_failure as is_failure,
)
from claw_provider_sdk.errors import (
    decoded_body as decoded_body,
    failure_said as failure_said,
    provider_error as provider_error,
)
from claw_provider_sdk.incremental_cache import (
    IncrementalCache as IncrementalCache,
)
from claw_provider_sdk.json_repair import (
    parse_lenient_json as parse_lenient_json,
)
from claw_provider_sdk.keys import (
    configured_keys as configured_keys,
)
from claw_provider_sdk.model_facts import (
    ModelFigures as ModelFigures,
    ModelTable as ModelTable,
    model_figures as model_figures,
)
from claw_provider_sdk.schema_dialects import (
    function_schema as function_schema,
    gemini_schema as gemini_schema,
    object_schema as object_schema,
    openai_strict_schema as openai_strict_schema,
    strict_schema_problem as strict_schema_problem,
)
from claw_provider_sdk.several_providers import (
    MisconfiguredProvider as MisconfiguredProvider,
    each_provider as each_provider,
)
from claw_provider_sdk.stream import (
    STREAM_DONE as STREAM_DONE,
    AnswerBuilder as AnswerBuilder,
    CallIds as CallIds,
    HttpAnswer as HttpAnswer,
    JsonRows as JsonRows,
    base_url as base_url,
    new_call_id as new_call_id,
    stream_answer as stream_answer,
    tool_arguments as tool_arguments,
)
from claw_provider_sdk.timeouts import (
    StreamTimeouts as StreamTimeouts,
)
from claw_provider_sdk.tool_limits import (
    ToolLimits as ToolLimits,
)
from claw_provider_sdk.usage import (
    Price as Price,
    usage_of as usage_of,
)
from claw_provider_sdk.vendor_client import (
    VendorClients as VendorClients,
    VendorProvider as VendorProvider,
)

__all__: list[str]
