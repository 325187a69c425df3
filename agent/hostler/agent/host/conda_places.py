"""Where conda is looked for: what only root can put there, and no search path."""

CONDA_PLACES = ("/opt/conda/bin/conda", "/opt/miniforge3/bin/conda", "/usr/bin/conda")
