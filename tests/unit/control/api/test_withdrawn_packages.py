"""API-18: what is withdrawn leaves the control plane's disk with the next publish, and can be sent again."""

from pathlib import Path

from support.http_api import api_in
from support.published import Repository, package_of, signed


async def test_API_18_a_withdrawn_package_leaves_the_disk_and_may_come_again(tmp_path: Path) -> None:
    async with api_in(tmp_path) as api:
        admin, folder = await api.client("platform_admin"), tmp_path / "packages"
        assert api.fleet.keys.update is not None
        repository = Repository(api.fleet.keys.update)
        await repository.publish(admin)
        both = repository.house.releases
        other = folder / "notes of the operator"
        other.write_text("stays")
        repository.house.releases = tuple(each for each in both if each.version == "1.1.0")
        await repository.publish(admin)
        assert (folder / signed("1.1.0").sha256).read_bytes() == package_of("1.1.0")
        assert not (folder / signed("1.0.0").sha256).exists()
        assert other.exists()
        repository.house.releases = both
        await repository.publish(admin)
        assert (folder / signed("1.0.0").sha256).read_bytes() == package_of("1.0.0")
