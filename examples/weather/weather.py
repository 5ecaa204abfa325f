"""A weather tool: the same function for claw (a plugin in one file) and for the loop beside it."""

from typing import Any, Literal

from claw import hookimpl, tool

DEGREES = {"Beijing": 20, "北京": 20, "Reykjavik": 3}


@tool(effects="none")
def get_weather(city: str, unit: Literal["celsius", "fahrenheit"] = "celsius") -> dict[str, Any]:
    """Look up the weather of a city.

    :param city: name of the city, such as Beijing
    :param unit: of the temperature
    """
    degrees = DEGREES.get(city, 15)
    return {"temp": degrees if unit == "celsius" else degrees * 9 // 5 + 32, "condition": "Sunny"}


@hookimpl
def register_tools(config: Any) -> list[Any]:
    return [get_weather]
