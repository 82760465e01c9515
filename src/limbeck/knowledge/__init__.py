"""Pure arithmetic on what is transferred."""
