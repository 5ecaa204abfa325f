"""Judgement of requests to the Open API, of its responses and of events by lark_oapi's own classes.

Each request class of the SDK names its method, its path, its parameters and its body; each event and response class
names its fields and their types. The SDK is imported at the first judgement: that takes seconds.
"""

import json
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import IO, Any, get_args, get_origin

_NOT_IN_THE_SDK = {("GET", "/open-apis/bot/v3/info")}
_TEXT_OR_NUMBER = {"create_time", "update_time", "action_time"}
"""Numbers of 64 bits, which the platform writes as text."""


@dataclass(frozen=True)
class Route:
    """A request class of the SDK.

    :ivar query: names of its parameters.
    :ivar body: class of its body; None = it has none.
    :ivar response: class of the ``data`` of its response; None = there is none.
    """

    name: str
    method: str
    path: re.Pattern[str]
    query: frozenset[str]
    body: Any
    response: Any


@cache
def _routes() -> tuple[Route, ...]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of libraries that the SDK imports
        import lark_oapi.api.auth.v3 as auth
        import lark_oapi.api.cardkit.v1 as cardkit
        import lark_oapi.api.contact.v3 as contact
        import lark_oapi.api.im.v1 as im
        from lark_oapi.core.model import BaseRequest

    base = set(vars(BaseRequest()))
    found: list[Route] = []
    for module in (im, cardkit, contact, auth):
        for name, kind in vars(module).items():
            if not name.endswith("Request") or not issubclass(kind, BaseRequest) or kind is BaseRequest:
                continue
            request = kind.builder().build()
            uri = str(request.uri)
            in_path = set(re.findall(r":(\w+)", uri))
            plain = set(vars(kind())) - base - {"request_body"} - in_path
            path = re.compile(re.sub(r":\w+", "([^/]+)", uri))
            body = getattr(module, f"{name}Body", None)
            response = getattr(module, f"{name.removesuffix('Request')}ResponseBody", None)
            found.append(Route(name, request.http_method.name, path, frozenset(plain), body, response))
    # a path with fewer parameters goes first: /cards/id_convert is no card
    return tuple(sorted(found, key=lambda one: one.path.groups))


def route_of(method: str, path: str) -> Route | None:
    """Return the request class for a method and a path, if the SDK has one."""
    return next((one for one in _routes() if one.method == method and one.path.fullmatch(path)), None)


def wrong_in_request(method: str, path: str, query: Mapping[str, str], body: Any) -> list[str]:
    """Return what is wrong in a request.

    :param body: parsed JSON, or the fields of a form; None = there is none.
    """
    if (method, path) in _NOT_IN_THE_SDK:
        return []
    route = route_of(method, path)
    if route is None:
        return [f"{method} {path}: the SDK has no such request"]
    wrong = [f"{name} is no parameter" for name in query.keys() - route.query]
    if body is not None and route.body is None:
        wrong.append("it has no body")
    elif body is not None:
        wrong += wrong_in(route.body, body)
    return [f"{route.name}: {one}" for one in wrong]


def wrong_in_response(method: str, path: str, data: Any) -> list[str]:
    """Return what is wrong in ``data`` of a response that the rig makes."""
    route = route_of(method, path)
    if route is None or route.response is None:
        return []
    return [f"response to {route.name}: {one}" for one in wrong_in(route.response, data)]


def wrong_in(kind: Any, value: Any, at: str = "") -> list[str]:
    """Return the fields of a document that a class of the SDK does not know, or knows with another type."""
    if value is None or kind is None or kind is Any:
        return []
    origin = get_origin(kind)
    if origin is list:
        if not isinstance(value, list):
            return [f"{at} is no list"]
        (inner,) = get_args(kind)
        return [
            wrong for number, one in enumerate(value) for wrong in wrong_in(inner, one, f"{at}[{number}]")
        ]
    if hasattr(kind, "_types"):
        if not isinstance(value, Mapping):
            return [f"{at} is no object"]
        types = {**dict.fromkeys(vars(kind())), **kind._types}
        found = [f"{at}.{name} is unknown" for name in value.keys() - types.keys()]
        for name in value.keys() & types.keys():
            found += wrong_in(types[name], value[name], f"{at}.{name}")
        return found
    name = at.rpartition(".")[2]
    if kind is int and name in _TEXT_OR_NUMBER and isinstance(value, str):
        return [] if value.isdecimal() else [f"{at} is no number"]
    if kind in (str, int, bool, float, dict) and type(value) is not kind:
        return [f"{at} is {type(value).__name__} instead of {kind.__name__}"]
    if origin is IO and not isinstance(value, bytes):
        return [f"{at} is no file"]
    return []


@cache
def _events() -> dict[str, Any]:
    from lark_oapi.api.im.v1 import P2ImMessageRecalledV1, P2ImMessageReceiveV1

    return {"im.message.receive_v1": P2ImMessageReceiveV1, "im.message.recalled_v1": P2ImMessageRecalledV1}


def wrong_in_event(event: Mapping[str, Any]) -> list[str]:
    """Return what is wrong in an event that the rig makes."""
    kind = _events().get(event["header"]["event_type"])
    return ["the SDK has no such event"] if kind is None else [f"event{one}" for one in wrong_in(kind, event)]


def wrong_in_push(headers: Mapping[str, str], body: bytes, key: str, token: str) -> list[str]:
    """Return what the SDK's own receiver of webhooks finds wrong in a push of the rig: encryption, signature, event."""
    from lark_oapi.core.model import RawRequest
    from lark_oapi.event.dispatcher_handler import EventDispatcherHandler

    got: list[Any] = []
    builder = EventDispatcherHandler.builder(key, token)
    builder.register_p2_im_message_receive_v1(got.append).register_p2_im_message_recalled_v1(got.append)
    request = RawRequest()
    request.uri, request.headers, request.body = "/webhook", dict(headers), body
    response = builder.build().do(request)
    if response.status_code == 200 and len(got) == 1:
        return []
    return [f"push: the SDK answers {response.status_code} {json.dumps(str(response.content))}"]
