"""The same user data as the body of MAAS's deploy request: POST /MAAS/api/2.0/machines/SYSTEM_ID/op-deploy (LC-07)."""

import base64

from hostler.control.delivery.cloud_init import user_data
from hostler.control.delivery.contract import Document, Host


class Maas:
    """The caller names the machine and holds the key of its MAAS; we hold neither."""

    name = "maas"

    def document(self, host: Host) -> Document:
        form = {
            "osystem": "debian",
            "distro_series": host.suite,
            "user_data": base64.b64encode(user_data(host).encode()).decode(),
            "comment": f"hostler {host.run_id} {host.node_name}",
        }
        return Document(provider=self.name, media_type="application/x-www-form-urlencoded", content=form)
