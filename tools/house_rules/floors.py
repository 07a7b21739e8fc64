"""Who may include whom: a file's own folder or a lower floor, never a neighbour; outside worlds stay in their one folder."""

import re

from .repository import CPP_SUFFIXES, Finding, is_test

# The floors of ARCHITECTURE.md. Folders on the same floor do not know each other.
FLOORS = {
    "base": 0,
    "tensor": 1,
    "change": 1,
    "transport": 1,
    "delta": 2,
    "codec": 2,
    "payload": 3,
    "backend": 4,
    "store": 4,
    "interchange": 4,
    "publish": 5,
    "receive": 5,
    "journey": 6,
    "server": 7,
    "drive": 8,
    "cli": 9,
}

# What tests may compare with although it is a neighbour: delta stands beside codec, and its oracle judges both.
ORACLE = "delta/oracle.h"

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')

# (header pattern, what it is, the only folder that may include it)
CONFINED = [
    (re.compile(r"^(cuda|cuda_.*|cuda/.*|cub/.*|thrust/.*|nvcomp.*|cooperative_groups.*)(\.h)?$"), "CUDA", "src/backend/cuda/"),
    (re.compile(r"^(Python\.h|nanobind/.*|pybind11/.*)$"), "Python", "python/"),
    (
        re.compile(r"^(sys/socket\.h|sys/un\.h|sys/epoll\.h|netinet/.*|arpa/.*|netdb\.h|curl/.*|httplib\.h)$"),
        "network",
        "src/transport/",
    ),
]


def includes_of(repository, path):
    """(line number, header, whether in quotes)"""
    for number, line in repository.lines(path):
        match = INCLUDE.match(line)
        if match:
            yield number, match[2], match[1] == '"'


def floor_order(repository):
    for path in repository.with_suffix(*CPP_SUFFIXES):
        parts = path.split("/")
        if parts[0] != "src" or len(parts) < 3:
            continue
        folder = parts[1]
        if folder not in FLOORS:
            yield Finding(path, 1, f"src/{folder} has no floor: give it one in ARCHITECTURE.md and tools/house_rules/floors.py")
            continue
        for number, header, quoted in includes_of(repository, path):
            target = header.split("/")[0]
            if quoted and "/" not in header:
                yield Finding(path, number, f'include "{header}" by its path from src/, so that its floor can be seen')
            elif header == ORACLE and is_test(path):
                continue
            elif quoted and target in FLOORS and target != folder and FLOORS[target] >= FLOORS[folder]:
                where = "a neighbour" if FLOORS[target] == FLOORS[folder] else "a higher floor"
                yield Finding(path, number, f"{folder} may not include {where}: {target}; move what both need down")


def confined_headers(repository):
    for path in repository.with_suffix(*CPP_SUFFIXES):
        for number, header, _ in includes_of(repository, path):
            for pattern, world, folder in CONFINED:
                if pattern.match(header) and not path.startswith(folder):
                    yield Finding(path, number, f"<{header}>: {world} headers stay under {folder}; go through its interface")


def includes_exist(repository):
    """A quoted include that names a folder of the house must name a file that is there."""
    for path in repository.with_suffix(*CPP_SUFFIXES):
        for number, header, quoted in includes_of(repository, path):
            if quoted and header.split("/")[0] in FLOORS and not repository.has("src/" + header):
                yield Finding(path, number, f'"{header}" is not in src/')


def no_test_code_in_programs(repository):
    for path in repository.with_suffix(*CPP_SUFFIXES):
        if is_test(path):
            continue
        for number, header, _ in includes_of(repository, path):
            if header.startswith(("gtest/", "gmock/", "rapidcheck", "benchmark/")) or "testing" in header.rsplit("/", 1)[-1]:
                yield Finding(path, number, f"{header} is for tests; shipped code must not need it")


RULES = [floor_order, confined_headers, includes_exist, no_test_code_in_programs]
