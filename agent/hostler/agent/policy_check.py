"""`hostler-agent policy check`: what this node, as it is configured and stands, would say to an envelope."""

from pathlib import Path

from hostler.agent import capabilities
from hostler.agent.admission.explain import Judged, explain
from hostler.agent.admission.view import AdmissionView
from hostler.agent.config import AgentConfig
from hostler.agent.journal.journal import Journal
from hostler.agent.lifecycle import identity
from hostler.agent.lifecycle.trust import Trusted
from hostler.base.clock import Clock
from hostler.base.envelope import Envelope
from hostler.base.errors import error
from hostler.pki import dsse
from hostler.wire.codec_node import decode_envelope

MAX_FILE = 8 * 1024 * 1024


async def check(
    config: AgentConfig, envelope: Envelope, clock: Clock, *, at_ms: int = 0, as_new: bool = False
) -> list[Judged]:
    """Every gate's word. Reads the agent's state, whether it runs or not, and changes nothing of it.

    Args:
        at_ms: judge as of this moment (Unix milliseconds); 0 for now.
        as_new: judge as if this node had never seen the task.
    """
    me = identity.load(config.state)
    journal = await Journal.open(config.state / "journal.db", clock)
    try:
        trusted = Trusted(config.state, journal, clock)
        await trusted.look()
        view = AdmissionView(
            node_id=me.node_id,
            thumbprint=me.thumbprint,
            binding=journal.binding,
            trust=trusted.store,
            catalog=trusted.catalog,
            authority=config.authority,
            capabilities=capabilities.detect(Path(config.files.root)),
            high_sequence=0 if as_new else journal.high_sequence,
            control_epoch=journal.control_epoch,
            held=journal.held,
            known=(lambda _: None) if as_new else journal.known,
            storage=journal.storage,
        )
        return explain(envelope, view, at_ms or clock.now_ms())
    finally:
        await journal.close()


def read_envelope(path: Path) -> Envelope:
    """An envelope as `hostler operations envelope` writes it (DSSE JSON), or as it travels (protobuf).

    Raises:
        HostlerError: `invalid_request` for a file that is neither.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE + 1)
    except OSError as err:
        raise error("file_error", f"{path} cannot be read: {err.strerror}") from err
    if len(data) > MAX_FILE:
        raise error("invalid_request", f"{path} is longer than any envelope")
    if data.lstrip().startswith(b"{"):
        return dsse.from_json(data)
    try:
        return decode_envelope(data)
    except Exception as err:
        raise error("invalid_request", f"{path} holds no envelope") from err
