"""SK-06, OD-28: a lock is exact versions with hashes, and nothing that pip or conda would obey besides."""

import pytest

from hostler.base.errors import HostlerError
from hostler.catalog.lock import conda_lock, pip_lock

HASH = "--hash=sha256:" + "a" * 64
GOOD = f"numpy==1.26.4 {HASH}"
URL = "https://conda.example.com/linux-64/python-3.12.1-h1_0.conda"


def test_SK_06_equal_locks_are_equal_whatever_their_layout() -> None:
    plain = f"{GOOD}\ntorch==2.1.0+cu121 ; python_version >= '3.8' {HASH}\n"
    wrapped = (
        f"# made by a tool\n\ntorch==2.1.0+cu121 ; python_version >= '3.8' \\\n    {HASH}\n"
        f"numpy==1.26.4 \\\n    {HASH}\n    # via torch\n"
    )
    assert pip_lock(plain) == pip_lock(wrapped)
    assert len(pip_lock(plain)) == 2


def test_SK_06_several_hashes_and_extras_are_in_order() -> None:
    assert len(pip_lock(f"uvicorn[standard]==0.30.0 {HASH} --hash=sha256:{'b' * 64}")) == 1


@pytest.mark.parametrize(
    "line",
    [
        "numpy==1.26.4", f"numpy>=1.26.4 {HASH}", f"numpy {HASH}", f"numpy==1.* {HASH}",
        f"numpy==1 --hash=md5:{'a' * 32}",
        f"numpy==1.0 --hash=sha256:{'a' * 63}", "--index-url https://evil.example", "-r other.txt", "-e .",
        f"numpy @ https://evil.example/numpy.whl {HASH}", "https://evil.example/numpy.whl", "./numpy.whl",
        f"numpy==1.0 {HASH} --config-settings=a=b", f"{GOOD} --index-url https://evil.example", "--no-binary :all:",
        f"numpy==1.0 ; x\n--index-url=https://evil.example {HASH}", f"numpy==${{X}} {HASH}", f"num\u0440y==1.0 {HASH}",
    ],
)  # fmt: skip
def test_SK_06_what_is_no_pin_with_a_hash_is_refused(line: str) -> None:
    for text in (line, f"{GOOD}\n{line}\n"):
        with pytest.raises(HostlerError) as caught:
            pip_lock(text)
        assert caught.value.code == "lock_refused"


@pytest.mark.parametrize("text", ["", "# nothing\n", "\n\n"])
def test_SK_06_a_lock_without_a_package_is_refused(text: str) -> None:
    with pytest.raises(HostlerError, match="names no package"):
        pip_lock(text)


def test_SK_06_a_lock_has_an_end() -> None:
    with pytest.raises(HostlerError, match="more than 4096"):
        pip_lock("\n".join(f"p{n}==1 {HASH}" for n in range(4097)))


@pytest.mark.parametrize("digest", ["a" * 32, "a" * 64, "sha256:" + "a" * 64])
def test_OD_28_an_explicit_list_gives_its_urls(digest: str) -> None:
    lines, urls = conda_lock(f"# platform: linux-64\n@EXPLICIT\n{URL}#{digest}\n")
    assert (lines, urls) == ((f"{URL}#{digest}",), (URL,))


@pytest.mark.parametrize(
    "text",
    [
        f"{URL}#{'a' * 32}", f"@EXPLICIT\n{URL}", f"@EXPLICIT\n{URL}#abc", "@EXPLICIT\n",
        f"@EXPLICIT\nhttp://conda.example.com/a.conda#{'a' * 32}", f"@EXPLICIT\nfile:///a.conda#{'a' * 32}",
        f"@EXPLICIT\nnumpy=1.26#{'a' * 32}", f"@EXPLICIT\nhttps://u:p@conda.example.com/a.conda#{'a' * 32}",
    ],
)  # fmt: skip
def test_OD_28_what_conda_would_have_to_solve_or_could_not_check_is_refused(text: str) -> None:
    with pytest.raises(HostlerError) as caught:
        conda_lock(text)
    assert caught.value.code == "lock_refused"
