"""The control plane: decides, signs, remembers. It never opens a connection to a node."""
