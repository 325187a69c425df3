"""How a version of the agent gets to a host: its package on disk, and what people and machine providers are given."""
