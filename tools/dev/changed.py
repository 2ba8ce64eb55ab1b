"""What has changed since the last push of work, and which tests look at it.

.ci/part holds a number that the last commit before a push raises. So a change begins at the commit that raised it last;
if that is the last commit and the working tree is clean, at the one before. Merges do not count as commits: the service that
tests a pull request makes one of its own.
"""

import re
import tomllib

from console import ROOT, output_of

PART = ".ci/part"
EVERYTHING = "all"
INCLUDE = re.compile(r'^#include "([\w/.]+)"$', re.MULTILINE)


def raises(root=None):
    """(commit, the number before or None, the number after) of the commits that raised the number, the newest first."""
    shallow = output_of("git", "rev-parse", "--is-shallow-repository", cwd=root) != "false\n"
    found = []
    for commit in (output_of("git", "log", "-p", "-U0", "--no-color", "--format=commit %H", "--", PART, cwd=root) or "").split("commit ")[1:]:
        numbers = dict(re.findall(r"^([-+])(\d+)$", commit, re.MULTILINE))
        before, after = (int(numbers[sign]) if sign in numbers else None for sign in "-+")
        # A revert lowers the number. The first commit of a shallow clone seems to add every file.
        if after is not None and (after > before if before is not None else not shallow):
            found.append((commit.split()[0], before, after))
    return found


def last_commit(root=None):
    return (output_of("git", "rev-list", "--no-merges", "--topo-order", "-1", "HEAD", cwd=root) or "").strip()


def begin_of_change(root=None):
    """The commit at which the change begins; None where the history does not tell."""
    commits = [commit for commit, _, _ in raises(root)]
    if commits[:1] == [last_commit(root)] and not (output_of("git", "status", "--porcelain", cwd=root) or "").strip():
        commits = commits[1:]
    return commits[0] if commits else None


def changed_files(since, root=None):
    """Files that differ from the commit, also those that git does not track yet. None where this cannot be told."""
    if since is None:
        return None
    differing = output_of("git", "diff", "--name-only", "--no-renames", since, cwd=root)
    unknown = output_of("git", "ls-files", "--others", "--exclude-standard", cwd=root)
    return None if differing is None or unknown is None else sorted({*differing.split("\n"), *unknown.split("\n")} - {""})


def with_includers(names, root=None):
    """These files, and those of tests that include a header among them, be it by another header."""
    sources = [(path, path.read_text(encoding="utf-8")) for path in ((root or ROOT) / "tests").rglob("*.[ch]pp")]
    found, new = set(), set(names)
    while new:
        found |= new
        headers = {name.removeprefix("tests/") for name in new}
        new = {path.relative_to(root or ROOT).as_posix() for path, text in sources if headers.intersection(INCLUDE.findall(text))} - found
    return sorted(found)


class TestsOfFolders:
    """The table [tests] of tools/layers.toml: which tests look at the files of a folder."""

    def __init__(self, table=None):
        if table is None:
            with open(ROOT / "tools" / "layers.toml", "rb") as file:
                table = tomllib.load(file)["tests"]
        self.table = table

    def of_file(self, name):
        """Labels of tests. The tests of a folder look at themselves, and what no row names concerns everything."""
        parts = name.split("/")
        if parts[0] == "tests" and len(parts) > 3 and parts[1] in ("unit", "contract", "processes", "package"):
            return ["/".join(parts[1:3])]
        rows = [folder for folder in self.table if name == folder or name.startswith(folder + "/")]
        return self.table[max(rows, key=len)] if rows else [EVERYTHING]

    def of_files(self, names):
        """Labels of tests for all of these files; None stands for everything."""
        labels = {label for name in names for label in self.of_file(name)}
        return None if EVERYTHING in labels else labels


def own_labels(files):
    """Labels of the tests of the modules to which these files belong, and of the folders of tests among them."""
    labels = set()
    for name in files:
        first, second, *rest = [*name.split("/"), ""]
        if first == "tests" and len(rest) > 1:
            labels.add(f"{second}/{rest[0]}")
        elif first in ("src", "include", "apps"):
            module = "group" if first == "include" else second
            labels.update(f"{kind}/{module}" for kind in ("unit", "contract", "processes"))
            labels.update({"unit/simulation"} if module == "engine" else {})
    return labels


def affected_labels():
    """(the labels of tests that look at the change, or None for all of them; its files, or None)."""
    files = changed_files(begin_of_change())
    return (None, None) if files is None else (TestsOfFolders().of_files(with_includers(files)), files)
