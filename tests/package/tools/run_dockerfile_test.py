"""The Dockerfile and the workflow: what they name is there. tools/run_dockerfile.py runs the former in a clean root."""

import pathlib
import re
import sys

from planted import ROOT, FolderTest, run

import run_dockerfile

STAGES = run_dockerfile.stages((ROOT / "Dockerfile").read_text(encoding="utf-8"))


def instructions(kind):
    return [words for _, _, all_of_stage in STAGES for name, words in all_of_stage if name == kind]


class Dockerfile(FolderTest):
    def test_what_is_copied_and_started_is_there(self):
        for words in instructions("COPY"):
            if not words[0].startswith("--from="):
                self.assertTrue((ROOT / words[0]).exists(), words)
        for words in [each.split() for each in re.findall(r"\./dev [^&]*", " && ".join(instructions("RUN")))]:
            self.assertRegex((ROOT / "dev").read_text(), rf"(?m)^  (\w+ \| )*{words[1]}( \| \w+)*\)")
        self.assertIn(["./dev", "demo"], instructions("CMD"))
        last = STAGES[-1][2][-1]
        self.assertEqual(last[0], "CMD")
        self.assertTrue((ROOT / "examples/python" / pathlib.Path(last[1][-1]).name).exists())

    def test_commands_are_understood_by_a_shell(self):
        for text in instructions("RUN"):
            run("sh", "-n", "-c", text, check=True)

    def test_stages_follow_each_other(self):
        known = list(run_dockerfile.RELEASES)
        for name, base, all_of_stage in STAGES:
            self.assertIn(base, known)
            for kind, words in all_of_stage:
                if kind == "COPY" and words[0].startswith("--from="):
                    self.assertIn(words[0].removeprefix("--from="), known)
            known.append(name)

    def test_a_target_takes_what_it_is_made_of(self):
        named = [name for name, _, _ in run_dockerfile.wanted(STAGES, "demo")]
        self.assertEqual(named, ["sources", "demo"])
        self.assertEqual([name for name, _, _ in run_dockerfile.wanted(STAGES, None)], ["sources", "wheel", ""])

    def test_an_unknown_instruction_is_an_error(self):
        with self.assertRaisesRegex(ValueError, "ONBUILD"):
            run_dockerfile.stages("FROM debian:12\nONBUILD RUN true\n")

    def test_long_lines_go_on(self):
        self.assertEqual(run_dockerfile.stages("FROM a AS b\n# not this\nRUN one && \\\n  two\nENV A=1 B=2\n"),
                         [("b", "a", [("RUN", "one &&    two"), ("ENV", ["A=1", "B=2"])])])

    def test_a_folder_with_files_is_refused_and_left(self):
        mine = self.plant("mine", "kept")
        done = run(sys.executable, ROOT / "tools/run_dockerfile.py", "--folder", self.root, "--file", "/dev/null")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("is not empty", done.stderr)
        self.assertEqual(mine.read_text(), "kept")

    def test_certificates_outlive_the_installing_of_debians(self):
        self.assertEqual(run_dockerfile.passed({"PIP_CERT": "/here.crt", "PIP_NO_INDEX": "1", "HOME": "/", "https_proxy": "a"}),
                         {"PIP_CERT": run_dockerfile.CERTIFICATES, "PIP_NO_INDEX": "1", "https_proxy": "a"})
        self.assertNotEqual(run_dockerfile.CERTIFICATES, "/etc/ssl/certs/ca-certificates.crt")
        self.assertIn(run_dockerfile.CERTIFICATES, run_dockerfile.HOST_FILES.values())

    def test_the_environment_of_a_stage_counts_inside_only(self):
        folder = str(self.root)
        self.plant("mount", "#!/bin/sh\nexit 0\n", executable=True)
        self.plant("chroot", '#!/bin/sh\ntest "$1" = "$HERE/a root" || exit 3; shift; exec "$@"\n', executable=True)
        text = run_dockerfile.inside(f"{folder}/a root", folder, {"PATH": "/opt/image", "A": "b  c"},
                                     ["/bin/sh", "-c", 'echo "$PATH $A ${HERE:-unset}"; pwd'])
        done = run("sh", "-c", text, env={"PATH": f"{folder}:/usr/bin:/bin", "HERE": folder})
        self.assertEqual(done.stdout, f"/opt/image b  c unset\n{folder}\n", done.stderr)

    def test_nothing_that_is_built_is_copied(self):
        self.assertEqual(run_dockerfile.ignored(str(ROOT), ["build", "src", ".git"]), ["build", ".git"])
        self.assertEqual(run_dockerfile.ignored(str(ROOT / "src"), ["build", "__pycache__"]), ["__pycache__"])


class Workflow(FolderTest):
    def test_it_runs_the_checks_and_the_tests_and_nothing_else(self):
        text = (ROOT / ".github/workflows/check.yml").read_text(encoding="utf-8")
        commands = re.findall(r"^\s+- run: (.*)$", text, re.MULTILINE)
        prepares = ("apt-get update && apt-get install", "git config --global")
        own = [command for command in commands if not command.startswith(prepares)]
        self.assertEqual(own, ["./dev ci"])
        self.assertEqual(re.findall(r"uses: (.*)", text), ["actions/checkout@v4"])
