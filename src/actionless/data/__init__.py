"""Logs (data sets of episodes): schema, readers, checks and conversion."""
