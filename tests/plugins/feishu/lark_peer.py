"""The vendor's own SDK in a process of its own: it takes seconds and 160 MB to import, blocks, and cannot be stopped.

One command a line on stdin, one answer a line on stdout, both JSON. Started by ``test_contract.py``.
"""

import asyncio
import base64
import importlib
import io
import json
import logging
import sys
import threading
import warnings
from typing import Any

warnings.simplefilter("ignore")
import lark_oapi as lark  # noqa: E402
import lark_oapi.ws.client as socket_client  # noqa: E402
from lark_oapi.core.model import RawRequest  # noqa: E402
from lark_oapi.event.callback.model.p2_card_action_trigger import P2CardActionTriggerResponse  # noqa: E402
from lark_oapi.ws.pb.pbbp2_pb2 import Frame  # noqa: E402

logging.disable(logging.CRITICAL)
RECEIVED: list[dict[str, Any]] = []
CLIENTS: dict[str, Any] = {}


def plain(value: Any) -> Any:
    return json.loads(lark.JSON.marshal(value)) if value is not None else None


def handler(key: str, token: str) -> Any:
    def button(event: Any) -> P2CardActionTriggerResponse:
        RECEIVED.append(plain(event))
        return P2CardActionTriggerResponse({"toast": {"type": "info", "content": "ok"}})

    return (
        lark.EventDispatcherHandler.builder(key, token)
        .register_p2_im_message_receive_v1(lambda event: RECEIVED.append(plain(event)))
        .register_p2_im_message_reaction_created_v1(lambda event: RECEIVED.append(plain(event)))
        .register_p2_card_action_trigger(button)
        .build()
    )


def dispatch(headers: dict[str, str], body: str, key: str, token: str) -> Any:
    """A webhook body through the dispatcher."""
    RECEIVED.clear()
    request = RawRequest()
    request.uri, request.headers, request.body = "/webhook", headers, body.encode()
    answer = handler(key, token).do(request)
    return {"status": answer.status_code, "body": answer.content.decode(), "received": list(RECEIVED)}


def listen(domain: str, app_id: str, secret: str) -> Any:
    """The socket client, in a thread that never ends."""
    RECEIVED.clear()
    client = lark.ws.Client(app_id, secret, event_handler=handler("", ""), domain=domain)

    def run() -> None:
        socket_client.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(socket_client.loop)
        client.start()

    threading.Thread(target=run, daemon=True).start()
    return True


def received() -> Any:
    return list(RECEIVED)


def call(
    domain: str, app_id: str, secret: str, api: str, resource: str, method: str, request: dict[str, Any]
) -> Any:
    """One API call, ``request`` = {class, fields, body: {class, fields}}; ``{"bytes": base64}`` is a file."""
    if domain not in CLIENTS:
        CLIENTS[domain] = lark.Client.builder().app_id(app_id).app_secret(secret).domain(domain).build()
    models = importlib.import_module(f"lark_oapi.api.{api}")
    service = CLIENTS[domain]
    for part in (*api.split("."), resource):
        service = getattr(service, part)
    answer = getattr(service, method)(built(models, request))
    file = getattr(answer, "file", None)
    data = (
        base64.b64encode(file.read()).decode()
        if file
        else plain(answer.data)
        if hasattr(answer, "data")
        else None
    )
    return {"code": answer.code, "msg": answer.msg, "data": data}


def built(models: Any, fields: dict[str, Any]) -> Any:
    builder = getattr(models, fields["class"]).builder()
    for name, value in fields["fields"].items():
        given = value
        if isinstance(value, dict) and "class" in value:
            given = built(models, value)
        elif isinstance(value, dict) and "bytes" in value:
            given = io.BytesIO(base64.b64decode(value["bytes"]))
            given.name = "file.bin"
        getattr(builder, name)(given)
    return builder.build()


def frame(data: str) -> Any:
    """A frame read and written by the vendor's protobuf class."""
    one = Frame()
    one.ParseFromString(base64.b64decode(data))
    fields = {"method": one.method, "service": one.service, "SeqID": one.SeqID, "LogID": one.LogID}
    fields["headers"] = [[header.key, header.value] for header in one.headers]
    fields["payload"] = base64.b64encode(one.payload).decode()
    return {**fields, "again": base64.b64encode(one.SerializeToString()).decode()}


def main() -> None:
    out, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        fields = json.loads(line)
        try:
            answer = {"ok": globals()[fields.pop("do")](**fields)}
        except BaseException as why:  # the test shows it
            answer = {"error": f"{type(why).__name__}: {why}"}
        print(json.dumps(answer), file=out, flush=True)


if __name__ == "__main__":
    main()
