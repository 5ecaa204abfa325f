"""Value types of the config: secrets, durations, addresses, lists of names; and the base class of all sections."""

import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin
from urllib.parse import urlsplit

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError, core_schema

from claw.config.source import SubstitutedText
from claw.contracts.errors import ConfigError, UsageError
from claw.storage.clock import parse_duration


def validation_error(
    problem: str, fix: str = "", *, at: tuple[str | int, ...] = (), **values: object
) -> PydanticCustomError:
    """Create a validator's error.

    :param at: path inside the validated value; empty = the value itself.
    """
    context = {"problem": problem, "fix": fix, "at": at, "values": values}
    return PydanticCustomError("claw", "{problem}", context)


class Section(BaseModel):
    """A section of the file: frozen, unknown keys are refused; keys are camelCase, snake_case is accepted too."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        defer_build=True,
        hide_input_in_errors=True,
    )

    @model_validator(mode="before")
    @classmethod
    def _is_unambiguous(cls, value: Any) -> Any:
        """Refuse a key in both spellings, of which one would be ignored, and values of a type that pydantic converts."""
        for name, field in cls.model_fields.items() if isinstance(value, Mapping) else ():
            alias = field.alias or name
            if name != alias and name in value and alias in value:
                problem = "is written twice: {name} and {alias}"
                raise validation_error(problem, "Keep one of them", at=(name,), name=name, alias=alias)
            written = alias if alias in value else name
            given = value.get(written)
            if field.annotation is bool and isinstance(given, str) and not isinstance(given, SubstitutedText):
                fix = "Write true or false without quotes"
                raise validation_error("must be true or false", fix, at=(written,))
            if isinstance(given, bool) and _is_number(field.annotation, field.metadata):
                raise validation_error("must be a number", "Write digits, without quotes", at=(written,))
        return value


def _is_number(annotation: Any, metadata: Sequence[Any] = ()) -> bool:
    """Return true for the type of a number, also of one that may be absent; not of one that has a unit."""
    if get_origin(annotation) in (Union, UnionType):
        return all(_is_number(one) for one in get_args(annotation))
    metadata = getattr(annotation, "__metadata__", metadata)
    is_converted = any(isinstance(one, BeforeValidator) for one in metadata)
    return getattr(annotation, "__origin__", annotation) in (int, float, type(None)) and not is_converted


def section_default() -> Any:
    """Return the default of a nested section: all its own defaults, without building that section's schema early."""
    return Field({}, validate_default=True)


class Secret:
    """A value that is never shown: a text, ``${NAME}``, ``{env: NAME}`` or ``{file: path}``.

    ``repr``, ``str`` and JSON give asterisks; ``reveal()`` returns the text. False when it is empty or its variable is
    not set.
    """

    __slots__ = ("_environ", "_home", "_source")

    def __init__(
        self,
        source: str | Mapping[str, str],
        *,
        environ: Mapping[str, str] | None = None,
        home: Path = Path(),
    ) -> None:
        self._source, self._environ, self._home = source, environ or {}, home

    def reveal(self) -> str:
        """Return the text; a file is read at each call.

        :raises ConfigError: the variable is not set, or the file cannot be read. The caller adds the key.
        """
        for name in self.missing:
            fix = "Set {name} before claw starts, or remove the key"
            raise ConfigError("", "the environment variable {name} is not set", fix, name=name)
        if isinstance(self._source, str):
            return str(self._source)
        if "env" in self._source:
            return self._environ[self._source["env"]]
        path = self._home / self._source["file"]
        try:
            return path.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as cause:
            problem = "the secret file {path} cannot be read"
            raise ConfigError("", problem, "Check the path and its permissions", path=path) from cause

    @property
    def missing(self) -> tuple[str, ...]:
        """The required environment variables that are not set."""
        if isinstance(self._source, str):
            return getattr(self._source, "missing", ())
        name = self._source.get("env")
        return (name,) if name and name not in self._environ else ()

    @property
    def is_reference(self) -> bool:
        """True for ``{env: NAME}`` and ``{file: path}``, false for a text."""
        return not isinstance(self._source, str)

    @property
    def empty(self) -> bool:
        """True for a text that is blank."""
        return isinstance(self._source, str) and not self._source.strip()

    def __bool__(self) -> bool:
        return not self.empty and not self.missing

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._source == other._source

    def __hash__(self) -> int:
        return hash(str(self._source))

    def __repr__(self) -> str:
        return "Secret(******)" if self else "Secret()"

    __str__ = __repr__

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> core_schema.CoreSchema:
        shown = core_schema.plain_serializer_function_ser_schema(
            lambda secret: "******" if secret else "", when_used="json"
        )
        return core_schema.with_info_plain_validator_function(cls._read, serialization=shown)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: Any) -> dict[str, Any]:
        reference = {"type": "object", "additionalProperties": False, "minProperties": 1, "maxProperties": 1}
        told = {
            "env": "Environment variable that holds it.",
            "file": "File that holds it; relative to the home.",
        }
        reference["properties"] = {name: {"type": "string", "description": told[name]} for name in told}
        return {"anyOf": [{"type": "string"}, reference], "writeOnly": True}

    @classmethod
    def _read(cls, value: Any, info: core_schema.ValidationInfo) -> "Secret":
        if isinstance(value, Secret):
            return value
        context = info.context or {}
        points = isinstance(value, Mapping) and set(value) in ({"env"}, {"file"})
        is_reference = points and all(isinstance(name, str) and name for name in value.values())
        if not isinstance(value, str) and not is_reference:
            forms = "text, ${NAME}, {env: NAME} or {file: path}"
            raise validation_error("must be {forms}", "Put a string in quotes", forms=forms)
        return cls(value, environ=context.get("environ"), home=context.get("home", Path()))


