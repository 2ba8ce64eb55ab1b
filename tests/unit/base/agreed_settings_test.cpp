#include "base/agreed_settings.hpp"

#include <gmock/gmock.h>

namespace tutti::base {
namespace {

TEST(AgreedSettings, NamesEachThatDiffersWithBothValues) {
  Config one;
  one.tls = true;
  one.algorithms = "all_reduce:ring";
  Config other = one;
  EXPECT_EQ(settings_that_differ(agreed_settings_of(one), 0, agreed_settings_of(other), 1), "");
  other.tls = false;
  other.transport = Config::TransportChoice::tcp;
  other.algorithms = "";
  EXPECT_EQ(
      settings_that_differ(agreed_settings_of(one), 0, agreed_settings_of(other), 3),
      "TUTTI_ALGO is 'all_reduce:ring' on rank 0 and '' on rank 3, TUTTI_TLS is '1' on rank 0 "
      "and '0' on rank 3, TUTTI_TRANSPORT is 'auto' on rank 0 and 'tcp' on rank 3");
}

TEST(AgreedSettings, OfAnyLengthStillDiffer) {
  Config one;
  one.algorithms = std::string(5000, 'a');
  Config other = one;
  other.algorithms += 'b';
  EXPECT_LE(agreed_settings_of(one).size(), 1000);
  EXPECT_NE(agreed_settings_of(one), agreed_settings_of(other));
}

TEST(AgreedSettings, TextsOfOthersMayBeAnything) {
  const std::string ours = agreed_settings_of({});
  for (const char* theirs : {"", "\n", "=", "TUTTI_AGREE", "\n\n=\n", "TUTTI_TLS=\x1b[31m"})
    EXPECT_THAT(settings_that_differ(ours, 0, theirs, 1), testing::MatchesRegex("[[:print:]]+"))
        << theirs;
  EXPECT_EQ(settings_that_differ(ours, 0, ours, 1), "");
}

}  // namespace
}  // namespace tutti::base
