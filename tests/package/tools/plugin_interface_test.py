import hashlib
import re
import unittest

from planted import ROOT

HEADER = "backend/plugin.hpp"
NUMBER_IN_HEADER = re.compile(r"kBackendAbi = (\d+);")
# kBackendAbi, and the hash of the interface that it stands for. A change of the interface changes both.
NUMBER, INTERFACE = 15, "8a83e88c031f5693"


def without_comments(text):
    return re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.S)


def interface():
    """What a plug-in and the library may pass to each other: the header of plug-ins, and all that it includes. A plug-in
    that was built with another one is refused by the number alone: a function that is new in Backend moves the others,
    and changes no size. Neither comments, line ends nor the number itself count."""
    texts = {}
    names = [HEADER]
    while names:
        name = names.pop()
        if name not in texts:
            texts[name] = (ROOT / "include/tutti" / name).read_text(encoding="utf-8")
            names += re.findall(r"#include <tutti/(\S+)>", texts[name])
    texts[HEADER] = NUMBER_IN_HEADER.sub("", texts[HEADER])
    text = " ".join(" ".join(without_comments(texts[name]).split()) for name in sorted(texts))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class PluginInterface(unittest.TestCase):
    def test_a_change_of_the_interface_changes_its_number(self):
        number = int(NUMBER_IN_HEADER.search((ROOT / "include/tutti" / HEADER).read_text(encoding="utf-8"))[1])
        self.assertEqual((number, interface()), (NUMBER, INTERFACE),
                         "count kBackendAbi up (include/tutti/backend/plugin.hpp), and write both here")

    def test_comments_and_line_ends_do_not_count(self):
        self.assertEqual(without_comments("int a;  // one\n/* two\n */ int b;").split(), ["int", "a;", "int", "b;"])
