"""`zstd --patch-from`: Zstandard's own delta of two files, by its command-line tool, one run a file.

It rebuilds NEW beside OLD rather than patching in place, and both ends hold the old file in memory. The tool takes files of
at most 2 GiB this way; larger ones end with its error message.
"""

import pathlib

import common


def file_pairs(old: pathlib.Path, new: pathlib.Path) -> list[tuple[pathlib.Path, pathlib.Path]]:
    """Old and new files by name; the single file of both if they are files."""
    if new.is_file():
        return [(old, new)]
    return [(old / path.name, path) for path in common.checkpoint_files(new)]


def one_round(old: pathlib.Path, new: pathlib.Path, work: pathlib.Path) -> common.Measurement:
    """Encode, rebuild NEW, measure both."""
    peaks: list[int] = []
    (work / "patches").mkdir()
    result = work / ("result" + new.suffix)
    if new.is_dir():
        result.mkdir()
    encodes, decodes, patches, outputs = [], [], [], []
    for old_path, new_path in file_pairs(old, new):
        patch = work / "patches" / (new_path.name + ".zst")
        output = result / new_path.name if new.is_dir() else result
        encodes.append(["zstd", "-q", "-T0", "--long=31", f"--patch-from={old_path}", str(new_path), "-o", str(patch)])
        decodes.append(["zstd", "-q", "-d", "--long=31", f"--patch-from={old_path}", str(patch), "-o", str(output)])
        patches.append(patch)
        outputs.append(output)
    encode_seconds = common.timed_commands(encodes, patches, peaks)
    apply_seconds = common.timed_commands(decodes, outputs, peaks)
    size = common.folder_bytes(work / "patches")
    return common.Measurement(size, encode_seconds, apply_seconds, common.state_digest(result), max(peaks))


def main() -> None:
    """Measure."""
    arguments = common.argument_parser(__doc__).parse_args()
    common.run_rounds(arguments, "zstd --patch-from", "zstd -3 -T0 --long=31 --patch-from; rebuilds the file, fsync", one_round)


if __name__ == "__main__":
    main()
