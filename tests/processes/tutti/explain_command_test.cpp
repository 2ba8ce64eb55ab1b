#include "command_run.hpp"

using testing::AllOf;
using testing::HasSubstr;

namespace {

using tutti::test::answer_of;
using tutti::test::joined;
using tutti::test::Words;

tutti::test::Answer explained(const Words& arguments) {
  return answer_of(joined({{TUTTI_CLI, "explain"}, arguments}), {"TUTTI_CPUS=8"});
}

TEST(ExplainCommand, TellsWhatIsTakenAndWhoSendsWhat) {
  const auto answer = explained({"all_reduce", "--ranks", "4", "--hosts", "2", "--bytes", "1M"});
  EXPECT_EQ(answer.code, 0) << answer.text;
  EXPECT_THAT(answer.text, AllOf(HasSubstr("algorithm      two_level\n"),
                                 HasSubstr("two_level, up to 8 KiB: no, it has 1 MiB"),
                                 HasSubstr("round 2: 8 messages\n  rank 0 -> 2: part 1")));
}

TEST(ExplainCommand, RefusesWhatIsNoCall) {
  const std::pair<Words, std::string> refused[] = {
      {{"all_redcue"}, "all_redcue not in {"},
      {{"all_reduce", "--ranks", "0"}, "--ranks: Value 0 not in range"},
      {{"all_reduce", "--ranks", "257"}, "--ranks: Value 257 not in range"},
      {{"all_reduce", "--ranks", "2", "--hosts", "3"}, "--hosts 3 is more than --ranks 2"},
      {{"all_reduce", "--bytes", "6"}, "6 bytes are no whole number of float32, which has 4"},
      {{"all_reduce", "--bytes", "0"}, "a call of 0 bytes moves nothing"},
      {{"all_reduce", "--bytes", "-4"}, "--bytes: "},
      {{"all_reduce", "--bytes", "much"}, "--bytes: "},
      {{"all_reduce", "--bytes", "2G"}, "--bytes: '2G' is not a size"},
      {{"all_reduce", "--ranks", "256", "--hosts", "256", "--bytes", "1G"},
       "more than 300000 messages and reads; ask about fewer ranks or bytes"},
      {{"all_reduce", "--dtype", "float"}, "--dtype: float not in {"},
      {{"broadcast", "--root", "4"}, "--root 4 is no rank: there are 0 to 3"},
      {{"broadcast", "--root", "-1"}, "--root: Value -1 not in range"},
      {{"all_reduce", "--host", "2"}, "unknown option --host; did you mean --hosts?"},
      {{}, "operation is required"},
  };
  for (const auto& [arguments, text] : refused) {
    const auto answer = explained(arguments);
    EXPECT_EQ(answer.code, 2) << text;
    EXPECT_THAT(answer.text, AllOf(HasSubstr("tutti explain: "), HasSubstr(text)));
  }
  const auto named = answer_of({TUTTI_CLI, "explain", "barrier"}, {"TUTTI_ALGO=barrier:none"});
  EXPECT_EQ(named.code, 2);
  EXPECT_THAT(named.text, HasSubstr("barrier has no algorithm \"none\""));
}

TEST(ExplainCommand, DividesRanksUnevenlyIfItMust) {
  const auto answer = explained({"all_reduce", "--ranks", "5", "--hosts", "2", "--bytes", "1M"});
  EXPECT_EQ(answer.code, 0) << answer.text;
  EXPECT_THAT(answer.text, HasSubstr("two_level is taken, whose builder makes direct"));
}

// The parser of Python knows no HTML: it refuses what is not closed or not escaped.
TEST(ExplainCommand, ThePageIsXmlAndNeedsNothingElse) {
  const std::string check =
      "import sys, re, xml.etree.ElementTree as tree\n"
      "text = open(sys.argv[1], encoding='utf-8').read()\n"
      "page = tree.fromstring(text)\n"
      "for one in page.iter():\n"
      "  assert not one.tag.endswith('script') and not one.tag.endswith('link'), one.tag\n"
      "  for name in one.attrib: assert not re.search('href|src|^on', name), name\n"
      "assert 'url(' not in text and '@import' not in text\n"
      "moves = sum('class' in one.attrib and one.attrib['class'] == 'move' for one in "
      "page.iter())\n"
      "print('moves:', moves)\n";
  const std::pair<std::string, std::string> pages[] = {
      {"2", "moves: 2\n"}, {"16", "moves: 480\n"}, {"40", "moves: 0\n"}};
  for (const auto& [ranks, moves] : pages) {
    tutti::test::CommandRun run({TUTTI_CLI, "explain", "all_reduce", "--ranks", ranks, "--hosts",
                                 ranks, "--bytes", "256K", "--html", "@page.html"},
                                {});
    ASSERT_EQ(run.finish(), 0) << run.output();
    const auto parsed = answer_of({PYTHON, "-c", check, run.at("page.html").string()});
    EXPECT_EQ(parsed.code, 0) << parsed.text;
    EXPECT_EQ(parsed.text, moves) << ranks;
  }
}

TEST(ExplainCommand, SaysIfThePageCannotBeWritten) {
  const auto answer = explained({"barrier", "--html", "/nowhere/page.html"});
  EXPECT_EQ(answer.code, 1);
  EXPECT_THAT(answer.text, HasSubstr("/nowhere/page.html cannot be written"));
}

}  // namespace
