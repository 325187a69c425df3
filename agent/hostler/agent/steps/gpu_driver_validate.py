"""`gpu.driver.validate`: the driver is loaded and answers for every device (SK-15)."""

from hostler.agent.hardware.device_tools import READERS
from hostler.agent.steps.gpu_check import GpuCheck
from hostler.agent.steps.gpu_devices import Devices, judged

KIND: GpuCheck[Devices] = GpuCheck("gpu.driver.validate", READERS, judged)
