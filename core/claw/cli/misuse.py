"""A command line that cannot be read: what is wrong with it and how it is written, in the language of the person.

The library that reads it (typer, with click inside) speaks English alone, and its errors are classes of a private room:
they are known here by their names and fields (typer 0.29, ``_click/exceptions.py``).
"""

import re
from difflib import get_close_matches
from typing import Any

from claw.cli.brought import names
from claw.errors import UsageError

_QUOTED = re.compile(r"'((?:[^'\\]|\\.)*)'")
_KINDS = {
    "int_parsing": "{word} is no whole number",
    "float_parsing": "{word} is no number",
    "greater_than_equal": "{word} is too small: {ge} is the least",
    "less_than_equal": "{word} is too large: {le} is the most",
}
"""What the checking library (pydantic) calls it, in our words."""


def told(why: Any) -> UsageError | None:
    """The error of ours for one of the library's; None when it is of another kind."""
    ctx, said = getattr(why, "ctx", None), str(getattr(why, "message", ""))
    match type(why).__name__:
        case "NoSuchOption":
            return _no_option(why.option_name, ctx)
        case "BadOptionUsage" if "not take" in said:
            return UsageError("{option} takes no value", fix="write {option} alone", option=why.option_name)
        case "BadOptionUsage":
            return UsageError(
                "{option} needs a value behind it", fix="write {option} VALUE", option=why.option_name
            )
        case "MissingParameter" if ctx and why.param:
            return UsageError(
                "{word} is missing", fix="write it as {usage}", word=_name(why.param), usage=_usage(ctx)
            )
        case "BadParameter" if why.param:
            return _bad_value(why, said)
        case "UsageError" if ctx and said.startswith("No such command"):
            return _no_command(ctx, said)
        case "UsageError" if ctx and said.startswith("Missing command"):
            return UsageError("the command is missing", fix="{path} --help lists them", path=ctx.command_path)
        case "UsageError" if ctx and said.startswith("Got unexpected"):
            word = said.partition("(s) (")[2].removesuffix(")")
            fix = "write it as {usage}; words that belong together stand in quotes"
            return UsageError("there is no place for {word}", fix=fix, word=word, usage=_usage(ctx))
    return None


def _no_option(name: str, ctx: Any) -> UsageError:
    known = [word for param in ctx.command.get_params(ctx) for word in param.opts if word[0] == "-"]
    near = "".join(get_close_matches(name, known, 1))
    fix = "did you mean {near}?" if near else "{path} --help lists its options"
    return UsageError("there is no option {name}", fix=fix, name=name, near=near, path=ctx.command_path)


def _no_command(ctx: Any, said: str) -> UsageError:
    quoted = _QUOTED.search(said)
    word = quoted[1] if quoted else "?"
    group = ctx.command_path.partition(" ")[2]
    brought = () if group else names()  # of plugins: they work, and no help lists them
    near = "".join(get_close_matches(word, [*ctx.command.list_commands(ctx), *brought], 1))
    fix = "did you mean claw {near}?" if near else "{path} --help lists them"
    return UsageError(
        "there is no command {name}", fix=fix, path=ctx.command_path, name=f"{group} {word}".lstrip(),
        near=f"{group} {near}".lstrip(),
    )  # fmt: skip


def _bad_value(why: Any, said: str) -> UsageError | None:
    """A value of the wrong kind; the cause tells which."""
    ask = getattr(why.__cause__, "errors", None)
    fault: dict[str, Any] = ask()[0] if ask else {"type": "", "input": ""}
    word, name = fault["input"], _name(why.param)
    if template := _KINDS.get(fault["type"]):
        return UsageError(template, where=name, word=word, **fault.get("ctx", {}))
    if " is not one of " in said:
        known = _QUOTED.findall(said.partition(" is not one of ")[2])
        near = "".join(get_close_matches(str(word), known, 1))
        fix = "did you mean {near}?" if near else ""
        return UsageError(
            "{word} is none of {known}", where=name, fix=fix, word=word, known=", ".join(known), near=near
        )
    return UsageError("{why}", where=name, why=said.removeprefix("Value error, "))


def _name(param: Any) -> str:
    """As it is typed: an option with its dashes, an argument as help shows it."""
    return str(param.opts[0] if param.param_type_name == "option" else param.name.upper())


def _usage(ctx: Any) -> str:
    """The whole line: ``claw auth add [OPTIONS] PROVIDER``."""
    pieces = " ".join(ctx.command.collect_usage_pieces(ctx)).upper()
    return f"{ctx.command_path} {pieces.replace('{', '').replace('}', '')}"
