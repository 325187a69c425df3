"""CG-02: a dispatched task that this node cannot take leaves a signed refusal and nothing else."""

from pathlib import Path

import pytest

from support import builders
from support.agent import core, refused
from support.keys import Keys
from support.resolving import predicate

NEEDS = {"gpu.vendor": ["nvidia", "amd"]}


@pytest.mark.parametrize("has", [{}, {"gpu.vendor": "none"}])
async def test_CG_02_a_forged_dispatch_is_refused_as_incompatible_with_a_receipt(
    tmp_path: Path, has: dict[str, str]
) -> None:
    def needing(keys: Keys):
        return builders.catalog(keys, builders.definition(capabilities=NEEDS))

    async with core(tmp_path, catalog=needing) as node:
        node.view_changes["capabilities"] = has
        verdict = await node.deliver(builders.envelope(node.keys, builders.task(node.keys, node.catalog)))
        assert refused(verdict) == ("incompatible", "capability")
        (receipt,) = node.journal.receipts()
        said = predicate(receipt)
        assert (said["error_code"], said["gate"]) == ("incompatible", "capability")
        assert "gpu.vendor" in said["message"]
        assert node.files() == []
        node.view_changes["capabilities"] = {"gpu.vendor": "amd"}
        await node.run_task()
        assert node.files() != []
