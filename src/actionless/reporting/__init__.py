"""Runs as one page to look at, and as figures for a paper."""
