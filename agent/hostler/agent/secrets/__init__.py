"""Secrets of one task: held in locked memory, handed on by descriptor, wiped at its end (design §4.8)."""
