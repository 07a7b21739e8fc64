"""Prints the closing line of ./x test, summed over the steps and all ctest runs, and exits 1 if anything failed or nothing ran.

A step that is a ctest run counts as its tests; a step that failed before its tests could run counts as one failure.
"""

import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path


def counts_of_ctest(junit_file):
    """(passed, failed, skipped); ctest calls tests that did not run because they are disabled `disabled`."""
    suite = ElementTree.parse(junit_file).getroot()
    tests, failed, skipped, disabled = (int(suite.get(key, 0)) for key in ("tests", "failures", "skipped", "disabled"))
    return tests - failed - skipped - disabled, failed, skipped + disabled


def main():
    results = Path(sys.argv[1])
    passed = failed = skipped = 0
    for junit_file in sorted(results.glob("*.xml")):
        counts = counts_of_ctest(junit_file)
        print(f"{junit_file.stem}: {counts[0]} tests passed, {counts[1]} failed, {counts[2]} skipped".replace(", 0 failed", ""))
        passed, failed, skipped = passed + counts[0], failed + counts[1], skipped + counts[2]
    failed_in_ctest = failed
    for line in (results / "steps.txt").read_text(encoding="utf-8").splitlines():
        name, verdict = line.split()
        is_ctest = name.startswith("test-")
        passed += verdict == "passed" and not is_ctest
        failed += verdict == "failed" and not (is_ctest and failed_in_ctest)
    print(f"xorbit: {passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
