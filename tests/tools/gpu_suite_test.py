"""tools/gpu_suite where there is no GPU, and what its report says."""

import importlib.machinery
import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import types
import unittest
import unittest.mock

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "tools" / "gpu_suite"


def load():
    loader = importlib.machinery.SourceFileLoader("gpu_suite", str(SCRIPT))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu_suite", loader))
    sys.dont_write_bytecode = True
    loader.exec_module(module)
    return module


def ended(process):
    """Ends within 10 s, or has: its new parent may have yet to hear of it."""
    until = time.monotonic() + 10
    while time.monotonic() < until:
        try:
            if pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                return True
        except FileNotFoundError:
            return True
        time.sleep(0.01)
    return False


class GpuSuiteTests(unittest.TestCase):
    def test_without_a_gpu_it_says_so_and_builds_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            build = pathlib.Path(folder) / "gpu"
            # CUDA sees none, also on a machine that has one.
            done = subprocess.run([sys.executable, str(SCRIPT), "--build", str(build)], capture_output=True, text=True,
                                  env={**os.environ, "CUDA_VISIBLE_DEVICES": ""}, timeout=60, check=False)
            self.assertEqual(done.returncode, 2)
            self.assertIn("nothing was run: ", done.stderr)
            self.assertIn("Start it on a machine with an NVIDIA GPU.", done.stderr)
            self.assertFalse(build.exists())

    def test_wrong_options_are_told_before_anything_runs(self):
        with tempfile.TemporaryDirectory() as folder:
            for option, value, told in (("--ranks", "1,x", "invalid numbers value"), ("--ranks", "0", "invalid numbers value"),
                                        ("--wheels", folder, "there is no wheel in "), ("--steps", "bake", "there is no step bake")):
                done = subprocess.run([sys.executable, str(SCRIPT), option, value], capture_output=True, text=True, timeout=60,
                                      check=False)
                self.assertEqual(done.returncode, 2)
                self.assertIn(told, done.stderr)

    def test_a_step_that_takes_too_long_is_ended_with_what_it_has_started(self):
        suite_file = load()
        with tempfile.TemporaryDirectory() as folder:
            suite = suite_file.Suite(pathlib.Path(folder), 3600)
            there = pathlib.Path(folder) / "process"
            child = "import subprocess, sys; p = subprocess.Popen(['sleep', '60']); open(sys.argv[1], 'w').write(str(p.pid)); p.wait()"
            self.assertFalse(suite.run("slow", [sys.executable, "-c", child, there], limit=2))
            self.assertTrue(ended(int(there.read_text())))

    def test_the_report_says_what_failed_and_what_did_not_run(self):
        suite_file = load()
        with tempfile.TemporaryDirectory() as folder:
            suite = suite_file.Suite(pathlib.Path(folder), 3600)
            self.assertTrue(suite.run("good", [sys.executable, "-c", "print('[  PASSED  ] 7 tests.')"]))
            self.assertFalse(suite.run("bad", [sys.executable, "-c", "raise SystemExit(9)"]))
            self.assertFalse(suite.run("slow", [sys.executable, "-c", "while True: pass"], limit=0.2))
            self.assertFalse(suite.run("absent", [folder + "/nothing"]))
            driver = types.SimpleNamespace(gpus=["a GPU"], version=13000)
            suite_file.run_contract(suite, driver, 22900, 2, {})
            report = suite_file.report_of(suite, driver, "libnccl.so.2", 22900)
        self.assertIn("| good | passed | ", report)
        self.assertIn("7 tests.", report)
        self.assertIn("| bad | FAILED (exit code 9) | ", report)
        self.assertIn("| slow | FAILED (not over after 0.2 s) | ", report)
        self.assertIn("| absent | FAILED ([Errno 2]", report)
        self.assertIn("- nccl, contract of backends, 2 ranks: there is 1 GPU, and NCCL before 2.30 takes one rank for each", report)
        self.assertIn("| native, contract of backends, 2 ranks | FAILED ([Errno 2]", report)
        self.assertIn("| native from GPU to GPU, contract of backends, 2 ranks | FAILED ([Errno 2]", report)
        self.assertIn("NCCL 2.29.0: libnccl.so.2", report)
        self.assertIn("- no NCCL", suite_file.report_of(suite, driver, "", 0))
        for one in suite_file.NOT_IN_IT:
            self.assertIn("- " + one, report)

    def test_without_torch_or_its_gpu_the_report_says_so(self):
        suite_file = load()
        for said, reason in [("raise SystemExit(1)", "has no torch"),
                             ("print('2.13.0 False')", "torch 2.13.0 of .* finds no GPU; install one that is built for CUDA")]:
            with tempfile.TemporaryDirectory() as folder:
                python = pathlib.Path(folder) / "python"
                python.write_text(f"#!/bin/sh\nexec {sys.executable} -c \"{said}\"\n")
                python.chmod(0o755)
                suite = suite_file.Suite(pathlib.Path(folder), 3600)
                with unittest.mock.patch.object(suite_file.sys, "executable", str(python)):
                    suite_file.run_torch(suite, {}, None)
            self.assertEqual(suite.ran, [])
            self.assertRegex(suite.not_run[0], "^torch, operations, DistributedDataParallel and FSDP2: .*" + reason)

    def test_a_step_that_there_is_not_is_refused(self):
        ran = subprocess.run([sys.executable, str(SCRIPT), "--steps", "contract,bnech"], capture_output=True, text=True, check=False)
        self.assertEqual(ran.returncode, 2)
        self.assertIn("--steps: there is no step bnech; there are contract, bench, python, torch, sanitizer", ran.stderr)


if __name__ == "__main__":
    unittest.main()
