"""Evaluate a state policy, with or without an environment, and show what it recommends."""
