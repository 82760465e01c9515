"""Reports for people: tables, plots, predictions and the privacy statement."""
