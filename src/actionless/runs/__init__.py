"""The run directory: manifest, metrics, checkpoints, resume, locks."""
