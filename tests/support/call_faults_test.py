#!/usr/bin/env python3
"""The library that makes calls of the C library fail, wait or answer with something old (call_faults/call_plan.h): that it does
what a plan says, to whom the plan says it, and writes it down; and that our own programs go through it.

usage: call_faults_test.py LIBRARY PROBE LONGHAUL
"""
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

LIBRARY, PROBE, LONGHAUL = (pathlib.Path(argument).resolve() for argument in sys.argv[1:4])
HOUR_MS = 3_600_000


class Case(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory(prefix="call-faults-")
        self.addCleanup(self.scratch.cleanup)
        self.folder = pathlib.Path(self.scratch.name)
        self.plan, self.here = self.folder / "plan", self.folder / "files"
        self.here.mkdir()
        self.file = self.here / "file"
        self.file.write_text("text\n")

    def environment(self):
        return {**os.environ, "LD_PRELOAD": str(LIBRARY), "CALL_FAULTS_PLAN": str(self.plan)}

    def start(self, *arguments, program=PROBE):
        return subprocess.Popen([str(program), *map(str, arguments)], env=self.environment(), text=True, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE)

    def answers(self, process):
        out, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, errors)
        return [tuple(line.split("|")[1:]) for line in out.splitlines()]

    def call(self, *arguments):
        """What each call said."""
        return [said for said, _ in self.answers(self.start(*arguments))]

    def write(self, *lines):
        self.plan.write_text("".join(line + "\n" for line in lines))

    def log(self):
        path = pathlib.Path(f"{self.plan}.log")
        return [line.split(" ") for line in path.read_text().splitlines()] if path.exists() else []


class Errors(Case):
    def test_every_call_can_fail_and_fails_once(self):
        for call, arguments, error in [("open", ["open", "openat", "fopen", "ifstream", "ofstream"], "EIO"), ("read", ["read", "ifstream_read"], "EIO"),
                                   ("write", ["write"], "ENOSPC"), ("fsync", ["fsync"], "EIO"), ("stat", ["stat", "library_exists"], "ESTALE"),
                                   ("rename", ["rename", "library_rename"], "EIO"), ("link", ["link"], "EIO"), ("readdir", ["list", "library_list"], "ESTALE"),
                                   ("unlink", ["unlink"], "EROFS"), ("mkdir", ["mkdir"], "ENOSPC")]:
            for argument in arguments:
                if argument == "ifstream_read":
                    continue
                with self.subTest(call=call, by=argument):
                    path = self.here / "new" if argument == "mkdir" else self.here if call == "readdir" else self.file
                    self.file.write_text("text\n")
                    self.plan = self.folder / f"plan-{argument}"
                    self.write(f"{call} {self.here} error={error}")
                    first, second = self.call(argument, path, argument, path)
                    self.assertIn(error, first)
                    self.assertNotIn(error, second)
                    self.assertEqual([entry[4:6] for entry in self.log()], [[call, f"error={error}"]])
                    for left in self.here.glob("*.*ed"):
                        left.unlink()

    def test_a_stream_that_cannot_write_says_so(self):
        self.write(f"write {self.here} error=ENOSPC")
        self.assertEqual(self.call("ofstream", self.file, "ofstream", self.file), ["ENOSPC", "ok"])

    def test_a_number_of_times_is_counted_over_all_processes(self):
        self.write(f"stat {self.here} error=EIO times=3")
        said = [argument for _ in range(3) for argument in self.call("stat", self.file, "stat", self.file)]
        self.assertEqual(said, ["EIO"] * 3 + ["ok"] * 3)

    def test_an_error_for_a_while_begins_with_the_first_call(self):
        self.write(f"fsync {self.here} error=EIO for_ms=400")
        self.assertEqual(self.call("fsync", self.file, "fsync", self.file, "sleep_ms", 500, "fsync", self.file), ["EIO", "EIO", "ok", "ok"])

    def test_other_files_hosts_and_programs_are_let_be(self):
        outside = self.folder / "outside"
        outside.write_text("")
        self.write(f"stat {self.here} error=EIO times=0 host=elsewhere", f"stat {self.here} error=EIO times=0 program=other",
                   f"open {self.here} error=EIO times=0 host={socket.gethostname()} program={PROBE.name[:15]}")
        self.assertEqual(self.call("stat", self.file, "stat", outside, "openat", outside, "openat", self.file), ["ok", "ok", "ok", "EIO"])

    def test_lines_may_come_while_a_program_runs(self):
        self.write("# nothing yet")
        process = self.start("stat", self.file, "sleep_ms", 700, "stat", self.file)
        time.sleep(0.3)
        with open(self.plan, "a") as plan:
            plan.write(f"stat {self.here} error=EIO\nstat half of a li")
        self.assertEqual([said for said, _ in self.answers(process)], ["ok", "ok", "EIO"])

    def test_a_plan_that_cannot_be_meant_ends_the_program(self):
        for line in ("stats / error=EIO", "stat / error=EWHAT", "stat / slowly", "stat /", "clock - delay_ms=5", "stat / delay_ms=0", "stat / delay_ms=5 host"):
            with self.subTest(line=line):
                self.write(line)
                process = self.start("stat", self.file)
                _, errors = process.communicate(timeout=60)
                self.assertEqual(process.returncode, 99)
                self.assertIn(line, errors)


