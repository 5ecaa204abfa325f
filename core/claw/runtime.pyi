"""The public names of claw.runtime and their modules, one name a line: for type checkers, and for ``runtime.py``."""

# A running claw and its turns: services, engines, commands
from claw.agent.context import (
    OMITTED as OMITTED,
    PROMPT_SHARE as PROMPT_SHARE,
    TOO_LARGE_REASONS as TOO_LARGE_REASONS,
    ask_engine as ask_engine,
    open_turn as open_turn,
)
from claw.agent.models import (
    candidates as candidates,
    checked_answer as checked_answer,
    missing_key_error as missing_key_error,
    missing_provider_error as missing_provider_error,
    models_of_agent as models_of_agent,
    select_models as select_models,
)
from claw.agent.outcome import (
    REPLY_TAG as REPLY_TAG,
    is_silent as is_silent,
    silent_tokens as silent_tokens,
    without_silent_token as without_silent_token,
)
from claw.agent.routing import (
    JOB_CHANNELS as JOB_CHANNELS,
    LOCAL_SENDER as LOCAL_SENDER,
    Route as Route,
    parse_key as parse_key,
    route_message as route_message,
    terminal_message as terminal_message,
)
from claw.agent.session_queue import (
    SessionQueues as SessionQueues,
)
from claw.agent.turn import (
    TOOL_CHOICES as TOOL_CHOICES,
    Turn as Turn,
    TurnStart as TurnStart,
    check_tool_choice as check_tool_choice,
    new_turn_id as new_turn_id,
    run_turn as run_turn,
)
from claw.agent.turn_context import (
    Runtime as Runtime,
    TurnContext as TurnContext,
    TurnOptions as TurnOptions,
    choose_model as choose_model,
    fence_of as fence_of,
    find_model as find_model,
    resolve_turn as resolve_turn,
)
from claw.app import (
    App as App,
    Setup as Setup,
    command_host as command_host,
    load_setup as load_setup,
)

# Command lines: one JSON document, tables, options that several commands share
from claw.cli.chat import (
    AnswerPrinter as AnswerPrinter,
    open_chat as open_chat,
    turn_options as turn_options,
)
from claw.cli.errors import (
    TERMINATION as TERMINATION,
    report_error as report_error,
)
from claw.cli.output import (
    document as document,
    on_terminal as on_terminal,
    printable as printable,
    table as table,
    utc_time as utc_time,
)
from claw.cli.plugin_commands import (
    AsJson as AsJson,
)
from claw.cli.plugin_list import (
    plugin_data as plugin_data,
    unknown_plugin_error as unknown_plugin_error,
)

# The config file
from claw.config.agents import (
    PEOPLE as PEOPLE,
    Agent as Agent,
    AgentSettings as AgentSettings,
    Model as Model,
    People as People,
    Zone as Zone,
)
from claw.config.channels import (
    QueueSettings as QueueSettings,
)
from claw.config.errors import (
    ConfigErrors as ConfigErrors,
    ConfigSections as ConfigSections,
)
from claw.config.loader import (
    Config as Config,
    validate_source as validate_source,
)
from claw.config.models import (
    Settings as Settings,
)
from claw.config.paths import (
    AGENT_KEYS as AGENT_KEYS,
    IdStep as IdStep,
    Layout as Layout,
    camel_case as camel_case,
    format_key as format_key,
    id_of as id_of,
    normalise_layout as normalise_layout,
    split_key as split_key,
    value_at as value_at,
    values_at as values_at,
)
from claw.config.source import (
    CONFIG_FILE_NAMES as CONFIG_FILE_NAMES,
    ConfigSource as ConfigSource,
    SubstitutedText as SubstitutedText,
    find_config as find_config,
    parse_config as parse_config,
    read_config as read_config,
    read_home as read_home,
    substitute_all as substitute_all,
)
from claw.config.summary import (
    ANY_ENDPOINT as ANY_ENDPOINT,
    ConfigOutline as ConfigOutline,
    PluginKeys as PluginKeys,
    install_hint as install_hint,
    outline_config as outline_config,
    package_of as package_of,
    plugins_that_bring as plugins_that_bring,
    schema_violations as schema_violations,
)
from claw.config.values import (
    Duration as Duration,
    Names as Names,
    origin_of as origin_of,
    section_default as section_default,
    validation_error as validation_error,
)

