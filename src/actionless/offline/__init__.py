"""Learners from logs, one file each."""
