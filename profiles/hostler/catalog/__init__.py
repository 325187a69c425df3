"""Operations as data: reads, lints, diffs and signs definitions and command profiles."""
