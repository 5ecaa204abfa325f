"""A Markdown table of the figures beside their budgets, which are those of the design."""

from collections.abc import Mapping
from typing import Any

# measure, path to the figure, budget (None = reported only; negative = a minimum), unit
ROWS: tuple[tuple[str, str, float | None, str], ...] = (
    ("`--version`, CPU", "processes.version.cpu_ms", 40, "ms"),
    ("`--version`, modules", "processes.version.modules", 60, ""),
    ("`plugins list`, CPU", "processes.plugins_0.cpu_ms", None, "ms"),
    ("`plugins list`, modules", "processes.plugins_0.modules", None, ""),
    ("`plugins list` with 50 more, CPU", "processes.plugins_50.cpu_ms", 150, "ms"),
    ("`plugins list` with 200 more, CPU", "processes.plugins_200.cpu_ms", None, "ms"),
    ("`tools list`, CPU", "processes.tools_0.cpu_ms", None, "ms"),
    ("`tools list` with 200 more, CPU", "processes.tools_200.cpu_ms", None, "ms"),
    ("one message, no tools, less the SDK's import", "derived.oneshot_0", 350, "ms"),
    ("one message, 10 tool calls, less the SDK's import", "derived.oneshot_10", 400, "ms"),
    ("- the vendor SDK's import", "processes.vendor_sdk_import.wall_ms", None, "ms"),
    ("one message without a key (offline)", "processes.oneshot_offline.wall_ms", 350, "ms"),
    ("first turn in a process, with the SDK's import", "turns.first_turn_ms", None, "ms"),
    ("warm turn, overhead", "turns.warm.overhead_ms.median", 8, "ms"),
    ("warm turn, overhead of 19 in 20", "turns.warm.overhead_ms.p95", None, "ms"),
    ("warm turn, CPU", "turns.warm.cpu_ms", 4, "ms"),
    ("10-tool turn, overhead", "turns.ten_tools.overhead_ms.median", 40, "ms"),
    ("10-tool turn, CPU", "turns.ten_tools.cpu_ms", 25, "ms"),
    ("turns/s, 1 session, model 0 ms", "turns.sessions_1_think_0.turns_per_second", None, "/s"),
    ("turns/s, 16 sessions, model 0 ms", "turns.sessions_16_think_0.turns_per_second", -200, "/s"),
    ("turns/s, 64 sessions, model 200 ms", "turns.sessions_64_think_200.turns_per_second", -200, "/s"),
    ("turn overhead at 10 messages", "turns.history.at_10.overhead_ms.median", None, "ms"),
    ("turn overhead at the end of the history", "derived.history", 12, "ms"),
    ("- times that at 10 messages", "derived.history_ratio", 1.5, "×"),
    ("- its CPU, times that at 10 messages", "derived.history_cpu_ratio", 1.5, "×"),
    ("memory per session", "turns.memory.kb_per_session", 5, "KB"),
    ("memory of the process (PSS)", "turns.memory.pss_mb", None, "MB"),
    ("first request", "turns.first_request.bytes", 8192, "bytes"),
    ("- system prompt", "turns.first_request.system_bytes", None, "bytes"),
    ("- tools", "turns.first_request.tools_bytes", None, "bytes"),
    ("policy, 500 tools, nine layers", "policy.ms", 2, "ms"),
    ("streamed call, CPU beside a bare client: anthropic", "streams.anthropic.times", 2, "×"),
    ("- openai, chat", "streams.openai, chat.times", 2, "×"),
    ("- openai, responses", "streams.openai, responses.times", 2, "×"),
    ("- google", "streams.google.times", 2, "×"),
    ("- mistral", "streams.mistral.times", 2, "×"),
    ("gateway with Telegram and http: start to ready", "gateway.start.ready_ms", 500, "ms"),
    ("- its CPU until then", "gateway.start.ready_cpu_ms", None, "ms"),
    ("- start to a healthy `GET /health`", "gateway.start.health_ms", None, "ms"),
    ("- start to the first reply, less the SDK's import", "derived.first_reply", 700, "ms"),
    ("- the same, with it", "gateway.start.first_reply_ms", None, "ms"),
    ("idle memory (PSS), Telegram and http", "gateway.idle.telegram.pss_mb", 45, "MB"),
    ("- Feishu alone", "gateway.idle.feishu.pss_mb", None, "MB"),
    ("- Discord alone", "gateway.idle.discord.pss_mb", None, "MB"),
    ("idle CPU, Telegram and http", "gateway.idle.telegram.cpu_percent", None, "%"),
    ("- wakes", "gateway.idle.telegram.wakes_per_second", None, "/s"),
    ("warm turn by http, overhead", "gateway.http_warm.overhead_ms", 8, "ms"),
    ("- CPU", "gateway.http_warm.cpu_ms", 4, "ms"),
    ("- turns/s, 16 sessions, model 0 ms", "gateway.http_16_0.turns_per_second", -200, "/s"),
    ("- turns/s, 64 sessions, model 200 ms", "gateway.http_64_200.turns_per_second", -200, "/s"),
    ("warm turn by Telegram, overhead", "gateway.telegram_warm.overhead_ms", 8, "ms"),
    ("- CPU", "gateway.telegram_warm.cpu_ms", 4, "ms"),
    ("- turns/s, 16 chats, model 0 ms", "gateway.telegram_16_0.turns_per_second", -200, "/s"),
    ("- turns/s, 64 chats, model 200 ms", "gateway.telegram_64_200.turns_per_second", -200, "/s"),
    ("flood over 100 chats: all taken in after", "gateway.flood.taken_in_seconds", None, "s"),
    ("- CPU for each message", "gateway.flood.cpu_ms_per_message", None, "ms"),
    ("- growth at the peak (PSS)", "gateway.flood.growth_mb", 200, "MB"),
    ("journal: accept", "gateway.journal.accept_us", None, "µs"),
    ("- accept and durable, one after the other", "gateway.journal.durable_us", None, "µs"),
    ("- accept and durable, 100 at once, each", "gateway.journal.together_us", None, "µs"),
    ("`gateway status`, CPU", "gateway.commands.gateway_status", None, "ms"),
    ("`channels list`, CPU", "gateway.commands.channels_list", None, "ms"),
    ("`channels status`, CPU", "gateway.commands.channels_status", None, "ms"),
)


