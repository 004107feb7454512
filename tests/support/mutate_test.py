#!/usr/bin/env python3
"""What scripts/mutate changes and what it leaves alone; the chosen mutants have a place in today's sources."""
import json
import pathlib
import sys
import unittest

CHECKOUT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(CHECKOUT / "scripts"))
import mutate  # noqa: E402

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
                self.assertTrue(test.split("_", 1)[1].split("_")[-1] in programs, test)

    def test_chosen_mutants_have_one_place(self):
        for number, one in enumerate(json.loads(mutate.CHOSEN.read_text()), 1):
            text = (CHECKOUT / one["file"]).read_text()
            self.assertEqual(text.count(one["old"]), 1, f"number {number}, {one['file']}: {one['old']}")
            self.assertNotEqual(one["old"], one["new"])


if __name__ == "__main__":
    unittest.main()
