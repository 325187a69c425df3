"""Keys, signatures, trust, certificates and receipts. No network, no database."""
