"""Endpoints of a project's running tasks, for people; tasks ask through their node (API-27)."""

from typing import Any

from hostler.control.api import pages
from hostler.control.api.call import Call


async def listing(call: Call) -> Any:
    project_id = await call.project()
    size = pages.size_of(call.query("page_size"))
    namespace, name, cursor = call.query("namespace"), call.query("endpoint_name"), call.query("cursor")
    return await call.engine.reader.endpoints(project_id, namespace, name, cursor, size)
