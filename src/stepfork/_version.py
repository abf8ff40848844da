"""The version, read by everything that writes a file."""

__version__ = "0.1.0"
