"""What happens by time alone: tasks that nobody came for, nodes that have fallen silent."""
