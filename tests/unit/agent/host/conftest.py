from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hostler.agent.host.host import Host
from support.commands import host_in


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[Host]:
    async with host_in(tmp_path) as made:
        yield made
