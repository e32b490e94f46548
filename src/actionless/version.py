"""The version of the package, where every part can read it without importing the public names."""

__version__ = "0.1.0"
