"""Frozen types that travel, and the one codec to and from protobuf."""
