"""Experiments: from a TOML file to a run record."""
