"""CR-03: a step reads a credential through its handle, of the type it takes and no other."""

import msgspec
import pytest

from hostler.agent.secrets.material import material
from hostler.agent.secrets.secret import Secret
from hostler.agent.secrets.table import SecretTable, StepSecrets
from hostler.base.clock import Deadline, SystemClock
from hostler.base.errors import HostlerError
from hostler.catalog.credentials import HfToken, OciPull

CLOCK = SystemClock()


async def test_CR_03_material_is_read_by_the_step_it_was_made_for() -> None:
    table = SecretTable(Deadline.after(60, CLOCK), CLOCK)
    made = HfToken(token="hf_canary_0123456789")
    secret = Secret.take(bytearray(msgspec.json.encode(made)))
    handle = StepSecrets(table, "mint").put(secret, steps=frozenset({"pull"}), lifetime_s=30)
    assert material(StepSecrets(table, "pull"), handle, HfToken) == made
    with pytest.raises(HostlerError) as other_step:
        material(StepSecrets(table, "verify"), handle, HfToken)
    assert other_step.value.code == "unknown_handle"
    with pytest.raises(HostlerError) as other_type:
        material(StepSecrets(table, "pull"), handle, OciPull)
    assert other_type.value.code == "credential_mismatch"
    assert "canary" not in str(other_type.value)
    assert other_type.value.__cause__ is None
    table.close()
