"""What this node is made of, read from the kernel's and the packages' own files (RS-08, OD-29)."""
