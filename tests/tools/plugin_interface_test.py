import hashlib
import re
import unittest

from planted import ROOT

# What a plug-in and the library pass to each other. A plug-in that was built with another one of these is refused by
# the number alone: a function that is new in Backend moves the others, and changes no size.
HEADERS = ["backend.hpp", "backends.hpp", "collective.hpp", "config.hpp", "device.hpp", "dtype.hpp", "error.hpp",
           "job_identity.hpp", "kinds.hpp", "tensor.hpp", "work.hpp"]
# kBackendAbi, and the hash of the interface that it stands for. A change of the interface changes both.
NUMBER, INTERFACE = 7, "5b28ab9fa0efa0f9"


def without_comments(text):
    return re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.S)


def interface():
    """Of all headers, the tokens: neither comments nor line ends count."""
    text = "".join(without_comments((ROOT / "include/tutti" / name).read_text(encoding="utf-8")) for name in HEADERS)
    return hashlib.sha256(" ".join(text.split()).encode()).hexdigest()[:16]


class PluginInterface(unittest.TestCase):
    def test_a_change_of_the_interface_changes_its_number(self):
        header = (ROOT / "include/tutti/backend_plugin.hpp").read_text(encoding="utf-8")
        number = int(re.search(r"kBackendAbi = (\d+);", header)[1])
        self.assertEqual((number, interface()), (NUMBER, INTERFACE),
                         "count kBackendAbi up (include/tutti/backend_plugin.hpp), and write both here")

    def test_comments_and_line_ends_do_not_count(self):
        self.assertEqual(without_comments("int a;  // one\n/* two\n */ int b;").split(), ["int", "a;", "int", "b;"])


if __name__ == "__main__":
    unittest.main()
