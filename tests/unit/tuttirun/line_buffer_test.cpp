#include "line_buffer.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

using tutti::launcher::LineBuffer;

namespace {

LineBuffer lines(const char* tag = "") { return {LineBuffer::Form::lines, tag, "[rank3]: "}; }
LineBuffer screen(const char* tag = "") { return {LineBuffer::Form::screen, tag, "[rank3]: "}; }

TEST(LineBuffer, OnlyWholeLinesAreReady) {
  LineBuffer buffer = lines();
  EXPECT_EQ(buffer.add("one\ntw"), "one\n");
  EXPECT_EQ(buffer.unfinished(), "tw");
  EXPECT_EQ(buffer.add("o\n"), "two\n");
  EXPECT_EQ(buffer.unfinished(), "");
}

TEST(LineBuffer, NothingWaitsWhereNobodyElseWrites) {
  LineBuffer buffer(LineBuffer::Form::as_it_comes, "", "");
  EXPECT_EQ(buffer.add("50%"), "50%");
  EXPECT_EQ(buffer.add("\r100%"), "\r100%");
  EXPECT_EQ(buffer.finish(true), "\n");
}

TEST(LineBuffer, ACarriageReturnEndsALine) {
  LineBuffer buffer = lines("[3]: ");
  EXPECT_EQ(buffer.add("\r 10%"), "\r");
  EXPECT_EQ(buffer.add("\r 20%"), "[3]:  10%\r");
  EXPECT_EQ(buffer.add("\r 30%\n"), "[3]:  20%\r[3]:  30%\n");
}

TEST(LineBuffer, ACarriageReturnBeforeALineFeedIsItsPart) {
  for (const std::vector<std::string>& pieces :
       {std::vector<std::string>{"one\r\ntwo\r\n"}, {"one\r", "\ntwo", "\r", "\n"}}) {
    LineBuffer buffer = lines("[3]: ");
    std::string all;
    for (const std::string& piece : pieces) all += buffer.add(piece);
    EXPECT_EQ(all, "[3]: one\r\n[3]: two\r\n");
  }
}

TEST(LineBuffer, ALineIsNotTaggedTwice) {
  LineBuffer buffer = lines("[3]: ");
  EXPECT_EQ(buffer.add("[rank3]: Traceback\n[rank4]: other\n"),
            "[3]: Traceback\n[3]: [rank4]: other\n");
  LineBuffer untagged = lines();
  EXPECT_EQ(untagged.add("[rank3]: Traceback\n"), "[rank3]: Traceback\n");
}

TEST(LineBuffer, TheLastLineIsEnded) {
  LineBuffer buffer = lines("[3]: ");
  EXPECT_EQ(buffer.add("rest"), "");
  EXPECT_EQ(buffer.finish(true), "[3]: rest\n");
  LineBuffer bar = lines();
  EXPECT_EQ(bar.add("100%\r"), "");
  EXPECT_EQ(bar.finish(true), "100%\r\n");
}

TEST(LineBuffer, AVeryLongLineComesInPiecesBehindOneTag) {
  LineBuffer buffer = lines("[3]: ");
  const std::string piece(LineBuffer::kLongestLine, 'x');
  EXPECT_EQ(buffer.add(piece + "y"), "[3]: " + piece + "y");
  EXPECT_EQ(buffer.add("z\n"), "z\n");
}

TEST(LineBuffer, OnAScreenALineThatIsWrittenAnewIsLeftOut) {
  LineBuffer buffer = screen("[3]: ");
  EXPECT_EQ(buffer.add("\r 10%"), "");
  EXPECT_EQ(buffer.unfinished(), "[3]:  10%");
  EXPECT_EQ(buffer.add("\r 20%"), "");
  EXPECT_EQ(buffer.unfinished(), "[3]:  20%");
  EXPECT_EQ(buffer.add("\r100%\nnext\r"), "[3]: 100%\n");
  EXPECT_EQ(buffer.unfinished(), "[3]: next");
  EXPECT_EQ(buffer.finish(true), "[3]: next\n");
}

TEST(LineBuffer, OnAScreenABarBelowOthersStaysOneLine) {
  // tqdm with position=2: down, the bar, and up again.
  LineBuffer buffer = screen();
  EXPECT_EQ(buffer.add("\n\n\r 10%\x1b[A\x1b[A"), "\n\n");
  for (const std::string bar : {" 20%\x1b[A\x1b[A", " 30%\x1b[A\x1b[A"}) {
    EXPECT_EQ(buffer.add("\n\n\r" + bar), "");
    EXPECT_EQ(buffer.unfinished(), bar);
  }
}

TEST(LineBuffer, OnAScreenARowThatIsWrittenAnewIsToldInTheEnd) {
  for (const std::string up : {"\x1b[A", "\x1b[A\r"}) {
    LineBuffer buffer = screen("[3]: ");
    EXPECT_EQ(buffer.add("Step 1/3\n" + up + "Step 2/3\n"), "[3]: Step 1/3\n");
    EXPECT_EQ(buffer.unfinished(), "[3]: Step 2/3");
    EXPECT_EQ(buffer.add(up + "Step 3/3 accuracy=0.93\n"), "");
    EXPECT_EQ(buffer.add("done\n"), "[3]: Step 3/3 accuracy=0.93\n[3]: done\n");
    EXPECT_EQ(buffer.add(up + "all done\n"), "");
    EXPECT_EQ(buffer.finish(true), "[3]: all done\n");
  }
}

TEST(LineBuffer, OnAScreenSeveralRowsAreWrittenAnew) {
  LineBuffer buffer = screen();
  EXPECT_EQ(buffer.add("loss 3\nacc 1\n\x1b[A\x1b[Aloss 2\nacc 2\n"), "loss 3\nacc 1\n");
  EXPECT_EQ(buffer.finish(true), "loss 2\nacc 2\n");
}

TEST(LineBuffer, OnAScreenABarInsideAnotherStaysOneLine) {
  // tqdm: the outer bar, and the inner one below it.
  LineBuffer buffer = screen();
  EXPECT_EQ(buffer.add("\router 0%\n\rinner 0%\x1b[A"), "outer 0%\n");
  EXPECT_EQ(buffer.add("\router 50%\n\rinner 9%\x1b[A"), "");
  EXPECT_EQ(buffer.unfinished(), "inner 9%\x1b[A");
  EXPECT_EQ(buffer.add("\router 100%\n"), "");
  EXPECT_EQ(buffer.finish(true), "outer 100%\n");
}

TEST(LineBuffer, SeveralCarriageReturnsBeforeALineFeedAreItsPart) {
  for (LineBuffer buffer : {lines("[3]: "), screen("[3]: ")}) {
    EXPECT_EQ(buffer.add("text\r"), "");
    EXPECT_EQ(buffer.add("\r"), "");
    EXPECT_EQ(buffer.add("\nnext\r\r\n"), "[3]: text\r\r\n[3]: next\r\r\n");
  }
}

TEST(LineBuffer, APromptThatWasAnsweredIsForgotten) {
  LineBuffer buffer = screen();
  EXPECT_EQ(buffer.add("(Pdb) "), "");
  buffer.forget_unfinished();
  EXPECT_EQ(buffer.add("42\n"), "42\n");
}

}  // namespace
