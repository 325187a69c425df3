"""Bends envelopes, keysets and catalogs, a million times by default, and demands that none is believed.

    python -m tests.fuzz.run [--count N] [--seed S] [--jobs J]

Ends with 1, and leaves the bytes in a file, for the first that is accepted or makes a verifier stumble.
"""

import argparse
import random
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
_SHARE = 5000


class Found(NamedTuple):
    target: str
    what: str
    data: bytes


class Share(NamedTuple):
    words: Counter[str]
    found: Found | None


def bend(seed: int, count: int) -> Share:
    """`count` mutations, the same for the same seed and samples."""
    from .targets import TARGETS, believed, judge

    rng, words = random.Random(seed), Counter[str]()
    for number in range(count):
        target = TARGETS[number % len(TARGETS)]
        data = target.samples[0]
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            data = rng.choice(target.mutations)(rng, data, target.samples[1]) or b"\0"
        if data in target.samples:
            words["unchanged"] += 1
            continue
        try:
            word = judge(target, data)
        except Exception as err:
            return Share(words, Found(target.name, f"{type(err).__name__}: {err}", data))
        words[word] += 1
        if believed(word):
            return Share(words, Found(target.name, word, data))
    return Share(words, None)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=None, help="processes [one a core]")
    options = parser.parse_args()
    words, began, done = Counter[str](), time.monotonic(), 0
    shares = [min(_SHARE, options.count - start) for start in range(0, options.count, _SHARE)]
    with ProcessPoolExecutor(options.jobs) as pool:
        running = {pool.submit(bend, options.seed * 1_000_003 + n, size): size for n, size in enumerate(shares)}
        for each in as_completed(running):
            share = each.result()
            words += share.words
            done += running[each]
            if share.found is not None:
                return _report(share.found)
            if sys.stderr.isatty() or done % 100_000 < _SHARE:
                print(f"{done} of {options.count}, {done / (time.monotonic() - began):.0f}/s", file=sys.stderr)
    for word, count in words.most_common():
        print(f"{count:10} {word}")
    print(f"{sum(words.values())} mutations in {time.monotonic() - began:.0f} s: none believed, no crash")
    return 0


def _report(found: Found) -> int:
    path = Path("fuzz-found.bin")
    path.write_bytes(found.data)
    print(f"{found.target}: {found.what}; the bytes are in {path}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
