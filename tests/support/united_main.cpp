// main of a program in which the tests of a folder are compiled as one (TUTTI_UNITY): runs the
// cases that stand in the source files which it is given (as "/tests/unit/base/log_test.cpp"), or
// that are of an instantiation ("Threads/"), unless --gtest_filter asks for others (as a death test
// does of the process in which it dies). A filter that only leaves out ("-A.b") leaves them out of
// these.

#include <algorithm>
#include <cstdio>
#include <set>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const std::string given = GTEST_FLAG_GET(filter);
  const bool leaves_out = given.starts_with('-');
  if (argc < 2 || (given != "*" && !leaves_out)) return RUN_ALL_TESTS();
  const std::set<std::string_view> sources(argv + 1, argv + argc);

  std::set<std::string_view> without_case = sources;
  std::string filter;
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  for (int i = 0; i < all.total_test_suite_count(); ++i) {
    const testing::TestSuite& suite = *all.GetTestSuite(i);
    for (int j = 0; j < suite.total_test_count(); ++j) {
      const testing::TestInfo& test = *suite.GetTestInfo(j);
      const std::string_view file = test.file();
      if (!file.ends_with(".cpp")) {
        // Which of the sources it belongs to cannot be known, so none would run it.
        std::fprintf(stderr, "%s.%s stands in %s: its test must be ALONE\n", suite.name(),
                     test.name(), test.file());
        return 1;
      }
      // How the compiler was told the path differs from build to build; its end does not.
      const std::string_view name = suite.name();
      const std::string_view instantiation = name.substr(0, name.find('/') + 1);
      const auto source = std::find_if(sources.begin(), sources.end(), [&](std::string_view one) {
        return one.ends_with('/') ? one == instantiation : file.ends_with(one);
      });
      if (source == sources.end()) continue;
      without_case.erase(*source);
      filter.append(filter.empty() ? "" : ":").append(suite.name()).append(".").append(test.name());
    }
  }
  for (const std::string_view file : without_case) {
    std::fprintf(stderr, "no case stands in %.*s\n", static_cast<int>(file.size()), file.data());
  }
  if (!without_case.empty()) return 1;
  GTEST_FLAG_SET(filter, leaves_out ? filter + given : filter);
  return RUN_ALL_TESTS();
}
