"""Logs (data sets of episodes): schema, readers, checks, inspection and conversion."""
