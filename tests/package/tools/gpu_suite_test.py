"""tools/gpu_suite where there is no GPU, and what its report says."""

import importlib.machinery
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import types

from planted import ROOT, FolderTest, ended, run

SCRIPT = ROOT / "tools" / "gpu_suite"
# `tutti bench` whose column of NCCL fails from GPU to GPU; it writes down how it was started.
TUTTI = """
import json, os, pathlib, sys
names = ("TUTTI_CUDA_IPC", "NCCL_MULTI_RANK_GPU_ENABLE")
with open(pathlib.Path(__file__).parent / "started", "a") as file:
    print(json.dumps([sys.argv[1:], {name: os.environ[name] for name in names if name in os.environ}]), file=file)
if sys.argv[1] == "bench":
    nccl = {"failure": "rank 0 is gone; it printed:\\nno memory\\nmore"} if os.environ["TUTTI_CUDA_IPC"] == "on" else {"us": 1}
    figures = {"libraries": [{"library": "tutti"}], "points": [{"libraries": {"tutti": {"us": 1}, "nccl": nccl}}]}
    pathlib.Path(sys.argv[sys.argv.index("--json") + 1]).write_text(json.dumps(figures))
"""


def load():
    loader = importlib.machinery.SourceFileLoader("gpu_suite", str(SCRIPT))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu_suite", loader))
    sys.dont_write_bytecode = True
    loader.exec_module(module)
    return module


def compile_library(output, *sources):
    compiler = os.environ.get("CXX", "c++").split()
    subprocess.run([*compiler, "-shared", "-fPIC", "-std=c++20", "-ffp-contract=off", "-I", str(ROOT / "src"), "-I", str(ROOT / "tests"),
                    "-o", str(output), *map(str, sources)], check=True, timeout=120)
    return str(output)


