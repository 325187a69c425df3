"""Who the people are that a provider of identities vouches for (OD-24)."""
