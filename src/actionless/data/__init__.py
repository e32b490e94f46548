"""The log: schema, readers, checks, inspection and conversion."""
