import os
import shutil
import subprocess
import sys
import unittest

from planted import ROOT, is_gone, run

WAITS = """import threading, time
def waits():
    lock.acquire()
lock = threading.Lock()
lock.acquire()
threading.Thread(target=waits, daemon=True).start()
def sleeps():
    print('started', flush=True)
    time.sleep(60)
sleeps()"""


class RunWithStacks(unittest.TestCase):
    def run_tool(self, *arguments, **options):
        return run(sys.executable, ROOT / "tools" / "run_with_stacks.py", *arguments, timeout=90, **options)

    def test_exit_status_is_handed_on(self):
        for command, status in ((["true"], 0), (["sh", "-c", "exit 7"], 7), (["sh", "-c", "kill -SEGV $$"], 139)):
            self.assertEqual(self.run_tool("--timeout", "10", "--", *command).returncode, status)

    def test_hang_ends_with_stacks_and_nothing_is_left(self):
        # A child in a session of its own, whose parent has gone: found all the same.
        done = self.run_tool("--timeout", "3", "--", "sh", "-c",
                             "(setsid sleep 60 & echo orphan $!); exec sleep 60")
        self.assertEqual(done.returncode, 124, done.stdout)
        self.assertIn("TIME IS OVER after 3 s", done.stdout)
        self.assertEqual(done.stdout.count("=== stacks of process"), 2, done.stdout)
        orphan = int(done.stdout.split("orphan ")[1].split()[0])
        self.assertTrue(is_gone(orphan))

    @unittest.skipUnless(shutil.which("gdb"), "needs gdb")
    def test_stacks_come_from_gdb(self):
        done = self.run_tool("--timeout", "1", "--", "sleep", "60")
        self.assertIn("Thread 1", done.stdout)

    def expect_python_stacks(self, told, output):
        self.assertIn("started", told.stdout, told.stderr)
        for function in ("in waits", "in sleeps"):
            self.assertIn(function, output, told.stdout + told.stderr)

    @unittest.skipUnless(shutil.which("gdb"), "needs gdb")
    def test_python_in_a_grandchild_tells_its_own_stacks_too(self):
        # Its output goes nowhere: gdb fetches the stacks.
        done = self.run_tool("--timeout", "5", "--", "sh", "-c", 'echo started; "$0" -c "$1" >/dev/null 2>&1; true',
                             sys.executable, WAITS)
        self.expect_python_stacks(done, done.stdout)

    def test_python_tells_its_own_stacks_where_gdb_is_not(self):
        done = self.run_tool("--timeout", "5", "--", sys.executable, "-c", WAITS, env=dict(os.environ, PATH="/nowhere"))
        self.assertIn("no gdb here", done.stdout)
        self.expect_python_stacks(done, done.stderr)

    def test_process_left_behind_is_a_failure(self):
        done = self.run_tool("--timeout", "10", "--leave", "1", "--", "sh", "-c", "sleep 60 & echo $!")
        self.assertEqual(done.returncode, 1)
        self.assertIn("left behind", done.stdout)
        self.assertTrue(is_gone(int(done.stdout.split()[0])))

    def test_termination_takes_the_tree_along(self):
        with subprocess.Popen(
                [sys.executable, ROOT / "tools" / "run_with_stacks.py", "--timeout", "30", "--",
                 "sh", "-c", "echo $$; exec sleep 60"], stdout=subprocess.PIPE, text=True) as tool:
            pid = int(tool.stdout.readline())
            os.kill(tool.pid, 15)
            tool.wait(timeout=20)
        self.assertEqual(tool.returncode, 143)
        self.assertTrue(is_gone(pid))
