"""Writes `packaging/locks/*.txt`: every wheel that goes into a package, by version and digest.

    .venv/bin/python packaging/deb_lock.py [--check]

The versions are those of `constraints.txt`; the digests are of the wheels for every suite that packages are made for.
Needs the package index. `--check` only says whether the locks fit the requirements, without it.
"""

import argparse
import json
import subprocess
import sys
import tomllib

from deb_parts import CONSTRAINTS, LOCKS, PACKAGES, ROOT, SUITES, Package, wheel_options

NOTICE = "# made by packaging/deb_lock.py from pyproject.toml and constraints.txt; do not edit\n"


def requirements(package: Package) -> list[str]:
    """What `pyproject.toml` says for the package's extras, less what its programs never import."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"]]
    for extra in package.extras:
        wanted += project["optional-dependencies"][extra]
    return sorted(line for line in wanted if not line.lower().startswith(package.without))


def heading(package: Package) -> str:
    return NOTICE + "".join(f"# wanted: {line}\n" for line in requirements(package))


def resolved(package: Package) -> dict[tuple[str, str], set[str]]:
    """(name, version) → digests of its wheels, over all suites."""
    found: dict[tuple[str, str], set[str]] = {}
    for suite in SUITES.values():
        command = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check", "install", "--dry-run"]
        command += ["--ignore-installed", "--report", "-", "--target", "unused", *wheel_options(suite)]
        command += ["-c", str(CONSTRAINTS), *requirements(package)]
        report = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        for each in report["install"]:
            key = each["metadata"]["name"].lower().replace("_", "-"), each["metadata"]["version"]
            found.setdefault(key, set()).add(each["download_info"]["archive_info"]["hashes"]["sha256"])
    return found


def text_of(package: Package) -> str:
    lines = [heading(package)]
    for (name, version), digests in sorted(resolved(package).items()):
        hashes = " \\\n".join(f"    --hash=sha256:{digest}" for digest in sorted(digests))
        lines.append(f"{name}=={version} \\\n{hashes}\n")
    return "".join(lines)


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--check", action="store_true", help="only compare, and exit 1 where a lock is stale")
    stale = False
    check = arguments.parse_args().check
    for package in PACKAGES.values():
        path = LOCKS / f"{package.name}.txt"
        if check:
            fresh = path.exists() and path.read_text().startswith(heading(package))
            stale = stale or not fresh
            if not fresh:
                print(f"{path.relative_to(ROOT)} is stale; run packaging/deb_lock.py")
        else:
            LOCKS.mkdir(exist_ok=True)
            path.write_text(text_of(package))
            print(f"wrote {path.relative_to(ROOT)}")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
