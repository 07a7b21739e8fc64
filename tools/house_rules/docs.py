"""Documents keep their promises: links lead somewhere, and every page of docs/formats/ says which version it describes."""

import posixpath
import re

from .repository import Finding

LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")
VERSION = re.compile(r"\bversions?\b\W{0,12}\d", re.IGNORECASE)


def anchors_of(text):
    """The anchors that common Markdown viewers give to headings."""
    for line in text.splitlines():
        if re.match(r"#{1,6} ", line):
            title = re.sub(r"[^\w\s-]", "", line.lstrip("#").strip().lower())
            yield re.sub(r"\s", "-", title)


def _prose_lines(repository, path):
    fenced = False
    for number, line in repository.lines(path):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced:
            yield number, re.sub(r"`[^`]*`", "", line)


def links_resolve(repository):
    for path in repository.with_suffix(".md"):
        for number, line in _prose_lines(repository, path):
            for match in LINK.finditer(line):
                link = match[1] or match[2]
                if re.match(r"[a-z]+:", link):
                    continue
                target, _, anchor = link.partition("#")
                file = posixpath.normpath(posixpath.join(posixpath.dirname(path), target)) if target else path
                if not repository.has(file):
                    yield Finding(path, number, f"the link {link} leads nowhere")
                elif anchor and file.endswith(".md") and anchor not in anchors_of(repository.text(file)):
                    yield Finding(path, number, f"the link {link} names a heading that {file} does not have")


def formats_state_their_version(repository):
    for path in repository.with_suffix(".md"):
        if path.startswith("docs/formats/") and not path.endswith("README.md"):
            head = "\n".join(repository.text(path).splitlines()[:20])
            if not VERSION.search(head):
                yield Finding(path, 1, "say near the top which version of the format this page describes, as `Version: 1`")


RULES = [links_resolve, formats_state_their_version]
