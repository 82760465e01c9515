"""Runs between organisations: the coordinator's folder, a party's folder, and what happens between them."""
