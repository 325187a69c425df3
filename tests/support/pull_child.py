"""A process that pulls one blob and writes each checkpoint down, to be killed in the middle.

`pull_child.py ROOT CA URL SHA256 PATH CHECKPOINT`
"""

import asyncio
import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from hostler.agent.host.fetch_settings import FetchSettings
from hostler.agent.host.host import Host
from hostler.agent.steps.artifact_pull_blob import KIND
from hostler.catalog.params.artifact import PullBlob
from support.steps import Told, context_of


async def main() -> None:
    root, ca_file, url, sha256, path, checkpoint = sys.argv[1:7]

    async def save(saved: dict[str, Any]) -> None:
        """As the journal does it: old or new, never half."""
        new = Path(checkpoint + ".new")
        new.write_text(json.dumps(saved))
        os.replace(new, checkpoint)  # noqa: PTH105

    settings = FetchSettings(ca_file=ca_file, mark_bytes=1 << 20, disk_reserve_bytes=1)
    params = PullBlob(url=url, sha256=sha256, path=path)
    context = context_of(params, Host(root=Path(root), fetch=settings), Told())
    await KIND.apply(replace(context, save_checkpoint=save))


if __name__ == "__main__":
    asyncio.run(main())