def markdown(found: Mapping[str, Any]) -> tuple[str, list[str]]:
    """Return the table, and the measures that exceed their budget."""
    whole = {**found, "derived": derived(found)}
    lines = [found["machine"], "", "| measure | figure | budget | holds |", "|---|---|---|---|"]
    broken = []
    for label, path, budget, unit in ROWS:
        value = look_up(whole, path)
        if value is None:
            continue
        holds = budget is None or (value <= budget if budget > 0 else value >= -budget)
        if not holds:
            broken.append(label)
        least = "" if budget is None else f"≤ {budget} {unit}" if budget > 0 else f"≥ {-budget} {unit}"
        answer = "" if budget is None else "yes" if holds else "**no**"
        lines.append(f"| {label} | {number(value)} {unit} | {least} | {answer} |")
    return "\n".join(lines) + "\n", broken


def derived(found: Mapping[str, Any]) -> dict[str, float]:
    """Compute figures from two others."""
    processes, history = found["processes"], found["turns"]["history"]
    sdk = processes["vendor_sdk_import"]["wall_ms"]
    last = list(history.values())[-1]["overhead_ms"]["median"]
    return {
        "oneshot_0": processes["oneshot_0"]["wall_ms"] - sdk,
        "oneshot_10": processes["oneshot_10"]["wall_ms"] - sdk,
        "first_reply": found["gateway"]["start"]["first_reply_ms"]
        - processes["vendor_sdk_on_top"]["wall_ms"],
        "history": last,
        "history_ratio": last / history["at_10"]["overhead_ms"]["median"],
        "history_cpu_ratio": list(history.values())[-1]["cpu_ms"] / history["at_10"]["cpu_ms"],
    }


def look_up(tree: Any, path: str) -> float | None:
    """Return the figure at a dotted path."""
    for step in path.split("."):
        tree = tree.get(step) if isinstance(tree, Mapping) else None
    return tree


def number(value: float) -> str:
    """Format a number with three digits."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
