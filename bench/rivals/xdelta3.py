"""xdelta3 (VCDIFF): the general binary delta tool, by its command line with its default settings, one run a file.

It rebuilds NEW beside OLD rather than patching in place. Its source window is 64 MiB, which is enough for weights: they
change in place and do not move.
"""

import pathlib

import common
from zstd_patch_from import file_pairs


def one_round(old: pathlib.Path, new: pathlib.Path, work: pathlib.Path) -> common.Measurement:
    """Encode, rebuild NEW, measure both."""
    peaks: list[int] = []
    (work / "patches").mkdir()
    result = work / ("result" + new.suffix)
    if new.is_dir():
        result.mkdir()
    encodes, decodes, patches, outputs = [], [], [], []
    for old_path, new_path in file_pairs(old, new):
        patch = work / "patches" / (new_path.name + ".vcdiff")
        output = result / new_path.name if new.is_dir() else result
        encodes.append(["xdelta3", "-q", "-e", "-s", str(old_path), str(new_path), str(patch)])
        decodes.append(["xdelta3", "-q", "-d", "-s", str(old_path), str(patch), str(output)])
        patches.append(patch)
        outputs.append(output)
    encode_seconds = common.timed_commands(encodes, patches, peaks)
    apply_seconds = common.timed_commands(decodes, outputs, peaks)
    size = common.folder_bytes(work / "patches")
    return common.Measurement(size, encode_seconds, apply_seconds, common.state_digest(result), max(peaks))


def main() -> None:
    """Measure."""
    arguments = common.argument_parser(__doc__).parse_args()
    common.run_rounds(arguments, "xdelta3", "xdelta3 with its defaults; rebuilds the file, fsync", one_round)


if __name__ == "__main__":
    main()
