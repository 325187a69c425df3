"""`python -m hostler.control` is `hostler-control`."""

from hostler.control.main import console

console()
