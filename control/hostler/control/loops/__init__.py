"""What happens by time alone: tasks that nobody came for."""
