"""Names for authors of services, middleware, model selectors, context engines and commands.

The second public tier beside ``claw``: what a plugin needs that works on a running claw and its state. Nothing is
imported before it is asked for.
"""

from claw import lazy_names

_NAMES = {
    # A running claw and its turns: services, engines, commands
    "claw.agent.chat_commands": "Conversation FunctionCommand parse_choice run_chat_command",
    "claw.agent.context": "OMITTED PROMPT_SHARE TOO_LARGE_REASONS ask_engine open_turn",
    "claw.agent.models": (
        "candidates checked_answer missing_key_error missing_provider_error select_models unknown_key_error"
    ),
    "claw.agent.outcome": "REPLY_TAG silent_tokens without_silent_token",
    "claw.agent.routing": "JOB_CHANNELS LOCAL_SENDER Route parse_key route_message",
    "claw.agent.session_queue": "SessionQueues SteeringQueue",
    "claw.agent.turn": "Turn new_turn_id run_turn",
    "claw.agent.turn_context": (
        "TOOL_CHOICES Runtime TurnContext TurnOptions check_tool_choice fence_of resolve_turn"
    ),
    "claw.app": "App Setup command_host load_setup terminal_message",
    # Command lines: one JSON document, tables, options that several commands share
    "claw.cli.config": "config_findings file_of",
    "claw.cli.errors": "TERMINATION report_error",
    "claw.cli.output": "document on_terminal printable table utc_time",
    "claw.cli.plugin_commands": "AsJson",
    "claw.cli.plugin_list": "plugin_data unknown_plugin_error",
    # The config file
    "claw.config.agents": "PEOPLE AgentSettings Model People Zone",
    "claw.config.channels": "QueueSettings",
    "claw.config.errors": "ConfigErrors ErrorFactory",
    "claw.config.loader": "Config load_config no_owners validate_section validate_source",
    "claw.config.models": "Settings",
    "claw.config.paths": (
        "AGENT_KEYS IdStep Layout camel_case format_key id_of normalise_layout split_key value_at values_at"
    ),
    "claw.config.source": (
        "CONFIG_FILE_NAMES ConfigSource SubstitutedText find_config parse_config read_config substitute_all"
    ),
    "claw.config.summary": (
        "ANY_ENDPOINT ConfigOutline PluginKeys install_hint outline_config package_of plugins_that_bring "
        "schema_violations"
    ),
    "claw.config.values": "Duration Names Size origin_of section_default validation_error",
    # Contracts beyond those of ``claw``
    "claw.contracts.channel": "OPERATOR_ONLY WAITS_FOR_REPLY UnavailableChannel",
    "claw.contracts.diagnostics": "BLOCKED DISABLED IDLE INCOMPATIBLE LOADED QUARANTINED",
    "claw.contracts.errors": "BusyError",
    "claw.contracts.extensions": "Statement position_of",
    "claw.contracts.prompt": "RenderedSection",
    "claw.contracts.provider": "AnswerBroken",
    "claw.contracts.text": "escape_controls to_json truncate truncate_blocks with_ellipsis",
    "claw.contracts.tool": "fit_result",
    "claw.contracts.tool_schema": "without_nulls",
    "claw.contracts.transcript": (
        "CHARS_PER_TOKEN IMAGE_CHARS estimate_tokens limit_turns newest_turns_within pair sendable"
    ),
    "claw.i18n": "LANGUAGES",
    # Plugins: found, declared, verified, isolated
    "claw.host.calls": "describe_cost run_filters",
    "claw.host.discovery": (
        "home_of key_errors_in open_state owners_in plugin_states providers_used use_configured_locale"
    ),
    "claw.host.health": "CRASHED HUNG MAX_CRASHES LoadFailure PluginHealth files_digest records_own_end",
    "claw.host.integrity": (
        "LOCK_FILE FileDamage dist_info_folders expected_hashes find_record record_damages unusable_lock"
    ),
    "claw.host.isolation": "DEFAULT_TIMEOUTS Timeouts describe_exception reserved_stdout run_bounded",
    "claw.host.manager": "Host",
    "claw.host.manifest": (
        "KIND_OF_HOOK ChannelDeclaration InstalledPlugin Manifest ProviderDeclaration ToolDeclaration "
        "api_matches installed_plugins normalise_distribution parse_manifest providers_of short_forms"
    ),
    "claw.host.overlay": ("CURRENT_LINK EDITABLE_FILE GATEWAY_LOCK LAYERS_FOLDER METADATA_FILE STAGED_LINK"),
    "claw.host.registry": (
        "BUILTIN Contribution HookRules ON_DEMAND SLOTS WANTED account_of channel_key check_answers hook_problems"
    ),
    "claw.host.state": "PluginState chosen_by_file require_plugins",
    "claw.host.worker": "ReusableTimeout check_and_run in_loop is_own_exit within",
    # Tool policy
    "claw.policy.catalog": (
        "CORE_TOOLS PLUGINS_GROUP SANDBOX_ALLOW SANDBOX_DENY TOOL_GROUPS is_pattern matches_pattern normalise_tool_name"
    ),
    "claw.policy.decision": "ALLOWED Judgement NameConflict Ruling",
    "claw.policy.engine": (
        "CLOSING_CHECKS OPENING_CHECKS apply_layer judge_tools opt_in_words resolve_tools restricts"
    ),
    "claw.policy.layers": "LAYERS Layer ListScope PolicySections group_scope sections_for",
    "claw.policy.matching": "ToolMatcher",
    "claw.policy.subjects": "RunFacts ToolFact tool_fact",
    # Security: admission, secrets, workspace files, text of other people
    "claw.security.admission": (
        "PAIRED_PEOPLE TERMINAL Admission account_setting configured_owners decide_admission is_owner paired_people"
    ),
    "claw.security.redaction": "Redactor",
    "claw.security.secret_patterns": "is_secret_name",
    "claw.security.tls_errors": "TlsError error_chain",
    "claw.security.untrusted_text": "WORDS_CHARS strip_metadata user_text",
    "claw.security.workspace_fs": "WorkspaceFiles",
    # State on disk; the time, which a test replaces
    "claw.storage.clock": "SYSTEM_CLOCK Clock DailyTask iso_time local_time parse_duration",
    "claw.storage.database": "Database database_error read_only_address",
    "claw.storage.files": (
        "SYSTEM_DISK Disk Lock archive_results cannot_write dated_name delete_results home_problem "
        "lock_holder make_folder replace_file safe_file_name set_aside"
    ),
    "claw.storage.freshness": "zone_of",
    "claw.storage.history": "BaseSession SessionHistory",
    "claw.storage.overrides": "Overrides",
    "claw.storage.provenance": "is_origin_mark line_provenances quoted_foreign",
    "claw.storage.records": (
        "SUMMARY BranchSummary CompactionRecord CustomMessage Entry MemoryFlushRecord MessageRecord "
        "ModelChange Omission ParsedSession SessionHeader ThinkingLevelChange UnknownRecord "
        "encode_record lines_of parse_session without_bad_lines"
    ),
    "claw.storage.sessions": "JsonlSessionStore Session",
    "claw.storage.turn_log": "retry_until_written",
    "claw.storage.usage": "SessionUsage",
}
__all__, __getattr__, __dir__ = lazy_names(__name__, _NAMES)
