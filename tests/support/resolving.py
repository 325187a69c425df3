"""The seed's sample of a resolver configuration, and the command profiles that it names."""

from hostler.catalog.command_profile import CommandProfile
from hostler.catalog.resolver import ResolverConfig, resolver_config_from

# seed 004 §4.7, as it stands there
SAMPLE = """
hardware_profiles:
  - match: { gpu.vendor: nvidia }
    overrides:
      gpu.runtime.check: nvidia_smi_health
      gpu.driver.validate: nvidia_driver_validate
      gpu.fabric.verify: nccl_allreduce_test
  - match: { gpu.vendor: amd }
    overrides:
      gpu.runtime.check: rocm_smi_health
      gpu.driver.validate: rocm_driver_validate
      gpu.fabric.verify: rccl_allreduce_test
  - match: {}
    overrides:
      gpu.runtime.check: generic_gpu_runtime_check
"""
NVIDIA_SMI_HEALTH = """
id: nvidia_smi_health
command: /usr/bin/nvidia-smi
allowed_args:
  - --query-gpu=utilization.gpu,memory.used,memory.total
  - --format=csv,noheader
arg_schema: null
env_passthrough: []
expected_exit_codes: [0]
timeout_seconds: 30
capture_stdout: true
capture_stderr: true
"""
NAMED = (
    "nvidia_smi_health",
    "nvidia_driver_validate",
    "nccl_allreduce_test",
    "rocm_smi_health",
    "rocm_driver_validate",
    "rccl_allreduce_test",
    "generic_gpu_runtime_check",
)


def commands(*names: str) -> tuple[CommandProfile, ...]:
    """One profile a name; each runs a program of its own name."""
    return tuple(CommandProfile(id=name, command=f"/usr/bin/{name}") for name in names or NAMED)


def sample() -> ResolverConfig:
    import yaml

    return resolver_config_from(yaml.safe_load(SAMPLE))
