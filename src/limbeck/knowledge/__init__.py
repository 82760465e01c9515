"""Arithmetic on votes, scores and weights, without side effects."""
