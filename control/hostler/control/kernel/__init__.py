"""Pure decisions over plain data. No clock, no randomness, no database, no network: `now_ms` and ids come in."""
