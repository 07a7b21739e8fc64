#!/usr/bin/env python3
"""The house rules, checked: prints every breach as path:line: what is wrong and what to do, and exits 1 if there is one.

A rule that only a document states is forgotten with the first hurried change; this program is run by ctest and by `./x lint`.
STYLE.md gives the reason of each rule, tests/tidy_test.py shows that each of them can fail. Standard library only, so that it
runs on a machine that has nothing but Python.

A line that must break a rule says why, in a comment on the same line: `tidy-allow: reason`.
"""

import sys
from pathlib import Path

from house_rules import build, calls, docs, floors, size, text
from house_rules.repository import Repository

RULES = [*floors.RULES, *build.RULES, *size.RULES, *text.RULES, *calls.RULES, *docs.RULES]


def findings_of(repository):
    """All breaches in path order, except on lines that are allowed to."""
    found = [finding for rule in RULES for finding in rule(repository)]
    return sorted(finding for finding in found if not repository.allows(finding))


def main():
    repository = Repository.of_folder(Path(__file__).resolve().parent.parent)
    findings = findings_of(repository)
    for finding in findings:
        print(f"{finding.path}:{finding.line}: {finding.message}")
    print(f"house rules: {len(RULES)} rules, {len(repository.paths)} files, {len(findings)} breaches")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