# Contracts beyond those of ``claw``
from claw.contracts.channel import (
    OPERATOR_ONLY as OPERATOR_ONLY,
    WAITS_FOR_REPLY as WAITS_FOR_REPLY,
    FunctionCommand as FunctionCommand,
)
from claw.contracts.diagnostics import (
    BLOCKED as BLOCKED,
    DISABLED as DISABLED,
    IDLE as IDLE,
    INCOMPATIBLE as INCOMPATIBLE,
    LOADED as LOADED,
    QUARANTINED as QUARANTINED,
)
from claw.contracts.errors import (
    BusyError as BusyError,
)
from claw.contracts.extensions import (
    Statement as Statement,
    position_of as position_of,
)
from claw.contracts.prompt import (
    RenderedSection as RenderedSection,
)
from claw.contracts.provider import (
    AnswerBroken as AnswerBroken,
)
from claw.contracts.text import (
    escape_controls as escape_controls,
    repair_tree as repair_tree,
    to_json as to_json,
    truncate as truncate,
    truncate_blocks as truncate_blocks,
    with_ellipsis as with_ellipsis,
)
from claw.contracts.tool import (
    fit_result as fit_result,
)
from claw.contracts.tool_schema import (
    schema_problem as schema_problem,
    without_nulls as without_nulls,
)
from claw.contracts.transcript import (
    CHARS_PER_TOKEN as CHARS_PER_TOKEN,
    IMAGE_CHARS as IMAGE_CHARS,
    estimate_tokens as estimate_tokens,
    limit_turns as limit_turns,
    newest_turns_within as newest_turns_within,
    pair as pair,
    sendable as sendable,
)

# Plugins: found, declared, verified, isolated
from claw.host.calls import (
    describe_cost as describe_cost,
    run_filters as run_filters,
)
from claw.host.discovery import (
    home_of as home_of,
    plugin_keys as plugin_keys,
    plugin_states as plugin_states,
    providers_used as providers_used,
    use_configured_locale as use_configured_locale,
)
from claw.host.health import (
    CRASHED as CRASHED,
    FAILED as FAILED,
    HUNG as HUNG,
    MAX_CRASHES as MAX_CRASHES,
    LoadFailure as LoadFailure,
    PluginHealth as PluginHealth,
    files_digest as files_digest,
    location_of as location_of,
    records_own_end as records_own_end,
)
from claw.host.integrity import (
    LOCK_FILE as LOCK_FILE,
    FileDamage as FileDamage,
    dist_info_folders as dist_info_folders,
    expected_hashes as expected_hashes,
    find_record as find_record,
    record_damages as record_damages,
    unusable_lock as unusable_lock,
)
from claw.host.isolation import (
    DEFAULT_TIMEOUTS as DEFAULT_TIMEOUTS,
    Timeouts as Timeouts,
    describe_exception as describe_exception,
    reserved_stdout as reserved_stdout,
    run_bounded as run_bounded,
)
from claw.host.manager import (
    Host as Host,
)
from claw.host.manifest import (
    ChannelDeclaration as ChannelDeclaration,
    InstalledPlugin as InstalledPlugin,
    Manifest as Manifest,
    ProviderDeclaration as ProviderDeclaration,
    ToolDeclaration as ToolDeclaration,
    api_matches as api_matches,
    installed_plugins as installed_plugins,
    normalise_distribution as normalise_distribution,
    parse_manifest as parse_manifest,
    providers_of as providers_of,
    short_forms as short_forms,
)
from claw.host.overlay import (
    CURRENT_LINK as CURRENT_LINK,
    EDITABLE_FILE as EDITABLE_FILE,
    GATEWAY_LOCK as GATEWAY_LOCK,
    LAYERS_FOLDER as LAYERS_FOLDER,
    METADATA_FILE as METADATA_FILE,
    STAGED_LINK as STAGED_LINK,
)
from claw.host.registry import (
    BUILTIN as BUILTIN,
    HOOKS as HOOKS,
    SLOTS as SLOTS,
    Contribution as Contribution,
    HookRules as HookRules,
    account_of as account_of,
    channel_key as channel_key,
    check_answers as check_answers,
    file_warnings as file_warnings,
    hook_problems as hook_problems,
    tool_line as tool_line,
)
from claw.host.state import (
    PluginState as PluginState,
    chosen_by_file as chosen_by_file,
    config_key_errors as config_key_errors,
    require_plugins as require_plugins,
)
from claw.host.worker import (
    check_and_run as check_and_run,
    in_loop as in_loop,
    is_own_exit as is_own_exit,
    within as within,
)
from claw.i18n import (
    LANGUAGES as LANGUAGES,
    with_label as with_label,
)

