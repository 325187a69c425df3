"""What the README's figures are made by. Run from the repository's root: `python -m tests.bench.NAME`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # as pytest has it, so that `support` is found
