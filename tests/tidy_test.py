"""Shows of every house rule that it can fail, and that it lets the right thing pass.

Each case is a tiny repository in a dictionary. A rule that never fails protects nothing, and one that fails on good code is
switched off by the next person in a hurry.
"""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))

import tidy
from house_rules import build, calls, docs, floors, size, text
from house_rules.repository import Repository

HEADER = "// What this header is for, and why it is so.\n#pragma once\n"
SOURCE = "// What this source is for, and why it is so.\n"
PYTHON = '"""What this program is for, and why it is so."""\n'


def messages(rule, contents, sizes=None):
    return [finding.message for finding in rule(Repository(contents, sizes))]


class RuleTest(unittest.TestCase):
    def assert_refused(self, rule, contents, words, sizes=None):
        found = messages(rule, contents, sizes)
        self.assertEqual(len(found), 1, found)
        self.assertIn(words, found[0])

    def assert_accepted(self, rule, contents, sizes=None):
        self.assertEqual(messages(rule, contents, sizes), [])


class FloorTest(RuleTest):
    def test_higher_floor_neighbour_and_unknown_folder_are_refused(self):
        rule = floors.floor_order
        self.assert_refused(rule, {"src/base/a.h": '#include "payload/b.h"\n'}, "a higher floor: payload")
        self.assert_refused(rule, {"src/publish/a.cc": '#include "receive/b.h"\n'}, "a neighbour: receive")
        self.assert_refused(rule, {"src/attic/a.h": ""}, "has no floor")
        self.assert_refused(rule, {"src/base/a.cc": '#include "bytes.h"\n'}, "by its path from src/")

    def test_own_folder_and_lower_floors_are_accepted(self):
        code = '#include "codec/a.h"\n#include "base/b.h"\n#include <vector>\n'
        self.assert_accepted(floors.floor_order, {"src/codec/a.cc": code})

    def test_only_tests_may_compare_with_a_neighbours_oracle(self):
        code = '#include "delta/oracle.h"\n'
        self.assert_accepted(floors.floor_order, {"src/codec/a_test.cc": code})
        self.assert_refused(floors.floor_order, {"src/codec/a.cc": code}, "a neighbour: delta")

    def test_every_folder_of_the_design_has_a_floor_in_build_order(self):
        order = list(floors.FLOORS.values())
        self.assertEqual(order, sorted(order))

    def test_outside_worlds_are_confined(self):
        rule = floors.confined_headers
        self.assert_refused(rule, {"src/delta/a.cc": "#include <cuda_runtime.h>\n"}, "src/backend/cuda/")
        self.assert_refused(rule, {"src/cli/a.cc": "#include <nanobind/nanobind.h>\n"}, "python/")
        self.assert_refused(rule, {"src/store/a.cc": "#include <sys/socket.h>\n"}, "src/transport/")
        self.assert_accepted(rule, {"src/backend/cuda/a.cu": "#include <cuda_runtime.h>\n"})
        self.assert_accepted(rule, {"src/transport/a.cc": "#include <curl/curl.h>\n"})

    def test_includes_name_files(self):
        code = {"src/base/a.cc": '#include "base/gone.h"\n'}
        self.assert_refused(floors.includes_exist, code, "is not in src/")
        self.assert_accepted(floors.includes_exist, code | {"src/base/gone.h": HEADER})

    def test_programs_do_not_include_test_code(self):
        rule = floors.no_test_code_in_programs
        self.assert_refused(rule, {"src/base/a.cc": "#include <gtest/gtest.h>\n"}, "is for tests")
        self.assert_accepted(rule, {"src/base/a_test.cc": "#include <gtest/gtest.h>\n"})


class BuildTest(RuleTest):
    def test_a_source_that_nothing_builds_is_refused(self):
        rule = build.every_source_is_built
        self.assert_refused(rule, {"src/base/a.cc": SOURCE, "src/base/CMakeLists.txt": "# a.cc\n"}, "never be compiled")
        self.assert_refused(rule, {"tests/a_test.py": PYTHON}, "never be run")

    def test_what_a_list_names_is_accepted(self):
        rule = build.every_source_is_built
        self.assert_accepted(rule, {"src/base/a.cc": SOURCE, "src/base/CMakeLists.txt": "xorbit_library(base SOURCES a.cc)\n"})
        self.assert_accepted(rule, {"fuzz/head_fuzz.cc": SOURCE, "fuzz/CMakeLists.txt": "xorbit_fuzz(head xorbit_payload)\n"})
        self.assert_accepted(rule, {"bench/diff_bench.cc": SOURCE, "bench/CMakeLists.txt": "xorbit_bench(diff xorbit_delta)\n"})


def function_of(line_count):
    return "int F() {\n" + "  Call();\n" * (line_count - 2) + "}\n"


