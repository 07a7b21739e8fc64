"""xdelta3 (VCDIFF): the general binary delta tool, by its command line with its default settings, one run a file.

It rebuilds NEW beside OLD rather than patching in place. Its source window is 64 MiB, which is enough for weights: they
change in place and do not move.
"""

import pathlib

import common


def encode(old: pathlib.Path, new: pathlib.Path, patch: pathlib.Path) -> list[str]:
    """Write the patch."""
    return ["xdelta3", "-q", "-e", "-s", str(old), str(new), str(patch)]


def decode(old: pathlib.Path, patch: pathlib.Path, output: pathlib.Path) -> list[str]:
    """Rebuild the new file."""
    return ["xdelta3", "-q", "-d", "-s", str(old), str(patch), str(output)]


def main() -> None:
    """Measure."""
    arguments = common.argument_parser(__doc__).parse_args()
    one_round = common.patch_tool_round(".vcdiff", encode, decode)
    common.run_rounds(arguments, "xdelta3", "xdelta3 with its defaults; rebuilds the file, fsync", one_round)


if __name__ == "__main__":
    main()
