"""What the Debian packages consist of: one table for building, locking and testing them."""

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CONSTRAINTS = ROOT / "packaging" / "constraints.txt"
LOCKS = ROOT / "packaging" / "locks"
DEBIAN = ROOT / "packaging" / "debian"
SHARED = ("pki/hostler", "profiles/hostler", "proto/hostler")


@dataclass(frozen=True)
class Suite:
    """A Debian release, by the one Python it has."""

    name: str
    python: str
    version: str  # that of the release; part of the package's version, so that an upgrade of the host takes the newer

    @property
    def tag(self) -> str:
        return "cp" + self.python.replace(".", "")

    @property
    def next_python(self) -> str:
        major, minor = self.python.split(".")
        return f"{major}.{int(minor) + 1}"


@dataclass(frozen=True)
class Package:
    """Attributes:
    sources: directories whose files go in, each below its own `hostler`.
    extras: of pyproject.toml.
    without: dependencies of the project that nothing in this package imports.
    left_out: what a dependency brings along and only its own command line uses.
    programs: name → module:function.
    """

    name: str
    sources: tuple[str, ...]
    extras: tuple[str, ...]
    programs: dict[str, str]
    without: tuple[str, ...] = ("unused",)
    left_out: tuple[str, ...] = ()
    profiles: bool = False  # whether it brings the profiles that ship with Hostler
    launcher: str = ""  # source of what /usr/bin starts in the program's place, where versions lie beside each other

    @property
    def home(self) -> str:
        """Where its own Python environment lies; it is not to be found by any other program."""
        return f"usr/lib/{self.name}"


SUITES = {
    "bookworm": Suite("bookworm", "3.11", "12"),
    "trixie": Suite("trixie", "3.13", "13"),
}

PACKAGES = {
    package.name: package
    for package in (
        Package(
            "hostler-agent",
            ("agent/hostler", *SHARED),
            ("agent",),
            {"hostler-agent": "hostler.agent.main:console"},
            without=("click", "rich"),
            launcher="agent/hostler/agent/upgrade/launch.py",
        ),
        Package(
            "hostler-control",
            ("control/hostler/control", *SHARED),
            ("control", "policy"),
            {"hostler-control": "hostler.control.main:console"},
            without=("rich",),
            left_out=("pip",),
        ),
        Package("hostler", ("control/hostler/cli", *SHARED), (), {"hostler": "hostler.cli.main:main"}, profiles=True),
    )
}

_GLIBC = ("2_36", "2_35", "2_34", "2_33", "2_32", "2_31", "2_28", "2_27", "2_26", "2_24", "2_17", "2_12", "2_5")


def wheel_options(suite: Suite) -> list[str]:
    """For pip: wheels only, for that Python on x86-64 with that release's C library or an older one."""
    platforms = [f"manylinux_{glibc}_x86_64" for glibc in _GLIBC]
    platforms += ["manylinux2014_x86_64", "manylinux2010_x86_64", "manylinux1_x86_64"]
    options = ["--only-binary", ":all:", "--implementation", "cp", "--python-version", suite.python]
    for abi in (suite.tag, "abi3", "none"):
        options += ["--abi", abi]
    for platform in platforms:
        options += ["--platform", platform]
    return options
