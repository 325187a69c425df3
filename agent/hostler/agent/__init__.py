"""The node: pulls signed tasks, judges them, runs them, and proves what it did."""
