from planted import PlantedTree

LONG = "Word" + " word" * 35
ROWS = {
    "short sentences": ({"docs/a.md": "A page. It is short.\n"}, None),
    "as long as it may be": ({"docs/a.md": f"One. Two. {LONG[:-5]}.\n"}, None),
    "a long sentence": ({"docs/a.md": f"One. Two.\n{LONG}.\n"}, "docs/a.md:1: 36 words in a sentence, at most 35: Word word"),
    "code, tables and comments": ({"docs/a.md": f"```\n{LONG}\n```\n\n    {LONG}\n\n| {LONG} |\n<!-- {LONG}\nWho -->\n"}, None),
    "text behind them": ({"docs/a.md": f"```\nx\n```\n<!-- x -->\nOne. Two. {LONG}.\n"}, "docs/a.md:5: 36 words in a sentence"),
    "a list of names": ({"docs/a.md": f"One. Two. It has {', '.join(['`x y`'] * 40)} and [one](https://a/b%20c).\n"}, None),
    "items of a list": ({"docs/a.md": "".join(f"- {LONG[:-5]}\n" for _ in range(3)) + "\n" + "One. " * 4 + "\n"}, None),
    "sentences that are long on the whole": ({"docs/a.md": "One. Two.\n" + f"A {'word ' * 18}. " * 3 + "\n"},
                                             "docs/a.md: the median sentence has 19 words, at most 18"),
    "a page of few": ({"docs/a.md": f"A {'word ' * 18}. " * 4 + "\n"}, None),
    "a relative clause": ({"docs/a.md": "A page. What is late waits.\n"},
                          "docs/a.md:1: begins with a relative clause: name the subject: What is late waits."),
    "one in a heading": ({"docs/a.md": "\n## Who waits for whom\n"}, "docs/a.md:2: begins with a relative clause"),
    "one behind a mark": ({"docs/a.md": "- **Whoever waits** sleeps.\n"}, "docs/a.md:1: begins with a relative clause"),
    "a question": ({"docs/a.md": "## What waits?\n\nWhich rank is late? When it waits, it sleeps.\n"}, None),
    "the newest part of the changes": ({"CHANGELOG.md": f"# Changes\n\n## 2\n\nOne.\n\n## 1\n\n{LONG}.\n"}, None),
    "a long sentence there": ({"CHANGELOG.md": f"# Changes\n\n## 2\n\nOne. Two. {LONG}.\n\n## 1\n"}, "CHANGELOG.md:5: 36 words"),
    "another kind of page": ({"notes/a.md": "What is late waits.\n"}, None),
    "a page that is not mended": ({"docs/a.md": "What is late waits.\n", "tools/unchecked-sentences.txt": "# why\ndocs/a.md\n"}, None),
    "one that is": ({"docs/a.md": "It waits.\n", "tools/unchecked-sentences.txt": "docs/a.md\n"},
                    "tools/unchecked-sentences.txt: docs/a.md is good now, or gone: remove it"),
    "one that is gone": ({"tools/unchecked-sentences.txt": "docs/a.md\n"}, "docs/a.md is good now, or gone: remove it"),
}


class CheckSentences(PlantedTree):
    def setUp(self):
        super().setUp()
        self.git("init", "-q")

    def test_rows(self):
        self.assert_rows("check_sentences", ROWS)
