"""Parameters of `package.install` (SK-05)."""

from typing import Annotated

import msgspec

Name = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9][a-z0-9+.-]{1,127}$(?!\n)", description="Debian package name")]
Version = Annotated[str, msgspec.Meta(pattern=r"^([0-9][A-Za-z0-9.+:~-]{0,127})?$(?!\n)")]
Word = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]{0,127}$(?!\n)")]
Suite = Annotated[str, msgspec.Meta(pattern=r"^([A-Za-z0-9][A-Za-z0-9._/-]{0,127}|\./)$(?!\n)")]


class Package(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`version`: exactly this one; "" for whatever is installed, or else the newest there is."""

    name: Name
    version: Version = ""


class Repository(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A package archive, and the only key whose signature counts for it.

    Attributes:
        uri: checked against the policy's and the definition's allowed sources.
        components: none for a suite that ends in "/".
        signed_by: the OpenPGP public key, ASCII-armoured.
    """

    uri: Annotated[str, msgspec.Meta(pattern=r"^https?://[A-Za-z0-9._~:/\[\]%+-]+$(?!\n)", max_length=2048)]
    suite: Suite
    components: tuple[Word, ...] = ()
    signed_by: Annotated[str, msgspec.Meta(pattern=r"^-----BEGIN PGP PUBLIC KEY BLOCK-----\n", max_length=65_536)]


class Install(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Installs OS packages with apt; what is there already, at the version asked for, is left alone.

    Every package that would be installed or upgraded, dependencies included, must stand in the definition's
    `allowed_packages`.

    Attributes:
        repositories: where packages may come from; none means the node's own apt sources, which only a policy
            and a definition without `allowed_sources` let pass.
        removes: names of packages that may go to make room; any other removal is refused.
        allow_downgrade: whether a pinned version may be older than the installed one.
        recommends: whether recommended packages come along; they, too, must be allowed.
    """

    packages: Annotated[tuple[Package, ...], msgspec.Meta(min_length=1, max_length=256)]
    repositories: Annotated[tuple[Repository, ...], msgspec.Meta(max_length=16)] = ()
    removes: tuple[Name, ...] = ()
    allow_downgrade: bool = False
    recommends: bool = False
