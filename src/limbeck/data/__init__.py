"""Data sets, their split among parties, and the public and test rows."""
