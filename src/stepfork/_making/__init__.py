"""Turns a run into a test: writes the files, proves them, and takes them back where the proof fails."""
