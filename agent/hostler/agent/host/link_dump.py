"""Prints the network interfaces named in its arguments as JSON. A process of its own: pyroute2 is big, and rarely used.

One object an interface that is there: name, up (as configured), state (operstate of RFC 2863), mtu in bytes.
"""

import json
import sys
from collections.abc import Sequence

_IFF_UP = 1


def main(names: Sequence[str]) -> int:
    from pyroute2 import IPRoute

    wanted, found = set(names), []
    with IPRoute() as netlink:
        for link in netlink.get_links():
            name = link.get_attr("IFLA_IFNAME")
            if name in wanted:
                state, mtu = link.get_attr("IFLA_OPERSTATE"), link.get_attr("IFLA_MTU")
                found.append({"name": name, "up": bool(link["flags"] & _IFF_UP), "state": state, "mtu": mtu})
    sys.stdout.write(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
