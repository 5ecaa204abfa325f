"""Errors of the command line itself: what is wrong and how it is written, in the language of the person.

The parser (typer, with click inside) speaks English alone, and its error classes are private: they are
recognised by their names and fields (typer 0.29, ``_click/exceptions.py``).
"""

import re
from typing import Any

from claw.cli.plugin_commands import missing_command_error
from claw.config.summary import plugins_that_bring
from claw.contracts.errors import UsageError, nearest

_QUOTED = re.compile(r"'((?:[^'\\]|\\.)*)'")
_KINDS = {
    "int_parsing": "{word} is not a whole number",
    "float_parsing": "{word} is not a number",
    "greater_than_equal": "{word} is too small: the minimum is {ge}",
    "less_than_equal": "{word} is too large: the maximum is {le}",
}
"""Error types of the validating library (pydantic), in our words."""


def usage_error_of(why: Any) -> UsageError | None:
    """Return our error for one of the parser's; None when it is of another kind."""
    ctx, message = getattr(why, "ctx", None), str(getattr(why, "message", ""))
    match type(why).__name__:
        case "NoSuchOption":
            return _no_option(why.option_name, ctx)
        case "BadOptionUsage" if "not take" in message:
            return UsageError("{option} takes no value", fix="write {option} alone", option=why.option_name)
        case "BadOptionUsage":
            return UsageError("{option} needs a value", fix="write {option} VALUE", option=why.option_name)
        case "MissingParameter" if ctx and why.param:
            return UsageError(
                "{word} is missing", fix="usage: {usage}", word=_name(why.param), usage=_usage(ctx)
            )
        case "BadParameter" if why.param:
            return _bad_value(why, message)
        case "UsageError" if ctx and message.startswith("No such command"):
            return _no_command(ctx, message)
        case "UsageError" if ctx and message.startswith("Missing command"):
            return UsageError("the command is missing", fix="{path} --help lists them", path=ctx.command_path)
        case "UsageError" if ctx and message.startswith("Got unexpected"):
            word = message.partition("(s) (")[2].removesuffix(")")
            is_data = word.startswith("{") and any("--args" in param.opts for param in ctx.command.params)
            fix = (
                "write --args in front of it"
                if is_data
                else "usage: {usage} (quote values that contain spaces)"
            )
            return UsageError("unexpected argument {word}", fix=fix, word=word, usage=_usage(ctx))
    return None


def _no_option(name: str, ctx: Any) -> UsageError:
    known = [word for param in ctx.command.get_params(ctx) for word in param.opts if word[0] == "-"]
    near = nearest(name, known) or ""
    fix = "did you mean {near}?" if near else "{path} --help lists its options"
    return UsageError("unknown option {name}", fix=fix, name=name, near=near, path=ctx.command_path)


def _no_command(ctx: Any, message: str) -> UsageError:
    quoted = _QUOTED.search(message)
    word = quoted[1] if quoted else "?"
    group = ctx.command_path.partition(" ")[2]
    if missing := missing_command_error(f"{group} {word}".lstrip()):
        return missing
    ours = [
        name
        for before, _, name in (path.rpartition(" ") for path in plugins_that_bring("commands"))
        if before == group
    ]
    near = nearest(word, [*ctx.command.list_commands(ctx), *ours]) or ""
    fix = "did you mean claw {near}?" if near else "{path} --help lists them"
    return UsageError(
        "unknown command {name}", fix=fix, path=ctx.command_path, name=f"{group} {word}".lstrip(),
        near=f"{group} {near}".lstrip(),
    )  # fmt: skip


def _bad_value(why: Any, message: str) -> UsageError | None:
    """Return the error for a value of the wrong kind; the cause says which."""
    errors_of = getattr(why.__cause__, "errors", None)
    fault: dict[str, Any] = errors_of()[0] if errors_of else {"type": "", "input": ""}
    word, name = fault["input"], _name(why.param)
    if template := _KINDS.get(fault["type"]):
        return UsageError(template, where=name, word=word, **fault.get("ctx", {}))
    if " is not one of " in message:
        known = _QUOTED.findall(message.partition(" is not one of ")[2])
        near = nearest(str(word), known) or ""
        fix = "did you mean {near}?" if near else ""
        return UsageError(
            "{word} is not one of: {known}", where=name, fix=fix, word=word, known=[*known], near=near
        )
    return UsageError("{why}", where=name, why=message.removeprefix("Value error, "))


def _name(param: Any) -> str:
    """Return a parameter as it is typed: an option with its dashes, an argument as help shows it."""
    return str(param.opts[0] if param.param_type_name == "option" else param.name.upper())


def _usage(ctx: Any) -> str:
    """Return the whole usage line: ``claw auth add [OPTIONS] PROVIDER``."""
    pieces = " ".join(ctx.command.collect_usage_pieces(ctx)).upper()
    return f"{ctx.command_path} {pieces.replace('{', '').replace('}', '')}"
