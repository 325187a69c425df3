"""The whole flow inside one process, without a cluster: `python docs/examples/coordinator_workers/run.py`."""

import sys
import threading
from pathlib import Path

from hostler.sdk.local import LocalHouse

sys.path.insert(0, str(Path(__file__).resolve().parent))

import flow


def main() -> None:
    house = LocalHouse()
    arguments = "/ann/coordinator", flow.coordinate, 2, 1000
    coordinator = threading.Thread(target=house.run, args=arguments, kwargs={"ports": ("actor",)})
    coordinator.start()
    house.run("/ann/workers", flow.work, "/ann/coordinator", 2)
    coordinator.join()
    house.close()


if __name__ == "__main__":
    main()
