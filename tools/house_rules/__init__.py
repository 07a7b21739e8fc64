"""House rules by subject: each module holds functions from a Repository to findings, and lists them in RULES."""
