"""Connect's REST, as far as this runtime has it. Source: ``ConnectorsResource`` and OpenAPI of Kafka 4."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import urlencode

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from connect_share import ConnectorTaskId, ConnectShareError, RecordError, TargetState, UsageError
from connect_share.runtime import is_valid_signature

from .herder import Herder
from .leader_client import NOT_AGAIN, RestError, forward

_MOST_BODY_BYTES = 1024 * 1024
_BODY_S = 30.0
_MOST_TASK_DIGITS = 9

Handler = Callable[[Herder, Request, Any], Any]
Endpoint = Callable[[Request], Awaitable[Response]]


def application(herder: Herder) -> Starlette:
    """Return the ASGI application of a worker."""

    def answered(handler: Handler, *, status: int = 200, leader: bool = False) -> Endpoint:
        async def endpoint(request: Request) -> Response:
            body = await _body(request)
            if leader and not herder.is_leader():
                return await run_in_threadpool(_forwarded, herder, request, body)
            found = await run_in_threadpool(handler, herder, request, _json(body))
            return _answer(found, status)

        return endpoint

    def of_connector(ask: Callable[[str], Any], *, status: int = 200, leader: bool = False) -> Endpoint:
        return answered(lambda _herder, request, _: ask(_name(request)), status=status, leader=leader)

    def target(state: TargetState, status: int) -> Endpoint:
        return of_connector(lambda name: herder.set_target_state(name, state), status=status, leader=True)

    named, task = "/connectors/{name}", "/connectors/{name}/tasks/{task}"
    endpoints: dict[str, dict[str, Endpoint]] = {
        "/": {"GET": answered(lambda *_: herder.about())},
        "/health": {"GET": answered(lambda *_: herder.health())},
        "/connector-plugins": {"GET": answered(lambda *_: herder.plugins())},
        "/connector-plugins/{name}/config/validate": {"PUT": answered(_validate)},
        "/connectors": {"GET": answered(_list), "POST": answered(_create, status=201, leader=True)},
        named: {"GET": of_connector(herder.info), "DELETE": of_connector(herder.delete, status=204, leader=True)},
        f"{named}/config": {"GET": of_connector(herder.config_of), "PUT": answered(_put_config, leader=True)},
        f"{named}/status": {"GET": of_connector(herder.status)},
        f"{named}/tasks": {"GET": of_connector(herder.tasks), "POST": _internal(herder, herder.put_task_configs)},
        f"{named}/fence": {"PUT": _internal(herder, lambda name, _: herder.fence(name))},
        f"{named}/pause": {"PUT": target(TargetState.PAUSED, 202)},
        f"{named}/resume": {"PUT": target(TargetState.STARTED, 202)},
        f"{named}/stop": {"PUT": target(TargetState.STOPPED, 204)},
        f"{named}/restart": {"POST": answered(_restart, leader=True)},
        f"{named}/topics": {"GET": of_connector(herder.topics)},
        f"{named}/topics/reset": {"PUT": of_connector(herder.reset_topics)},
        f"{named}/offsets": {
            "GET": of_connector(herder.offsets),
            "PATCH": answered(_alter_offsets, leader=True),
            "DELETE": of_connector(herder.reset_offsets, leader=True),
        },
        f"{task}/status": {"GET": answered(lambda _herder, request, _: herder.task_status(_task(request)))},
        f"{task}/restart": {"POST": answered(_restart_task, status=204)},
    }
    errors = {RestError: _refused, HTTPException: _refused, ConnectShareError: _refused, Exception: _failed}
    return Starlette(routes=[_route(*each) for each in endpoints.items()], exception_handlers=errors)


def _route(path: str, by_method: Mapping[str, Endpoint]) -> Route:
    """Return one route for all methods of a path, so that an answer 405 names them all."""

    async def endpoint(request: Request) -> Response:
        return await by_method["GET" if request.method == "HEAD" else request.method](request)

    return Route(path, endpoint, methods=list(by_method))


async def _body(request: Request) -> bytes:
    """Return the body, which is JSON: a form or a text, which a page of others can send from a browser, is refused."""
    media_type = request.headers.get("content-type")
    if media_type is not None and media_type.partition(";")[0].strip().lower() != "application/json":
        raise RestError(415, "The Content-Type has to be application/json")
    found = bytearray()
    try:
        async with asyncio.timeout(_BODY_S):
            async for part in request.stream():
                found += part
                if len(found) > _MOST_BODY_BYTES:
                    raise RestError(413, f"The body has more than {_MOST_BODY_BYTES:,} bytes")
    except TimeoutError:
        raise RestError(408, f"The body has not come within {_BODY_S:g} seconds") from None
    if found and media_type is None:
        raise RestError(415, "The Content-Type has to be application/json")
    return bytes(found)


def _json(body: bytes) -> Any:
    if not body:
        return None
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise RestError(400, "The body is not JSON") from None


def _answer(found: Any, status: int) -> Response:
    if isinstance(found, Response):
        return found
    # Some clients read the body of every answer that may have one.
    return Response(status_code=204) if status == 204 else JSONResponse({} if found is None else found, status)


def _forwarded(herder: Herder, request: Request, body: bytes) -> Response:
    if not _may_forward(request):
        raise RestError(409, "The leader of the group is changing; try again")
    query = urlencode([*request.query_params.multi_items(), NOT_AGAIN])
    url = f"{herder.leader_url().rstrip('/')}{request.scope['raw_path'].decode('ascii')}?{query}"
    status, answer = forward(request.method, url, body, {"Content-Type": "application/json"})
    return Response(answer, status, media_type="application/json" if answer else None)


def _may_forward(request: Request) -> bool:
    """Return whether this request comes from a client, and not from another worker that forwarded it."""
    return NOT_AGAIN not in request.query_params.multi_items()


def _internal(herder: Herder, action: Callable[[str, Any], None]) -> Endpoint:
    """Return an endpoint for other workers, whose requests are signed with the session key."""

    async def endpoint(request: Request) -> Response:
        body, key = await _body(request), herder.session_key()
        if key is None:
            raise RestError(503, "There is no session key yet; try again")
        if not is_valid_signature(key.key, body, request.headers):
            raise RestError(403, "The signature of an internal request is missing or wrong")
        await run_in_threadpool(action, _name(request), _json(body))
        return Response(status_code=204)

    return endpoint


def _name(request: Request) -> str:
    return str(request.path_params["name"])


def _task(request: Request) -> ConnectorTaskId:
    text = str(request.path_params["task"])
    if len(text) > _MOST_TASK_DIGITS or not (text.isascii() and text.isdigit()):
        raise RestError(404, f"{text!r} is no task number")
    return ConnectorTaskId(_name(request), int(text))


def _flag(request: Request, name: str) -> bool:
    return request.query_params.get(name, "false").lower() == "true"


def _list(herder: Herder, request: Request, _: Any) -> Any:
    expanded = set(request.query_params.getlist("expand")) & {"status", "info"}
    return herder.connectors(expanded)


def _create(herder: Herder, _: Request, body: Any) -> Any:
    if not isinstance(body, dict) or not isinstance(body.get("name"), str):
        raise RestError(400, "The body has to be an object with name and config")
    return herder.put_connector(body["name"], body.get("config"), new=True, initial=body.get("initial_state"))


def _put_config(herder: Herder, request: Request, body: Any) -> Response:
    existed = herder.exists(_name(request))
    return JSONResponse(herder.put_connector(_name(request), body), 200 if existed else 201)


def _validate(herder: Herder, request: Request, body: Any) -> Any:
    return herder.validate(_name(request), body)


def _restart(herder: Herder, request: Request, _: Any) -> Response:
    include_tasks = _flag(request, "includeTasks")
    found = herder.restart(_name(request), include_tasks=include_tasks, only_failed=_flag(request, "onlyFailed"))
    return JSONResponse(found, 202) if include_tasks or _flag(request, "onlyFailed") else Response(status_code=204)


def _restart_task(herder: Herder, request: Request, _: Any) -> None:
    herder.restart_task(_task(request), may_forward=_may_forward(request))


def _alter_offsets(herder: Herder, request: Request, body: Any) -> Any:
    offsets = body.get("offsets") if isinstance(body, dict) else None
    if not isinstance(offsets, list) or not offsets:
        raise RestError(400, "Partitions / offsets need to be provided for an alter offsets request")
    pairs = []
    for each in offsets:
        if not isinstance(each, dict) or not isinstance(each.get("partition"), dict):
            raise RestError(400, "Each offset has to be an object with partition and offset")
        offset = each.get("offset")
        if offset is not None and not isinstance(offset, dict):
            raise RestError(400, "An offset has to be an object, or null")
        pairs.append((each["partition"], offset))
    return herder.alter_offsets(_name(request), pairs)


async def _refused(_: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException):
        status, message = error.status_code, str(error.detail)
    elif isinstance(error, RestError):
        status, message = error.status, error.message
    else:
        status, message = 400 if isinstance(error, UsageError | RecordError) else 503, str(error)
    return JSONResponse({"error_code": status, "message": message}, status, getattr(error, "headers", None))


async def _failed(_: Request, error: Exception) -> Response:
    return JSONResponse({"error_code": 500, "message": f"Unexpected: {type(error).__name__}"}, 500)
