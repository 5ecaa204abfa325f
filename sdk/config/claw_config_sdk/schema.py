"""JSON Schema of sections of the config file: the docstring below a field says what the setting means."""

import ast
import inspect
from functools import cache
from importlib import import_module
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic_core import core_schema


def section_schema(model: "type[BaseModel]") -> dict[str, Any]:
    """Return the JSON Schema of a section, draft 2020-12, with the keys as they are written in the file.

    A property has the ``description`` of its field, else the docstring below the field. Without source (a program that
    ships bytecode only) docstrings are left out.
    """
    return model.model_json_schema(by_alias=True, schema_generator=_WithDocstrings)


class _WithDocstrings(GenerateJsonSchema):
    def model_schema(self, schema: "core_schema.ModelSchema") -> JsonSchemaValue:
        made = super().model_schema(schema)
        fields: dict[str, Any] = schema["cls"].model_fields
        for name, text in _docstrings(schema["cls"]).items():
            field = fields.get(name)
            place = made.get("properties", {}).get(field.alias or name) if field else None
            if isinstance(place, dict):
                place.setdefault("description", text)
        return made


def _docstrings(model: type) -> dict[str, str]:
    """Return the docstrings below the fields of a class, inherited ones too, each in one line."""
    found: dict[str, str] = {}
    for one in reversed(model.__mro__):
        written = _class_bodies(one.__module__).get(one.__qualname__, [])
        for field, text in pairwise(written):
            match field, text:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(said))):
                    found[name] = " ".join(said.split())
    return found


@cache
def _class_bodies(module: str) -> dict[str, list[ast.stmt]]:
    """Return the statements of the classes of a module, by their names; none when there is no source."""
    try:
        tree = ast.parse(inspect.getsource(import_module(module)))
    except (OSError, TypeError, ImportError):
        return {}
    return {one.name: one.body for one in tree.body if isinstance(one, ast.ClassDef)}
