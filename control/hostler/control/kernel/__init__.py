"""Pure decisions over plain data: no clock, no randomness, no database, no network. Time and ids come in."""
