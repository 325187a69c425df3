"""Events to receivers over HTTPS: the key behind the signatures, where they may go, and the sending."""
