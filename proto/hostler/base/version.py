"""The one place that says which version this is; the build reads it from here."""

__version__ = "0.1.0"
__commit__ = "unknown"  # the build of a package writes the commit's here


def said_by(program: str) -> str:
    """What `PROGRAM --version` prints."""
    return f"{program} {__version__} (commit {__commit__})"
