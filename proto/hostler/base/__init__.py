"""The floor under everything: ids, errors, digests, time. Standard library and msgspec only."""
