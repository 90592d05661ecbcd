#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a mutant may change, and that suites kill one and pass the code as it is. Takes the build's folder."""
import os
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "mutation"))
import operators  # noqa: E402
import suites  # noqa: E402

SOURCE = "base/numbers/units.c"
IN_A_FUNCTION = "c >= '0'"
BUILD = None


def changes(*lines):
    """The operators and changed lines of a function's body."""
    text = "int f(void)\n{\n" + "\n".join("    " + line for line in lines) + "\n}\n"
    return {(number - 2, name, after.strip()) for number, name, after in operators.mutants_of(text)}


class Operators(unittest.TestCase):
    def test_a_comparison_moves_its_border(self):
        self.assertEqual(changes("x = a <= b;"), {(1, "less-equal", "x = a < b;"), (1, "drop", ";")})

    def test_a_condition_is_negated_as_a_whole(self):
        self.assertEqual(changes("if (a && b) {"),
                         {(1, "and", "if (a || b) {"), (1, "negate", "if (!(a && b)) {")})

    def test_a_pointer_is_no_product(self):
        self.assertEqual(changes("char *x = *y;"), set())
        self.assertIn((1, "times", "size_t x = y + z;"), changes("size_t x = y * z;"))

    def test_numbers_grow_by_one(self):
        self.assertEqual(changes("return 31;"), {(1, "constant", "return 32;")})
        self.assertEqual(changes("return 0x1f;"), set())

    def test_hints_and_sizes_of_one_record_stay(self):
        self.assertEqual(changes("if (__builtin_expect(x, false)) {"),
                         {(1, "negate", "if (!(__builtin_expect(x, false))) {")})
        self.assertEqual(changes("t *x = dao_host_calloc(1, sizeof(*x));"), set())
        self.assertEqual(changes("t *x = dao_host_calloc(n + 1, sizeof(*x));"),
                         {(1, "plus", "t *x = dao_host_calloc(n - 1, sizeof(*x));"),
                          (1, "constant", "t *x = dao_host_calloc(n + 2, sizeof(*x));")})

    def test_comments_texts_directives_and_checks_stay(self):
        self.assertEqual(changes("/* a < b", "   1 */", 'say = "a < b 1";'), {(3, "drop", ";")})
        self.assertEqual(changes("DAO_ASSERT(a < 1 &&", "    b < 1);"), set())
        self.assertEqual(list(operators.mutants_of("#if A == 1\n#define B (a < 1)\n")), [])
        for name in ("bool dao_x_is_valid", "static bool all_are_valid"):
            check = name + "(int a)\n{\n    return a < 1;\n}\n"
            self.assertEqual(list(operators.mutants_of(check)), [])