class Ends(Case):
    def test_a_call_that_a_program_makes_while_it_ends_is_one_like_any_other(self):
        self.write(f"stat {self.file} delay_ms=1 times=0")
        for _ in range(5):
            self.call("stat", self.file, "at_the_end", self.file)
        self.assertEqual(len(self.log()), 10)


class Waits(Case):
    def state_of(self, process):
        return pathlib.Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]

    def test_a_slow_call_takes_its_time_in_state_d(self):
        self.write(f"fsync {self.here} delay_ms=600")
        process = self.start("fsync", self.file)
        time.sleep(0.3)
        self.assertEqual(self.state_of(process), "D")
        (said, ms), = self.answers(process)
        self.assertEqual(said, "ok")
        self.assertGreaterEqual(int(ms), 590)

    def test_a_signal_comes_after_the_wait_and_sigkill_in_it(self):
        for number, at_least in ((signal.SIGTERM, 0.9), (signal.SIGKILL, 0)):
            self.write(f"fsync {self.here} delay_ms=1000")
            begun = time.monotonic()
            process = self.start("fsync", self.file, "sleep_ms", 3000)
            time.sleep(0.3)
            process.send_signal(number)
            process.communicate(timeout=60)
            self.assertEqual(process.returncode, -number)
            self.assertGreaterEqual(time.monotonic() - begun, at_least)
            self.assertLess(time.monotonic() - begun, 2.5)

    def test_a_file_system_stands_still_for_everybody_until_the_same_moment(self):
        self.write(f"all {self.here} stall_ms=1000")
        begun = time.monotonic()
        first = self.start("stat", self.file)
        time.sleep(0.5)
        second = self.start("openat", self.file, "stat", self.file)
        self.assertGreaterEqual(int(self.answers(first)[0][1]), 990)
        (_, waited), (_, later) = self.answers(second)
        self.assertLess(int(waited), 800)
        self.assertLess(int(later), 100)
        self.assertLess(time.monotonic() - begun, 1.6)
        self.assertEqual(len(self.log()), 2)


class Listings(Case):
    def test_a_listing_is_as_old_as_the_plan_says(self):
        self.write(f"readdir {self.here} old_listing_ms=900")
        for argument in ("list", "library_list"):
            with self.subTest(by=argument):
                self.assertEqual(self.call(argument, self.here), ["file"])
                (self.here / "new").write_text("")
                self.assertEqual(self.call(argument, self.here, "stat", self.here / "new", "sleep_ms", 1000, argument, self.here),
                                 ["file", "ok", "ok", "file new"])
                self.assertEqual(self.log()[-1][4:], ["readdir", "old_listing_ms=900", str(self.here)])
                (self.here / "new").unlink()
                time.sleep(1)

    def test_a_name_that_is_gone_is_still_listed(self):
        self.write(f"readdir {self.here} old_listing_ms=60000")
        self.call("list", self.here)
        self.file.unlink()
        self.assertEqual(self.call("list", self.here, "stat", self.file), ["file", "ENOENT"])