def secret_values(value: Any) -> Iterator[str]:
    """Yield the texts of all secrets in validated settings. A literal that may be an ordinary word is left out."""
    if isinstance(value, Secret):
        with suppress(ConfigError):  # it is an error where it is used
            text = value.reveal()
            if type(value._source) is not str or not _is_word(text):
                yield text
    elif isinstance(value, BaseModel):
        yield from secret_values([getattr(value, name) for name in type(value).model_fields])
    elif isinstance(value, Mapping | list | tuple):
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from secret_values(part)


def _is_word(text: str) -> bool:
    return len(text) < 8 or (len(text) < 12 and text.isalpha())


def _duration(value: Any) -> Any:
    if isinstance(value, str):
        seconds = 0.0 if value.strip().lower() in ("off", "0") else parse_duration(value)
        if seconds is not None:
            return seconds
    elif isinstance(value, float) or (value == 0 and value is not False):
        return value
    fix = "Write a number with its unit: 30s, 30m, 1h30m, 2d; off or 0m for never"
    raise validation_error("is not a duration", fix)


def _names(value: Any) -> Any:
    """Accept ``"*"`` without a list, and refuse any other single text."""
    if value == "*":
        return ("*",)
    if isinstance(value, str):
        fix = "Write it as a list: [{value}]"
        raise validation_error("must be a list, not a single string", fix, value=value)
    return value


_AS_WRITTEN = WithJsonSchema({"type": ["string", "number"], "examples": ["30m", "1h", "off"]})
Duration = Annotated[float, BeforeValidator(_duration), _AS_WRITTEN]
"""Seconds; written ``30m``, ``1h30m``, ``off``."""

Names = Annotated[
    tuple[str, ...], BeforeValidator(_names, json_schema_input_type=tuple[str, ...] | Literal["*"])
]
"""List of names of tools, groups, plugins or people; written as a list or ``"*"``."""


def origin_of(address: str) -> str:
    """Return ``scheme://host[:port]`` of an address, in lower case and without a default port.

    :raises UsageError: it is not the address of an HTTP service, or contains a password. A single word without a scheme
        is none either: it is more often a key in the wrong place than a host.
    """
    text = address.strip()
    bare = "://" not in text
    try:
        parts = urlsplit(f"https://{text}" if bare else text)
        host, port = (parts.hostname or "").lower(), parts.port
    except ValueError:
        host, port, parts = "", None, urlsplit("")
    strange = any(char.isspace() or char == "\\" for char in text)
    strange = strange or (bare and "." not in host and port is None and not is_loopback(host))
    if not host or parts.scheme not in ("https", "http") or strange:
        raise UsageError("this is not an HTTP address", fix="write it as https://host or http://host:port")
    if parts.username is not None or parts.password is not None:
        fix = "put the key into the provider's or channel's key setting"
        raise UsageError("an address must not contain a user name or password", fix=fix)
    scheme = "http" if bare and is_loopback(host) else parts.scheme
    shown = f"[{host}]" if ":" in host else host
    usual = port in (None, {"https": 443, "http": 80}[scheme])
    return f"{scheme}://{shown}" if usual else f"{scheme}://{shown}:{port}"


def is_loopback(host: str) -> bool:
    """Return true if a host name or address means this machine, judged by its spelling alone."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
