"""One delivery: TLS to the pinned address, signed, bounded in time and size, no redirect, no proxy, silent logs."""

import asyncio
import ssl
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from hostler.base.clock import Clock
from hostler.base.errors import HostlerError
from hostler.base.logs import get_logger
from hostler.control.kernel.webhook_rows import WebhookRow
from hostler.control.store.records import EventView
from hostler.control.webhooks.destination import Destinations
from hostler.control.webhooks.signing import WebhookKey, signature

_log = get_logger("hostler.control.webhooks")
TIMEOUT_S = 10.0
MAX_ANSWER_BYTES = 16 * 1024
AGENT = "hostler-webhooks/1"
TRY_AGAIN = frozenset({408, 409, 425, 429})


class Outcome(NamedTuple):
    """Attributes:
    ok: a 2xx: the receiver has the event.
    reason: for people; never anything that the receiver said but its status.
    refused: the receiver answered that it does not want this event; asking for long is of no use.
    gone: the receiver asked not to be called any more (410).
    """

    ok: bool
    reason: str = ""
    refused: bool = False
    gone: bool = False


class Sender:
    """Attributes:
    key: what secrets are derived from.
    destinations: where deliveries may go.
    """

    def __init__(self, key: WebhookKey, destinations: Destinations, clock: Clock, ca_file: str = "") -> None:
        self.key, self.destinations = key, destinations
        self._clock = clock
        self._ca_file = ca_file
        self._context: ssl.SSLContext | None = None

    async def send(self, hook: WebhookRow, event: EventView, control_epoch: int) -> Outcome:
        """Never raises for what the receiver, the network or a name server did."""
        body = content(event)
        message_id = f"evt_{control_epoch}_{event.id}"
        now_s = self._clock.now_ms() // 1000
        headers = {
            "content-type": "application/json",
            "user-agent": AGENT,
            "webhook-id": message_id,
            "webhook-timestamp": str(now_s),
        }
        try:
            headers["webhook-signature"] = signature(self.key.secret(hook.webhook_id), message_id, now_s, body)
            async with asyncio.timeout(TIMEOUT_S):
                return judged(await self._post(hook.url, headers, body))
        except TimeoutError:
            return Outcome(False, f"no answer in {TIMEOUT_S:.0f} seconds")
        except HostlerError as err:
            return Outcome(False, f"{err.code}: {err.message}")
        except OSError as err:
            return Outcome(False, f"not reachable ({type(err).__name__})")
        except Exception as err:  # noqa: BLE001 - whatever a receiver brings about ends with its own delivery
            _log.warning("webhook.odd", webhook_id=hook.webhook_id, reason=type(err).__name__)
            return Outcome(False, f"cannot be sent ({type(err).__name__})")

    async def _post(self, url: str, headers: dict[str, str], body: bytes) -> int:
        """The status. Raises TimeoutError, OSError, HostlerError."""
        import httpx

        place = self.destinations.check(url)
        address = await self.destinations.pin(place)
        literal = f"[{address}]" if ":" in address else address
        pinned = f"https://{literal}:{place.port}{place.target}"
        headers = headers | {"host": place.host if place.port == 443 else f"{place.host}:{place.port}"}
        try:
            async with (
                httpx.AsyncClient(verify=self._trust(), trust_env=False, timeout=TIMEOUT_S) as client,
                client.stream(
                    "POST", pinned, headers=headers, content=body, extensions={"sni_hostname": place.host}
                ) as answer,
            ):
                read = 0
                async for chunk in answer.aiter_raw(4096):
                    read += len(chunk)
                    if read > MAX_ANSWER_BYTES:
                        break
                return answer.status_code
        except (httpx.HTTPError, httpx.InvalidURL) as err:
            # not chained: the client's exception holds the request
            raise OSError(type(err).__name__) from None

    def _trust(self) -> ssl.SSLContext:
        if self._context is None:
            self._context = ssl.create_default_context()
            if self._ca_file:
                self._context.load_verify_locations(self._ca_file)
        return self._context


def content(event: EventView) -> bytes:
    """What receivers read: type, time and the event as `/api/v1/events` shows it."""
    at = datetime.fromtimestamp(event.at_ms / 1000, UTC).isoformat(timespec="milliseconds")
    return msgspec.json.encode({"type": event.type, "timestamp": at.replace("+00:00", "Z"), "data": event})


def judged(status: int) -> Outcome:
    """2xx and nothing else is a delivery; a redirect is a refusal."""
    if 200 <= status < 300:
        return Outcome(True)
    reason = f"status {status}"
    if status == 410:
        return Outcome(False, reason, refused=True, gone=True)
    return Outcome(False, reason, refused=300 <= status < 500 and status not in TRY_AGAIN)
