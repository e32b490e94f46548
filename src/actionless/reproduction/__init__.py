"""Experiments as data: which runs make a table or a figure, and the files that are written from them."""
