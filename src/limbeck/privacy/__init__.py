"""Differential privacy: mechanisms, accountants, calibration, budgets and the ledger."""
