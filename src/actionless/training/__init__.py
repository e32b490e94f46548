"""The loops that train: from a log alone, and with an environment."""