# Tool policy
from claw.policy.catalog import (
    CORE_TOOLS as CORE_TOOLS,
    PLUGINS_GROUP as PLUGINS_GROUP,
    SANDBOX_ALLOW as SANDBOX_ALLOW,
    SANDBOX_DENY as SANDBOX_DENY,
    TOOL_GROUPS as TOOL_GROUPS,
    is_pattern as is_pattern,
    matches_pattern as matches_pattern,
    normalise_tool_name as normalise_tool_name,
)
from claw.policy.decision import (
    ALLOWED as ALLOWED,
    Judgement as Judgement,
    NameConflict as NameConflict,
    Ruling as Ruling,
)
from claw.policy.engine import (
    CLOSING_CHECKS as CLOSING_CHECKS,
    OPENING_CHECKS as OPENING_CHECKS,
    apply_layer as apply_layer,
    judge_tools as judge_tools,
    opt_in_words as opt_in_words,
    resolve_tools as resolve_tools,
    restricts as restricts,
)
from claw.policy.layers import (
    LAYERS as LAYERS,
    Layer as Layer,
    ListScope as ListScope,
    PolicySections as PolicySections,
    group_scope as group_scope,
    sections_for as sections_for,
)
from claw.policy.matching import (
    ToolMatcher as ToolMatcher,
)
from claw.policy.subjects import (
    RunFacts as RunFacts,
    ToolFact as ToolFact,
    definition_tokens as definition_tokens,
    tool_fact as tool_fact,
)

# Security: admission, secrets, workspace files, text of other people
from claw.security.admission import (
    PAIRED_PEOPLE as PAIRED_PEOPLE,
    TERMINAL as TERMINAL,
    Admission as Admission,
    account_setting as account_setting,
    configured_owners as configured_owners,
    decide_admission as decide_admission,
    is_owner as is_owner,
    paired_people as paired_people,
)
from claw.security.redaction import (
    Redactor as Redactor,
)
from claw.security.secret_patterns import (
    is_secret_name as is_secret_name,
)
from claw.security.untrusted_text import (
    WORDS_CHARS as WORDS_CHARS,
    fenced_json as fenced_json,
    one_line as one_line,
    quoted_words as quoted_words,
    user_text as user_text,
)
from claw.security.workspace_fs import (
    WorkspaceFiles as WorkspaceFiles,
)

# State on disk; the time, which a test replaces
from claw.storage.clock import (
    SYSTEM_CLOCK as SYSTEM_CLOCK,
    Clock as Clock,
    iso_time as iso_time,
    parse_duration as parse_duration,
    zone_of as zone_of,
)
from claw.storage.database import (
    Database as Database,
    database_error as database_error,
    read_only_address as read_only_address,
)
from claw.storage.files import (
    SYSTEM_DISK as SYSTEM_DISK,
    Disk as Disk,
    cannot_write as cannot_write,
    dated_name as dated_name,
    home_problem as home_problem,
    make_folder as make_folder,
    replace_file as replace_file,
    results_folder as results_folder,
    safe_file_name as safe_file_name,
    set_aside as set_aside,
)
from claw.storage.history import (
    BaseSession as BaseSession,
)
from claw.storage.overrides import (
    Override as Override,
    Overrides as Overrides,
)
from claw.storage.provenance import (
    is_origin_mark as is_origin_mark,
    line_provenances as line_provenances,
    quoted_foreign as quoted_foreign,
)
from claw.storage.records import (
    BRANCH_SUMMARY as BRANCH_SUMMARY,
    SUMMARY as SUMMARY,
    UNKNOWN_PARENT as UNKNOWN_PARENT,
    CompactionRecord as CompactionRecord,
    MemoryFlushRecord as MemoryFlushRecord,
    MessageRecord as MessageRecord,
    Omission as Omission,
    Record as Record,
    decode_record as decode_record,
    encode_record as encode_record,
    shown_messages as shown_messages,
)
from claw.storage.sessions import (
    Sessions as Sessions,
)
from claw.storage.turn_log import (
    retry_until_written as retry_until_written,
)

__all__: list[str]