class Clocks(Case):
    def test_every_way_to_ask_has_the_same_hour(self):
        for ahead_hours in (20, -20):
            self.plan = self.folder / f"plan{ahead_hours}"
            self.write(f"clock - ahead_ms={ahead_hours * HOUR_MS}")
            said, = self.call("times", "-")
            for seconds in said.split():
                self.assertAlmostEqual(int(seconds) - time.time(), ahead_hours * 3600, delta=5)
            self.assertEqual(self.log()[0][4:6], ["clock", f"ahead_ms={ahead_hours * HOUR_MS}"])

    def test_waits_until_an_hour_of_that_clock_are_as_long_as_ever(self):
        self.write(f"clock - ahead_ms={20 * HOUR_MS}")
        said, = self.call("timed_wait", "-")
        self.assertGreaterEqual(int(said), 190)
        self.assertLess(int(said), 2000)

    def test_a_clock_jumps_while_a_program_runs(self):
        self.write("# as it is")
        process = self.start("times", "-", "sleep_ms", 700, "times", "-")
        time.sleep(0.3)
        self.write("# as it is", f"clock - ahead_ms={HOUR_MS}")
        (before, _), _, (after, _) = self.answers(process)
        self.assertAlmostEqual(int(after.split()[0]) - int(before.split()[0]), 3600, delta=3)


class Kills(Case):
    def test_a_process_is_there_for_a_while_after_it_was_killed(self):
        self.write(f"kill {PROBE} delay_ms=800")
        process = subprocess.Popen([str(PROBE), "sleep_ms", "30000"])
        begun = time.monotonic()
        # Bash kills by itself, through the library.
        subprocess.run(["bash", "-c", f"kill -9 {process.pid}"], env=self.environment(), check=True)
        time.sleep(0.2)
        self.assertIsNone(process.poll())
        self.assertEqual(process.wait(timeout=30), -signal.SIGKILL)
        self.assertGreaterEqual(time.monotonic() - begun, 0.75)
        self.assertEqual(self.log()[0][4:6], ["kill", "delay_ms=800"])


class OurPrograms(Case):
    """What they read and write goes through the library: the log has it."""

    def test_a_process_that_kills_itself_is_there_for_a_while_and_then_gone(self):
        self.write("kill - delay_ms=800")
        begun = time.monotonic()
        process = subprocess.Popen(["bash", "-c", "kill -9 $$; echo lives"], env=self.environment(), stdout=subprocess.PIPE)
        self.addCleanup(process.kill)
        out, _ = process.communicate(timeout=20)
        self.assertEqual((process.returncode, out), (-signal.SIGKILL, b""))
        self.assertGreaterEqual(time.monotonic() - begun, 0.8)

    def test_longhaul_reads_its_workflow_through_it(self):
        workflow = self.here / "w.toml"
        workflow.write_text('[workflow]\nname = "w"\n[stage.s]\nkind = "command"\nscript = "true"\n')
        self.write(f"read {workflow} error=EIO")
        refused = self.start("validate", workflow, program=LONGHAUL)
        out, errors = refused.communicate(timeout=60)
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("Input/output error", out + errors)
        again = self.start("validate", workflow, program=LONGHAUL)
        again.communicate(timeout=60)
        self.assertEqual(again.returncode, 0)

    def test_our_programs_are_linked_so_that_it_can_stand_before_them(self):
        for name in ("longhaul", "longhaul-worker", "longhaul-engine"):
            program = LONGHAUL.parent / name
            if program.exists():
                self.write(f"open {LONGHAUL.parent}/nothing error=EIO")
                done = subprocess.run([str(program), "--version"], env={**self.environment(), "LD_DEBUG": "libs"}, capture_output=True, text=True, timeout=60)
                self.assertIn(LIBRARY.name, done.stderr, name)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
