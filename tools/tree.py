"""The files of the tree: all that git does not ignore."""

import subprocess


def files(root):
    """Their names, in order."""
    listed = subprocess.run(["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"], check=True,
                            capture_output=True).stdout
    return [name for name in sorted(set(listed.decode().split("\0")) - {""}) if (root / name).is_file()]
