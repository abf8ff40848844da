"""Runs an agent again, its tools and models answered from a recording."""
