"""What algorithms, sites and engines share: messages, disclosures, releases and rows."""