class SizeTest(RuleTest):
    def test_long_files_and_functions_are_refused(self):
        self.assert_refused(size.lengths, {"a.h": "// x\n" * 401}, "401 lines, more than 400")
        self.assert_refused(size.lengths, {"a.cc": function_of(71)}, "F: 71 lines, more than 70")
        method = "class A {\n  int G(int a,\n        int b) {\n" + "    b;\n" * 70 + "  }\n};\n"
        self.assert_refused(size.lengths, {"a.cc": method}, "G: 73")
        self.assert_refused(size.lengths, {"a.py": "def f():\n" + "    pass\n" * 70}, "f: 71 lines")
        self.assert_refused(size.lengths, {"a.sh": "f() {\n" + "  true\n" * 70 + "}\n"}, "f: 72 lines")
        self.assert_accepted(size.lengths, {"a.cc": function_of(70), "b.h": "// x\n" * 400})

    def test_namespaces_classes_and_tables_are_no_functions(self):
        body = "  int a;\n" * 100
        self.assert_accepted(size.lengths, {"a.h": f"namespace a {{\nclass B : public C(1) {{\n{body}}};\n}}\n"})
        self.assert_accepted(size.lengths, {"a.h": "const int kTable[] = {\n" + "    F(1),\n" * 100 + "};\n"})

    def test_the_ratchet_only_shrinks(self):
        long = {"a.cc": function_of(80)}
        self.assert_accepted(size.lengths, long | {size.RATCHET: "a.cc:F 80\n"})
        self.assert_refused(size.lengths, long | {size.RATCHET: "a.cc:F 79\n"}, "grew from 79 to 80")
        self.assert_refused(size.lengths, long | {size.RATCHET: "a.cc:F 81\n"}, "lower its entry")
        self.assert_refused(size.lengths, {"a.cc": function_of(9), size.RATCHET: "a.cc:F 80\n"}, "remove `a.cc:F`")
        self.assert_refused(size.lengths, {size.RATCHET: "gone.cc 500\n"}, "not there any more")

    def test_hard_limits_know_no_exception(self):
        self.assert_refused(size.lengths, {"a.h": "// x\n" * 601, size.RATCHET: "a.h 601\n"}, "more than 600")
        self.assert_refused(size.lengths, {"a.cc": function_of(121), size.RATCHET: "a.cc:F 121\n"}, "more than 120")

    def test_large_files_are_refused(self):
        self.assert_refused(size.small_files, {"a.bin": None}, "nothing over 1 MiB", {"a.bin": (1 << 20) + 1})
        self.assert_accepted(size.small_files, {"a.bin": None}, {"a.bin": 1 << 20})


class TextTest(RuleTest):
    def test_files_open_with_a_paragraph(self):
        rule = text.opening_paragraph
        self.assert_refused(rule, {"src/base/a.h": "#pragma once\n"}, "short paragraph")
        self.assert_refused(rule, {"src/base/a_test.cc": '#include "base/a.h"\n'}, "short paragraph")
        self.assert_refused(rule, {"tools/a.py": "import sys\n"}, "short paragraph")
        self.assert_accepted(rule, {"src/base/a.h": HEADER, "tools/a.py": "#!/usr/bin/env python3\n" + PYTHON})
        self.assert_accepted(rule, {"src/base/a.cc": '#include "base/a.h"\n'})

    def test_headers_are_guarded(self):
        self.assert_refused(text.pragma_once, {"a.h": SOURCE}, "pragma once")
        self.assert_accepted(text.pragma_once, {"a.h": HEADER})

    def test_leftovers_are_refused(self):
        rule = text.no_leftovers
        for leftover in (
            "// TO" + "DO: finish\n",
            "#if 0\n",
            "  // value = Compute(3);\n",
            "  // Call(x);\n",
            'fprintf(stderr, "DEB' + 'UG %d");\n',
            "break" + "point()\n",
        ):
            self.assert_refused(rule, {"src/base/a.cc": leftover}, "")
        self.assert_accepted(rule, {"src/base/a.cc": "// Sums modulo 2^64, in two lanes; see the page;\n#if 1\n"})

    def test_traces_of_a_machine_are_refused(self):
        rule = text.no_traces_of_a_machine
        self.assert_refused(rule, {"README.md": "see /ho" + "me/me/x\n"}, "path of one machine")
        self.assert_refused(rule, {"src/base/a.cc": 'Open("/tm' + 'p/x");\n'}, "path of one machine")
        self.assert_refused(rule, {"docs/a.md": "as in iss" + "ue #4\n"}, "say the reason")
        self.assert_accepted(rule, {"tests/a_test.py": 'open("/tmp/x")\n', "docs/a.md": "a/work/b and build/tmp/c, an issue\n"})

    def test_white_space(self):
        self.assert_refused(text.clean_whitespace, {"a.h": "x \n"}, "white space")
        self.assert_refused(text.clean_whitespace, {"a.h": "\tx\n"}, "a tab")
        self.assert_refused(text.clean_whitespace, {"a.h": "x"}, "does not end")
        self.assert_accepted(text.clean_whitespace, {"a.h": "  x\n"})

    def test_file_names(self):
        self.assert_refused(text.snake_case_names, {"src/base/FileOps.h": HEADER}, "snake_case")
        self.assert_accepted(text.snake_case_names, {"src/base/file_ops.h": HEADER})


