"""Credentials for running steps: which minter may issue what to whom, and the minters themselves (CR area)."""
