"""The log: schema, readers, checks and conversion."""
