#!/usr/bin/env python3
"""What scripts/mutate changes and what it leaves alone; the chosen mutants have a place in today's sources."""
import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest

CHECKOUT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(CHECKOUT / "scripts"))
import mutate  # noqa: E402
import mutate_build  # noqa: E402

FILE = "resiliency/retry_policy.cc"


def changes(line, after=""):
    return [(one.what, one.new.strip()) for one in mutate.mutants_of(FILE, [line, after], {1})]


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

    def test_the_first_failing_case_is_read_from_doctest(self):
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
        name = mutate_build.failed_case(output)
        self.assertEqual(name, "steps [of two], and a comma")
        self.assertEqual(mutate_build.case_filter(name), "--test-case=steps ?of two?? and a comma")
        self.assertEqual(mutate_build.failed_case("terminate called"), "")

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
