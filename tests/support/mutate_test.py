#!/usr/bin/env python3
"""What scripts/mutate changes and what it leaves alone; the chosen mutants have a place in today's sources."""
import contextlib
import io
import json
import pathlib
import sys
import tempfile
import threading
import unittest

CHECKOUT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(CHECKOUT / "scripts"))
import mutate  # noqa: E402
import mutate_build  # noqa: E402
import mutate_groups  # noqa: E402

FILE = "resiliency/retry_policy.cc"


def changes(line, after=""):
    return [(one.what, one.new.strip()) for one in mutate.mutants_of(FILE, [line, after], {1})]


class FakeBench:
    """What mutate_groups asks of a bench, where it is known by file which cases fail."""

    def __init__(self, failing):
        self.failing, self.whole_runs, self.number, self.build, self.log, self.together = failing, 0, 0, self, None, []

    def objects_with(self, program, texts):
        self.together = list(texts)
        return {"batch.o": "new.o"}

    def singles(self, texts):
        return self.objects_with("", dict(texts))

    def link(self, program, made, name, log):
        return name

    def limit_s(self, program, arguments):
        return 1

    def run_tests(self, program, binary, arguments, limit_s=None):
        self.whole_runs += not arguments
        return 1 if self.output() else 0

    def output(self):
        cases = [case for file in self.together for case in sorted(self.failing[file])]
        return "".join(f"TEST CASE:  {case}\n\nx.cc:1: ERROR: CHECK( a ) is NOT correct!\n" for case in cases)

    def of_cases(self, program, file, before, after, cases):
        return next((f"{program}: {case}" for case in cases if case in self.failing[file]), "")

    def whole(self, file, after, tests, cases=()):
        self.whole_runs += 1
        return next((f"{tests[0]}: {case}" for case in self.failing[file]), "")


