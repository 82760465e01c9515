"""How what leaves a site is protected, and what that protection is worth."""
