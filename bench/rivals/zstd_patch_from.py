"""`zstd --patch-from`: Zstandard's own delta of two files, by its command-line tool, one run a file.

It rebuilds NEW beside OLD rather than patching in place, and both ends hold the old file in memory. The tool takes files of
at most 2 GiB this way; larger ones end with its error message.
"""

import pathlib

import common


def encode(old: pathlib.Path, new: pathlib.Path, patch: pathlib.Path) -> list[str]:
    """Write the patch."""
    return ["zstd", "-q", "-T0", "--long=31", f"--patch-from={old}", str(new), "-o", str(patch)]


def decode(old: pathlib.Path, patch: pathlib.Path, output: pathlib.Path) -> list[str]:
    """Rebuild the new file."""
    return ["zstd", "-q", "-d", "--long=31", f"--patch-from={old}", str(patch), "-o", str(output)]


def main() -> None:
    """Measure."""
    arguments = common.argument_parser(__doc__).parse_args()
    one_round = common.patch_tool_round(".zst", encode, decode)
    common.run_rounds(arguments, "zstd --patch-from", "zstd -3 -T0 --long=31 --patch-from; rebuilds the file, fsync", one_round)


if __name__ == "__main__":
    main()
