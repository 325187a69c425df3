"""Routes by subject. Each is a function from a `Call` to an answer; `table` lists them all."""
