"""The privacy statement of a run (privacy.md), laid out after NIST SP 800-226 for a data-protection officer."""

from limbeck.report.statement.document import statement as statement