class Mutate(unittest.TestCase):
    def test_operators_constants_and_conditions(self):
        found = dict(changes("  if (steps >= limit + 2) return true;"))
        self.assertEqual(found[">= to >"], "if (steps > limit + 2) return true;")
        self.assertEqual(found["2 to 3"], "if (steps >= limit + 3) return true;")
        self.assertEqual(found["true to false"], "if (steps >= limit + 2) return false;")
        self.assertEqual(dict(changes("  if (is_over(now)) stop();"))["a condition turned over"], "if (!is_over(now)) stop();")

    def test_calls_are_dropped_and_change_places(self):
        found = changes("  first.write(x);", "  second.write(y);")
        self.assertIn(("a call dropped", ";"), found)
        self.assertIn(("two calls in the other order", "second.write(y);\n  first.write(x);"), found)

    def test_comments_texts_and_declarations_stay(self):
        for line in ("  // a >= b and 2 more", '  log("2 >= 1 && true");', "#include <x2>", "int global = 2;", "  }"):
            self.assertEqual([c for c in changes(line) if c[0] != "a call dropped"], [], line)

    def test_every_decisive_room_has_files_and_tests(self):
        programs = (CHECKOUT / "tests" / "CMakeLists.txt").read_text()
        for room, tests in mutate.COVERED_BY.items():
            self.assertTrue(any((CHECKOUT / room).rglob("*.cc")), room)
            for test in tests:
                program = mutate.program_of(test)
                self.assertTrue(program.split("_", 1)[1].split("_")[-1] in programs, test)
        for row in mutate.DECISIVE:
            self.assertTrue((CHECKOUT / row).exists(), row)
            self.assertTrue(mutate.tests_of(row), row)

    def test_a_seed_draws_the_same_ones_whatever_was_tried(self):
        def draw(count, tried):
            args = mutate.argparse.Namespace(changed=None, file=[FILE], within=[], seed=5, count=count)
            with contextlib.redirect_stdout(io.StringIO()):
                return [mutate.key_of(mutate.dataclasses.asdict(one)) for one in mutate.drawn(args, tried)]
        first, more = draw(5, set()), draw(9, set())
        self.assertEqual(more[:5], first)
        self.assertEqual(draw(4, set(first)), [one for one in more if one not in first])

    def test_what_was_tried_stays_in_its_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "tried.json"
            one = mutate.Mutant(FILE, 3, "  a < b;", "  a <= b;", "< to <=", ["unit_resiliency"])
            two = mutate.Mutant(FILE, 4, "  c < d;", "  c <= d;", "< to <=", ["unit_resiliency"])
            mutate.Outcomes(path, 1).add(one, "")
            mutate.Outcomes(path, 1).add(two, "unit_resiliency: a case")
            self.assertEqual([m.line for m in mutate.again(path)], [3])
            mutate.Outcomes(path, 1).add(one, "unit_resiliency: a new case")  # tried again
            self.assertEqual(mutate.again(path), [])
            self.assertEqual(len(json.loads(path.read_text())), 2)

    def test_failing_cases_are_read_from_doctest(self):
        output = """[doctest] doctest version is "2.4.9"
===============================================================================
/x/a_test.cc:12:
TEST_CASE is no head
TEST CASE:  a message, and more

/x/a_test.cc:14: MESSAGE: seed 5

===============================================================================
/x/a_test.cc:30:
TEST CASE:  steps [of two], and a comma

/x/a_test.cc:33: ERROR: CHECK( a == b ) is NOT correct!
"""
        name = "steps [of two], and a comma"
        self.assertEqual(mutate_build.failed_cases(output), [name])
        self.assertEqual(mutate_build.case_filter(name), "--test-case=steps ?of two?? and a comma")
        self.assertEqual(mutate_build.case_filter(name, "next"), "--test-case=steps ?of two?? and a comma,next")
        self.assertEqual(mutate_build.failed_cases("terminate called"), [])

    def test_the_nearest_tests_have_the_name_include_the_header_or_lie_in_the_folder(self):
        folder = mutate_build.BuildFolder.__new__(mutate_build.BuildFolder)
        folder.checkout, folder.lock, folder.texts = CHECKOUT, threading.Lock(), {}
        own, including, beside = folder.nearest(FILE)
        self.assertEqual(own, ["tests/unit/resiliency/retry_policy_test.cc"])
        self.assertIn("tests/unit/resiliency/suspect_nodes_test.cc", including)
        self.assertNotIn("tests/unit/resiliency/suspect_nodes_test.cc", beside)
        self.assertTrue(beside and all(one.startswith("tests/unit/resiliency/") for one in beside))

    def test_a_group_has_one_error_of_a_file_and_the_same_tests(self):
        def one(file, line, tests="unit_resiliency"):
            return mutate.Mutant(file, line, "a", "b", "", [tests])
        a, b, other = one("a.cc", 1), one("b.cc", 1), one("a.cc", 2)
        elsewhere, header, second_header = one("c.cc", 1, "unit_worker"), one("a.h", 1), one("b.h", 1)
        groups = mutate_groups.groups_of([a, b, other, elsewhere, header, second_header])
        self.assertEqual(groups, [[a, b], [other], [elsewhere], [header], [second_header]])

    def test_cases_that_fail_together_are_tried_with_each_error_alone(self):
        seen = {"a.cc": {"one"}, "b.cc": {"two"}, "c.cc": set()}
        bench = FakeBench(seen)
        members = [(mutate.Mutant(file, 1, "a", "b", "", ["unit_x"]), "a", "b") for file in seen]
        found = {mutant.file: by for mutant, by in mutate_groups.decided(bench, members)}
        self.assertEqual(found, {"a.cc": "unit_x: one", "b.cc": "unit_x: two", "c.cc": ""})
        # Of files compiled alone all three and then the one that is left, which is then compiled with its batch.
        self.assertEqual(bench.whole_runs, 3)

    def test_chosen_mutants_have_one_place(self):
        for number, one in enumerate(json.loads(mutate.CHOSEN.read_text()), 1):
            text = (CHECKOUT / one["file"]).read_text()
            self.assertEqual(text.count(one["old"]), 1, f"number {number}, {one['file']}: {one['old']}")
            self.assertNotEqual(one["old"], one["new"])

    def test_equivalent_mutants_have_a_place_and_a_reason(self):
        for one in json.loads(mutate.EQUIVALENT.read_text()):
            self.assertIn(one["old"], (CHECKOUT / one["file"]).read_text(), one["file"])
            self.assertGreater(len(one["why"].split()), 4)


if __name__ == "__main__":
    unittest.main()
