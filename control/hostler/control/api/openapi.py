"""The OpenAPI 3.1 document, made from the route table and the body structs."""

import re
from typing import Any

import msgspec

from hostler.control.api.route import Route
from hostler.control.api.table import ROUTES

_PARAMETER = re.compile(r"\{(\w+)(?::\w+)?\}")


def document(version: str) -> dict[str, Any]:
    types = [type_ for route in ROUTES for type_ in (route.body, route.answer) if type_ is not None]
    schemas, components = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    of = dict(zip(types, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, of)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Hostler admin API", "version": version, "license": {"name": "Apache-2.0"}},
        "paths": paths,
        "security": [{"bearer": []}],
        "components": {
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
            "schemas": components | {"Problem": _PROBLEM},
        },
    }


def _operation(route: Route, schemas: dict[Any, Any]) -> dict[str, Any]:
    parameters = [_parameter(name, "path") for name in _PARAMETER.findall(route.path)]
    parameters += [_parameter(name, "query") for name in route.query]
    answer = dict(_BYTES) if route.binary else {"application/json": {"schema": schemas[route.answer]}}
    if route.events:
        answer["text/event-stream"] = {"schema": {"type": "string"}}
    described: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.summary,
        "parameters": parameters,
        "responses": {
            "2XX": {"description": "done", "content": answer},
            "default": {
                "description": "refused",
                "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
            },
        },
    }
    if route.body is not None:
        described["requestBody"] = {"required": True, "content": {"application/json": {"schema": schemas[route.body]}}}
    if route.upload:
        described["requestBody"] = {"required": True, "content": _BYTES}
    return described


def _parameter(name: str, place: str) -> dict[str, Any]:
    return {"name": name, "in": place, "required": place == "path", "schema": {"type": "string"}}


_BYTES: dict[str, Any] = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
_PROBLEM: dict[str, Any] = {
    "type": "object",
    "description": "RFC 9457 problem document",
    "required": ["type", "title", "status", "detail", "error_code"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "error_code": {"type": "string"},
        "hint": {"type": "string"},
        "pointer": {"type": "string"},
        "correlation_id": {"type": "string"},
    },
}
