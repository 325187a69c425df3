"""Step kinds, one module each, named after the kind. None imports another; `table` names them all."""