class Suites(unittest.TestCase):
    def setUp(self):
        self.build = suites.Build(ROOT, BUILD, os.path.join(BUILD, "mutation-test"))
        self.build.look_at([SOURCE])
        with open(os.path.join(ROOT, SOURCE)) as file:
            self.text = file.read()

    def line_of(self, text):
        return self.text[:self.text.index(text)].count("\n") + 1

    def killer(self, text, line=1):
        return self.build.killer(SOURCE, line, text)

    def test_its_own_suite_comes_first(self):
        self.assertEqual(self.build.suites_of(SOURCE)[0], "test_units")
        self.assertEqual(self.build.suites_of("allocators/slab/slab.c")[0], "test_slab")
        self.assertEqual(self.build.suites_of("planning/offsets/methods/greedy.c")[0], "test_plan_greedy")
        self.assertIn("test_planned", self.build.suites_of("planning/steps/script.c"))
        self.assertIn("test_allocators_loopback", self.build.suites_of("allocators/slab/slab.c"))
        self.assertEqual(self.build.suites_of("runtime/handles/share.c")[:2],
                         ["test_share", "test_share_loopback"])
        self.assertIn("test_executor_plan_pages",
                      self.build.suites_of("runtime/executor/plans/plan_compile.c"))
        self.assertIn("test_library_snapshot", self.build.suites_of("runtime/observe/snapshot_pickle.c"))

    def test_a_change_is_seen(self):
        changed = self.text.replace("UINT64_C(1024)", "UINT64_C(1025)")
        self.assertNotEqual(changed, self.text)
        self.assertEqual(self.killer(changed, self.line_of("UINT64_C(1024)")), "test_units")

    def test_a_suite_sees_the_functions_that_it_enters(self):
        plain = self.build.run_plain("test_units")
        self.assertTrue(plain["passes"])
        line = self.line_of(IN_A_FUNCTION)
        self.assertTrue(self.build.reach.may_see(plain["enters"], SOURCE, line))
        self.assertFalse(self.build.reach.may_see([], SOURCE, line))
        self.assertTrue(self.build.reach.may_see([], SOURCE, 1), "what is in no function, all see")

    def test_only_suites_that_enter_the_function_are_run(self):
        ran = []
        self.build.plain_of = lambda suite: {"passes": True, "is_long": False, "is_checked": False,
                                             "enters": []}
        self.build.fails = lambda suite, library: ran.append(suite)
        self.assertIsNone(self.killer(self.text, self.line_of(IN_A_FUNCTION)))
        self.assertEqual(ran, [])
        self.assertIsNone(self.killer(self.text, 1))
        self.assertIn("test_units", ran)

    def test_a_leak_is_seen(self):
        if not self.build.checks:
            self.skipTest("the compiler has no AddressSanitizer")
        leak = ("void *malloc(unsigned long);\nstatic void *volatile kept;\n"
                "__attribute__((constructor)) static void leak(void)\n"
                "{\n    kept = malloc(100);\n    kept = 0;\n}\n")
        self.assertEqual(self.killer(self.text + leak), "test_units")

    def test_a_read_behind_an_array_is_seen(self):
        if not self.build.checks:
            self.skipTest("the compiler has no AddressSanitizer")
        read = ("static int *volatile there;\n"
                "__attribute__((constructor)) static void look(void)\n"
                "{\n    static int array[3];\n    there = array;\n    there[0] = there[3];\n}\n")
        self.assertEqual(self.killer(self.text + read), "test_units")

    def test_the_code_as_it_is_passes(self):
        is_checked = self.build.plain_of("test_units")["is_checked"]
        self.assertFalse(self.build.fails("test_units", self.build.mutant(SOURCE, self.text, is_checked)))

    def test_a_suite_that_fails_anyway_kills_nothing_and_is_told(self):
        self.build.plain = {}
        self.build.plain_of = lambda suite: self.build.plain.setdefault(
            suite, {"passes": suite != "test_units", "is_long": False, "is_checked": False, "enters": []})
        self.build.fails = lambda suite, _: suite == "test_units"
        self.assertIsNone(self.killer(self.text))
        self.assertEqual(self.build.lost(), ["test_units"])

    def test_a_long_suite_is_not_run_once_a_mutant_and_is_told(self):
        self.build.longest = 1
        self.build.tests["test_long"] = {"command": ["sh", "-c", "while :; do :; done"]}
        self.build.time_of, self.build.plain = lambda suite: 0, {}
        long = self.build.run_plain("test_long")
        self.assertTrue(long["is_long"])
        ran = []
        self.build.plain_of = lambda suite: self.build.plain.setdefault(suite, long)
        self.build.fails = lambda suite, library: ran.append(suite)
        self.assertIsNone(self.killer(self.text))
        self.assertEqual(ran, [])
        self.assertIn("test_units", self.build.left_out())
        self.assertEqual(self.build.lost(), [])

    def test_what_a_suite_preloads_stays(self):
        self.build.tests["test_preloads"] = {
            "command": ["sh", "-c", "case $LD_PRELOAD in *of_the_library:its_own) exit 0; esac; exit 1"],
            "properties": [{"name": "ENVIRONMENT", "value": ["LD_PRELOAD=its_own"]}]}
        self.assertEqual(self.build.outcome("test_preloads", "of_the_library", False, (10, 60)), "passed")

    def test_a_late_suite_kills_only_where_it_is_in_time_without_the_change(self):
        is_slow = True
        late = self.build.suites_of(SOURCE)[0]
        self.build.plain_of(late)
        self.build.outcome = lambda suite, library, *_: (
            "late" if suite == late and (is_slow or library) else "passed")
        self.assertFalse(self.build.fails(late, "library"))
        is_slow = False
        self.assertTrue(self.build.fails(late, "library"))

    def test_what_is_no_program_is_refused(self):
        self.assertIsNone(self.build.compile(SOURCE, self.text + "}", "unit"))


if __name__ == "__main__":
    BUILD = os.path.abspath(sys.argv.pop(1))
    unittest.main()
