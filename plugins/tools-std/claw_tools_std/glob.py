"""The files that a search sees: globs and ignore files as ripgrep reads them. Pure except for the file access
it is given.

Facts from ripgrep 13 (crates ``ignore`` and ``globset``) and gitignore(5), verified by a test against ``rg``
itself: ``*``, ``?`` and classes stop at a slash; ``{a,b}`` is a choice; a glob without a slash matches at any
depth; the last rule of a file wins, a deeper file beats a higher one, ``.rgignore`` beats ``.ignore`` beats
``.gitignore``; the latter counts only in a git repository and not above its root; an ignored folder is not
entered.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import regex
from claw import ToolError

IGNORE_FILES = (".rgignore", ".ignore", ".gitignore")
_EXCLUDE = ".git/info/exclude"
MOST_GLOB_CHARS = 4096
MOST_IGNORE_BYTES = 1_000_000
_MATCH_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class IgnoreRule:
    """One line of an ignore file. ``keep``: it began with ``!``."""

    pattern: Any  # of the package regex, which supports a timeout
    only_folders: bool
    keep: bool

    def fits(self, path: str) -> bool:
        """Return true if the rule matches ``path``.

        :raises ToolError: the match took too long: each star and choice may double the work.
        """
        try:
            return bool(self.pattern.fullmatch(path, timeout=_MATCH_SECONDS, concurrent=True))
        except TimeoutError:
            raise ToolError("a glob has too many stars and choices for {path}", path=path[:200]) from None


@dataclass(frozen=True, slots=True)
class IgnoreLevel:
    """The ignore files of one folder, and those above it.

    :param base: path of the folder with a final slash, empty for the top.
    :param is_repository: it holds ``.git``.
    """

    base: str
    rules: dict[str, tuple[IgnoreRule, ...]]
    is_repository: bool
    above: "IgnoreLevel | None"

    def rule_for(self, path: str, is_folder: bool) -> IgnoreRule | None:
        """Return the rule that decides about ``path``, in or below this folder; None if no rule matches."""
        in_repository = any(level.is_repository for level in self._ancestors())
        for kind in (*IGNORE_FILES, _EXCLUDE):
            of_git = kind in (".gitignore", _EXCLUDE)
            if of_git and not in_repository:
                continue
            for level in self._ancestors():
                if rule := _last_match(level.rules.get(kind, ()), path[len(level.base) :], is_folder):
                    return rule
                if of_git and level.is_repository:
                    break
        return None

    def _ancestors(self) -> "Iterator[IgnoreLevel]":
        level: IgnoreLevel | None = self
        while level is not None:
            yield level
            level = level.above


@dataclass(frozen=True, slots=True)
class GlobSelection:
    """A glob that selects files: ``rg -g``. A file that it matches is seen even if it is ignored or
    hidden.
    """

    rules: tuple[IgnoreRule, ...]

    def verdict(self, path: str, is_folder: bool) -> bool | None:
        """Return True = selected, False = not selected, None = undecided (about a folder)."""
        if not self.rules:
            return None
        if rule := _last_match(self.rules, path, is_folder):
            return not rule.keep
        return None if is_folder or all(rule.keep for rule in self.rules) else False


def only(glob: str | None) -> GlobSelection:
    """Parse a glob; ``!GLOB`` excludes files. None, or a glob that matches everything (``*``, ``**/*``): all
    files that are neither ignored nor hidden.
    """
    if not glob or not set(glob) - set("*/"):
        return GlobSelection(())
    if len(glob) > MOST_GLOB_CHARS:
        raise ToolError("a glob has at most {most} characters", most=MOST_GLOB_CHARS)
    rule = _rule(glob.removeprefix("./"))
    return GlobSelection((rule,) if rule else ())


def files_to_search(
    folder: str,
    wanted: GlobSelection,
    entries: Callable[[str], Any],
    read: Callable[[str, int], bytes],
    go_on: Callable[[], bool],
) -> Iterator[tuple[str, Any]]:
    """Yield every regular file below ``folder`` that ``rg`` would search, by name: (path below ``folder``,
    its entry).

    :param folder: relative to where ignore files may begin; rules of the folders above it count too.
    :param entries: lists a folder; a folder below for which it raises is skipped.
    :param read: reads that many bytes from the start of a file.
    :param go_on: called before each entry; False stops.
    """
    top = _at(folder, entries, read)
    prefix = f"{folder}/" if folder not in ("", ".") else ""
    waiting: list[tuple[str, IgnoreLevel, Iterator[Any]]] = [("", top, iter(entries(folder or ".")))]
    while waiting:
        below, level, rows = waiting[-1]
        row = next(rows, None)
        if row is None:
            waiting.pop()
            continue
        if not go_on():
            return
        path, is_folder = below + row.name, row.kind == "dir"
        if row.kind not in ("file", "dir") or not _is_selected(
            path, prefix + path, row.name, is_folder, level, wanted
        ):
            continue
        if not is_folder:
            yield path, row
        else:
            try:
                found = tuple(entries(prefix + path))
            except Exception:  # noqa: BLE001  not readable, or gone
                continue
            waiting.append((f"{path}/", _level(f"{prefix}{path}/", found, read, level), iter(found)))


def _is_selected(
    path: str, full: str, name: str, is_folder: bool, level: IgnoreLevel, wanted: GlobSelection
) -> bool:
    verdict = wanted.verdict(path, is_folder)
    if verdict is not None:
        return verdict
    rule = level.rule_for(full, is_folder)
    return rule.keep if rule else not name.startswith(".")


def _at(folder: str, entries: Callable[[str], Any], read: Callable[[str, int], bytes]) -> IgnoreLevel:
    """Return the level of ``folder``, with those of every folder above it, from the top down."""
    if folder.startswith("/"):
        return _level(f"{folder}/", tuple(entries(folder)), read, None)
    level, base = _level("", tuple(entries(".")), read, None), ""
    for name in (part for part in folder.split("/") if part not in ("", ".")):
        base += f"{name}/"
        level = _level(base, tuple(entries(base)), read, level)
    return level


def _level(
    base: str, found: tuple[Any, ...], read: Callable[[str, int], bytes], above: IgnoreLevel | None
) -> IgnoreLevel:
    names = {row.name for row in found}
    there = [name for name in IGNORE_FILES if name in names] + ([_EXCLUDE] if ".git" in names else [])
    if not there and above is None:
        return IgnoreLevel(base, {}, False, None)
    return IgnoreLevel(base, {name: _rules(base + name, read) for name in there}, ".git" in names, above)


def _rules(path: str, read: Callable[[str, int], bytes]) -> tuple[IgnoreRule, ...]:
    try:
        text = read(path, MOST_IGNORE_BYTES).decode("utf-8", "replace")
    except Exception:  # noqa: BLE001  an ignore file that cannot be read ignores nothing
        return ()
    return tuple(
        rule for line in text.removeprefix("\ufeff").split("\n") if (rule := _rule(line, in_file=True))
    )


def _last_match(rules: tuple[IgnoreRule, ...], path: str, is_folder: bool) -> IgnoreRule | None:
    for rule in reversed(rules):
        if (is_folder or not rule.only_folders) and rule.fits(path):
            return rule
    return None


@lru_cache(maxsize=4096)
def _rule(line: str, in_file: bool = False) -> IgnoreRule | None:
    line = line.removesuffix("\r")
    if in_file and line.startswith("#"):
        return None
    if not line.endswith("\\ "):
        line = line.rstrip()
    keep = line.startswith("!")
    line = line[1:] if keep or line.startswith(("\\!", "\\#")) else line
    anchored = line.startswith("/")
    only_folders = line.endswith("/")
    line = line[anchored:].removesuffix("/")
    if not line:
        return None
    if not anchored and "/" not in line:
        line = f"**/{line}"
    if line.endswith("/**"):
        line += "/*"  # the content of the folder, not the folder
    try:
        return IgnoreRule(regex.compile(to_regex(line), regex.DOTALL), only_folders, keep)
    except (regex.error, RecursionError):
        return None


def to_regex(glob: str) -> str:
    """Translate a glob to a regular expression for a whole path."""
    out, at, depth = "", 0, 0
    while at < len(glob):
        char = glob[at]
        if (
            glob.startswith("**", at)
            and (at == 0 or glob[at - 1] == "/")
            and glob[at + 2 : at + 3] in ("", "/")
        ):
            out += "(?:.*/)?" if glob[at + 2 : at + 3] else ".*"
            at += 3
            continue
        if char == "[" and (found := _class(glob, at)):
            part, at = found
            out += part
            continue
        if char == "\\" and at + 1 < len(glob):
            at += 1
            out += re.escape(glob[at])
        elif char == "{":
            depth += 1
            out += "(?:"
        elif char == "}" and depth:
            depth -= 1
            out += ")"
        elif char == "," and depth:
            out += "|"
        else:
            out += {"*": "[^/]*", "?": "[^/]"}.get(char, re.escape(char))
        at += 1
    return out


def _class(glob: str, at: int) -> tuple[str, int] | None:
    """Return the character class that begins at ``at``, and its end; None when it is not closed."""
    start = at + 1
    negated = glob[start : start + 1] in ("!", "^")
    start += negated
    end = glob.find("]", start + 1)
    if end < 0:
        return None
    inner = re.sub(r"([\\\[&~|^])", r"\\\1", glob[start:end])
    if inner.startswith("]"):
        inner = "\\" + inner
    return (f"(?!/)[{'^' if negated else ''}{inner}]", end + 1)
