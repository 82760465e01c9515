"""From a TOML file to a run record."""
