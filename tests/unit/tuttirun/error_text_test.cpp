#include "error_text.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <string_view>

using tutti::launcher::ErrorText;

namespace {

ErrorText of(std::string_view written) {
  ErrorText text;
  // In pieces, as they come through a pipe.
  for (; !written.empty(); written.remove_prefix(std::min<std::size_t>(7, written.size())))
    text.add(written.substr(0, 7));
  return text;
}

constexpr std::string_view kTraceback =
    "Traceback (most recent call last):\n"
    "  File \"/srv/train.py\", line 50, in <module>\n"
    "    main()\n"
    "  File \"/srv/train.py\", line 42, in main\n"
    "    raise ValueError(\"my bug\")\n"
    "    ^^^^^\n"
    "ValueError: my bug\n";

TEST(ErrorText, AnExceptionOfPythonWithItsLine) {
  EXPECT_EQ(of(kTraceback).error(), "ValueError: my bug (/srv/train.py:42)");
  EXPECT_FALSE(of(kTraceback).unfinished());
}

TEST(ErrorText, ATracebackIsUnfinishedUntilItsError) {
  const std::string_view begun = kTraceback.substr(0, kTraceback.find("ValueError: my"));
  EXPECT_TRUE(of(begun).unfinished());
  EXPECT_EQ(of(begun).error(), "");
}

TEST(ErrorText, LinesBehindTheRankAndBeforeOtherOutput) {
  std::string tagged;
  std::istringstream lines{std::string(kTraceback)};
  for (std::string line; std::getline(lines, line);) tagged += "[rank12]: " + line + "\n";
  const ErrorText text = of("a warning\n" + tagged + "resource_tracker: leaked\n");
  EXPECT_EQ(text.error(), "ValueError: my bug (/srv/train.py:42)");
  EXPECT_EQ(text.last_line(), "resource_tracker: leaked");
}

TEST(ErrorText, TheLastOfAChainAndTheProgramsOwnLine) {
  const std::string chain =
      std::string(kTraceback) +
      "\nDuring handling of the above exception, another exception occurred:\n\n"
      "Traceback (most recent call last):\n"
      "  File \"model.py\", line 7, in forward\n"
      "  File \"/usr/lib/python3.11/json/decoder.py\", line 355, in raw_decode\n"
      "  File \"<frozen importlib>\", line 1, in f\n"
      "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)\n";
  EXPECT_EQ(of(chain).error(),
            "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0) (model.py:7)");
}

TEST(ErrorText, ASyntaxErrorHasNoTraceback) {
  EXPECT_EQ(
      of("  File \"train.py\", line 3\n    foo(\n       ^\nSyntaxError: '(' was never closed\n")
          .error(),
      "SyntaxError: '(' was never closed (train.py:3)");
}

TEST(ErrorText, AStackThatIsPrintedIsNoError) {
  for (const char* stack :
       {"  File \"train.py\", line 3, in f\n    traceback.print_stack()\n",
        "Stack (most recent call first):\n  File \"train.py\", line 3 in f\n"}) {
    const ErrorText text = of(std::string(stack) + "epoch 7 saved\n");
    EXPECT_EQ(text.error(), "");
    EXPECT_EQ(text.last_line(), "epoch 7 saved");
    EXPECT_FALSE(of(stack).unfinished());
  }
}

TEST(ErrorText, WhetherTheWorkerHasGoneOn) {
  EXPECT_FALSE(of(kTraceback).followed());
  EXPECT_TRUE(of(std::string(kTraceback) + "epoch 8\n").followed());
  EXPECT_FALSE(of(std::string(kTraceback) + "epoch 8\n" + std::string(kTraceback)).followed());
}

TEST(ErrorText, AnExceptionOfCpp) {
  EXPECT_EQ(of("terminate called after throwing an instance of 'std::runtime_error'\n"
               "  what():  no such file\n")
                .error(),
            "std::runtime_error: no such file");
  EXPECT_EQ(of("terminate called after throwing an instance of 'int'\nAborted\n").error(), "int");
  EXPECT_TRUE(of("terminate called after throwing an instance of 'int'\nAborted\n").is_crash());
  EXPECT_FALSE(of(kTraceback).is_crash());
}

TEST(ErrorText, ACrashOfPython) {
  EXPECT_EQ(of("Fatal Python error: Segmentation fault\n\n"
               "Current thread 0x00007f (most recent call first):\n"
               "  File \"/usr/lib/python3/dist-packages/numpy/core.py\", line 9 in f\n"
               "  File \"train.py\", line 42 in main\n"
               "  File \"train.py\", line 50 in <module>\n\n"
               "Extension modules: numpy (total: 1)\n")
                .error(),
            "Segmentation fault (train.py:42)");
}

TEST(ErrorText, WithoutAnExceptionTheLastLine) {
  const ErrorText text = of("one\n 10%\r 20%\rcannot open \x1b[1mdata\n\n");
  EXPECT_EQ(text.error(), "");
  EXPECT_EQ(text.last_line(), "cannot open \\x1b[1mdata");
}

TEST(ErrorText, LongLinesAreCutBetweenWords) {
  EXPECT_EQ(of(std::string(100000, 'x') + "\n").last_line(), std::string(800, 'x') + "...");
  std::string words;
  while (words.size() < 1000) words += "fifteen letters ";
  EXPECT_EQ(of(words + "\n").last_line().substr(760), words.substr(760, 39) + " ...");
  EXPECT_EQ(of("Traceback (most recent call last):\n  File \"a.py\", line 1, in f\n" + words + "\n")
                .error(),
            words.substr(0, 799) + " ... (a.py:1)");
}

}  // namespace