class GpuSuiteTests(FolderTest):
    def run_script(self, *arguments, **environment):
        return run(sys.executable, SCRIPT, *arguments, env={**os.environ, **environment}, timeout=120)

    def suite(self):
        """The script as a module, and a suite of it."""
        suite_file = load()
        return suite_file, suite_file.Suite(self.root, 3600)

    def write_tutti(self, build):
        """In the place of the command; gives the file in which it writes down how it was started."""
        return self.plant(f"{build}/bin/tutti", f"#!{sys.executable}\n{TUTTI}", executable=True).parent / "started"

    def patch_python(self, suite_file, script):
        """The Python that the suite starts runs these commands of a shell."""
        self.patch(suite_file.sys, executable=str(self.plant("python", f"#!/bin/sh\n{script}\n", executable=True)))

    def test_without_a_gpu_it_says_so_and_builds_nothing(self):
        build = self.root / "gpu"
        # CUDA sees none, also on a machine that has one.
        done = self.run_script("--build", str(build), CUDA_VISIBLE_DEVICES="", TUTTI_CUDA_LIBRARY="")
        self.assertEqual(done.returncode, 2)
        self.assertIn("nothing was run: ", done.stderr)
        self.assertIn("Start it on a machine with an NVIDIA GPU.", done.stderr)
        self.assertFalse(build.exists())

    def test_wrong_options_are_told_before_anything_runs(self):
        for option, value, told in (
                ("--ranks", "1,x", "invalid numbers value"), ("--ranks", "0", "invalid numbers value"),
                ("--wheels", str(self.root), "there is no wheel in "), ("--steps", "bake", "there is no step bake"),
                ("--steps", "contract,bnech",
                 "--steps: there is no step bnech; there are contract, bench, python, torch, sanitizer")):
            done = self.run_script(option, value)
            self.assertEqual(done.returncode, 2)
            self.assertIn(told, done.stderr)

    def test_a_step_that_takes_too_long_is_ended_with_what_it_has_started(self):
        there = self.root / "process"
        child = "import subprocess, sys; p = subprocess.Popen(['sleep', '60']); open(sys.argv[1], 'w').write(str(p.pid)); p.wait()"
        self.assertFalse(self.suite()[1].run("slow", [sys.executable, "-c", child, there], limit=2))
        self.assertTrue(ended(int(there.read_text())))

    def test_the_report_says_what_failed_and_what_did_not_run(self):
        suite_file, suite = self.suite()
        self.assertTrue(suite.run("good", [sys.executable, "-c", "print('[  PASSED  ] 7 tests.')"]))
        self.assertFalse(suite.run("bad", [sys.executable, "-c", "raise SystemExit(9)"]))
        self.assertFalse(suite.run("slow", [sys.executable, "-c", "while True: pass"], limit=0.2))
        self.assertFalse(suite.run("absent", [f"{self.root}/nothing"]))
        driver = types.SimpleNamespace(gpus=["a GPU"], version=13000)
        suite_file.run_contract(suite, driver, 22900, 2, {})
        report = suite_file.report_of(suite, driver, "libnccl.so.2", 22900)
        for told in ("| good | passed | ", "7 tests.", "| bad | FAILED (exit code 9) | ",
                     "| slow | FAILED (not over after 0.2 s) | ", "| absent | FAILED ([Errno 2]",
                     "- nccl, contract of backends, 2 ranks: there is 1 GPU, and NCCL before 2.30 takes one rank for each",
                     "| native, contract of backends, 2 ranks | FAILED ([Errno 2]",
                     "| native from GPU to GPU, contract of backends, 2 ranks | FAILED ([Errno 2]",
                     "NCCL 2.29.0: libnccl.so.2", *("- " + one for one in suite_file.NOT_IN_IT)):
            self.assertIn(told, report)
        self.assertIn("- no NCCL", suite_file.report_of(suite, driver, "", 0))

    def test_on_a_driver_whose_gpus_are_memory_of_the_host_the_step_of_times_runs(self):
        started = self.write_tutti("gpu")
        version = self.plant("nccl.cpp", 'extern "C" int ncclGetVersion(int* version) { *version = 23203; return 0; }')
        self.patch(os, environ={name: value for name, value in os.environ.items() if name != "NCCL_MULTI_RANK_GPU_ENABLE"})
        done = self.run_script(
            "--build", str(self.root / "gpu"), "--built", "--steps", "bench", "--ranks", "2,3", TUTTI_TEST_GPUS="2",
            TUTTI_CUDA_LIBRARY=compile_library(
                self.root / "cuda.so", *(ROOT / f"tests/support/mock_{name}.cpp" for name in ("cuda", "cuda_driver", "gpu"))),
            TUTTI_NCCL_LIBRARY=compile_library(self.root / "nccl.so", version))
        self.assertEqual(done.returncode, 1, done.stderr)
        report = (self.root / "gpu" / "report.md").read_text(encoding="utf-8")
        lines = [json.loads(line) for line in started.read_text().splitlines()]
        self.assertIn("- GPUs: mock of a GPU 0, mock of a GPU 1; the driver serves CUDA 13.0\n- NCCL 2.32.3: ", report)
        for ranks in (2, 3):
            self.assertIn(f"| bench with TUTTI_CUDA_IPC=off, {ranks} ranks | passed | ", report)
            self.assertIn(f"| bench with TUTTI_CUDA_IPC=on, {ranks} ranks | FAILED (column nccl: rank 0 is gone; it printed: no memory) | ",
                          report)
        self.assertEqual([words[0] for words, _ in lines], ["doctor"] + ["bench"] * 4)
        for words, _ in lines[1:]:
            self.assertEqual(words[words.index("--against") + 1], "nccl")
        shared = {"NCCL_MULTI_RANK_GPU_ENABLE": "1"}
        self.assertEqual([variables for _, variables in lines[1:]],
                         [{"TUTTI_CUDA_IPC": "off"}, {"TUTTI_CUDA_IPC": "on"}, {"TUTTI_CUDA_IPC": "off", **shared}, {"TUTTI_CUDA_IPC": "on", **shared}])

    def test_where_nccl_cannot_share_a_gpu_times_are_taken_without_it(self):
        suite_file, suite = self.suite()
        started = self.write_tutti(".")
        suite_file.run_bench(suite, types.SimpleNamespace(gpus=["a GPU"], version=13000), 22900, 2, {})
        lines = [json.loads(line)[0] for line in started.read_text().splitlines()]
        self.assertEqual(suite.not_run, ["bench beside NCCL, 2 ranks: there is 1 GPU, and NCCL before 2.30 takes one rank for each"])
        self.assertEqual(len(lines), 2)
        for words in lines:
            self.assertNotIn("--against", words)

    def test_without_torch_or_its_gpu_the_report_says_so(self):
        python = sys.executable
        for said, reason in [("raise SystemExit(1)", "has no torch"),
                             ("print('2.13.0 False')", "torch 2.13.0 of .* finds no GPU; install one that is built for CUDA")]:
            suite_file, suite = self.suite()
            self.patch_python(suite_file, f'exec {python} -c "{said}"')
            suite_file.run_torch(suite, {}, None)
            self.assertEqual(suite.ran, [])
            self.assertRegex(suite.not_run[0], "^torch, operations, DistributedDataParallel and FSDP2: .*" + reason)

    def test_torch_runs_through_host_memory_and_from_gpu_to_gpu(self):
        suite_file, suite = self.suite()
        self.patch_python(suite_file, '[ "$1" = -c ] || echo $TUTTI_CUDA_IPC $2 >>ran; echo 2.13.0 True')
        self.patch(suite_file, ROOT=self.root)
        suite_file.run_torch(suite, {}, self.root)
        ran = (self.root / "ran").read_text().splitlines()
        self.assertEqual(ran, [f"{switch} {ranks}" for switch in ("off", "on") for ranks in (1, 2, 3)])
        self.assertEqual([(name.partition(" with ")[2], outcome) for name, outcome, _, _ in suite.ran],
                         [(f"TUTTI_CUDA_IPC={switch}, {ranks}", "passed")
                          for switch in ("off", "on") for ranks in ("1 rank", "2 ranks", "3 ranks")])
