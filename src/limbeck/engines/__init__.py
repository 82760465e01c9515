"""Engines: how messages travel between the server and the parties."""