class CallTest(RuleTest):
    REFUSED = (
        "std::thread t(f);",
        "auto f = std::async(g);",
        "int x = atoi(text);",
        "x = std::stoull(text);",
        'std::printf("%d", x);',
        "std::cout << x;",
        "auto* p = new Thing(1);",
        "delete p;",
        "delete[] p;",
        "void* p = malloc(3);",
        'sprintf(p, "x");',
        "int x = rand();",
        "std::regex pattern;",
        "throw 3;",
        "std::exit(1);",
        'system("ls");',
        'getenv("X");',
        "s << std::endl;",
        "volatile int x;",
    )
    ACCEPTED = (
        "Thing(const Thing&) = delete;",
        "Thing& operator=(const Thing&) = delete;",
        "std::unique_ptr<Thing>(new Thing(1));",
        "throw std::bad_alloc();",
        "std::from_chars(first, last, x);",
        "// new delete malloc( throw std::thread",
        'Refuse("std::thread is new; throw it away, printf(x)");',
        "operand(x); grand(); file.exit(); renew = 1;",
        "std::this_thread::yield();",
    )

    def test_each_ban_bites(self):
        for line in self.REFUSED:
            with self.subTest(line):
                self.assert_refused(calls.banned_calls, {"src/codec/a.cc": line + "\n"}, "")

    def test_every_ban_has_a_case(self):
        for ban in calls.BANS:
            self.assertTrue(any(ban.pattern.search(line) for line in self.REFUSED), ban.pattern.pattern)

    def test_what_only_looks_alike_is_accepted(self):
        for line in self.ACCEPTED:
            with self.subTest(line):
                self.assert_accepted(calls.banned_calls, {"src/codec/a.cc": line + "\n"})

    def test_places_that_may(self):
        self.assert_accepted(calls.banned_calls, {"src/base/parallel.cc": "std::jthread t(f);\n"})
        self.assert_accepted(calls.banned_calls, {"src/cli/main.cc": 'std::printf("x");\n'})
        self.assert_accepted(calls.banned_calls, {"src/codec/a_test.cc": "std::jthread t(f);\n"})
        self.assert_refused(calls.banned_calls, {"src/codec/a_test.cc": "int x = rand();\n"}, "seed")

    def test_using_namespace_in_headers(self):
        rule = calls.no_using_namespace_in_headers
        self.assert_refused(rule, {"src/base/a.h": "using namespace std;\n"}, "changes what names mean")
        self.assert_accepted(rule, {"src/base/a.cc": "using namespace std;\n", "src/base/b.h": "namespace f = std;\n"})


class DocsTest(RuleTest):
    def test_links_resolve(self):
        pages = {"docs/a.md": "# One Thing\n", "README.md": ""}
        refused = pages | {"docs/b.md": "[a](gone.md)\n"}
        self.assert_refused(docs.links_resolve, refused, "leads nowhere")
        self.assert_refused(docs.links_resolve, pages | {"docs/b.md": "[a](a.md#two)\n"}, "does not have")
        good = "[a](a.md#one-thing) [r](../README.md) [d](../docs/) [w](https://example.org)\n```\n[x](y)\n```\n`[x](y)`\n"
        self.assert_accepted(docs.links_resolve, pages | {"docs/b.md": good})

    def test_formats_state_their_version(self):
        rule = docs.formats_state_their_version
        self.assert_refused(rule, {"docs/formats/payload.md": "# Payload\n"}, "which version")
        self.assert_accepted(rule, {"docs/formats/payload.md": "# Payload\n\n**Version:** 1\n"})


class WholeTest(unittest.TestCase):
    def test_a_line_may_break_a_rule_with_a_reason(self):
        contents = {
            "src/base/a.h": HEADER + "Thing* p = new Thing;  // tidy-allow: the C library frees it\n",
            "src/base/b.h": HEADER + "Thing* p = new Thing;\n",
        }
        self.assertEqual([finding.path for finding in tidy.findings_of(Repository(contents))], ["src/base/b.h"])

    def test_every_rule_is_tested_here(self):
        source = Path(__file__).read_text(encoding="utf-8")
        for rule in tidy.RULES:
            self.assertIn(f"{rule.__module__.rsplit('.', 1)[-1]}.{rule.__name__}", source)


if __name__ == "__main__":
    unittest.main()
