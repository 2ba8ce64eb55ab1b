#include "rendezvous/known_variables.hpp"

#include <gmock/gmock.h>

using testing::Contains;
using namespace tutti::rendezvous;

namespace {

/// What the library would say of one name: what it is meant to be, "?" of one that only looks like
/// ours, nothing of all others.
std::string said_of(const std::string& name) {
  const auto strange = strange_variables(std::vector{name});
  if (strange.empty()) return "";
  EXPECT_EQ(strange.front().name, name);
  return strange.front().meant.value_or("?");
}

TEST(KnownVariables, AreTheSettingsAndThoseByWhichRanksMeet) {
  EXPECT_THAT(setting_variables(), Contains("TUTTI_TRANSPORT"));
  EXPECT_THAT(setting_variables(), Contains("TUTTI_SOCKET_IFNAME"));
  EXPECT_THAT(setting_variables(), testing::Not(Contains("TUTTI_SECRET_FILE")));
  for (const char* const name : {"TUTTI_TRANSPORT", "TUTTI_ALGO", "TUTTI_SECRET_FILE", "TUTTI_JOB"})
    EXPECT_THAT(known_variables(), Contains(name));
  for (const std::string& name : known_variables()) EXPECT_EQ(said_of(name), "");
}

TEST(StrangeVariables, NameWhatIsMeant) {
  for (const auto& [given, meant] :
       std::vector<std::pair<std::string, std::string>>{{"TUTTI_TRANSPRT", "TUTTI_TRANSPORT"},
                                                        {"TUTTI_TIMEOUTS", "TUTTI_TIMEOUT"},
                                                        {"TUTTI_ALGORITHM", "TUTTI_ALGO"},
                                                        {"TUTTI_LOGLEVEL", "TUTTI_LOG_LEVEL"},
                                                        {"TUTTI_SECRETFILE", "TUTTI_SECRET_FILE"},
                                                        {"TUTTI_TL", "TUTTI_TLS"},
                                                        {"TUTTI_IFNAME", "?"},
                                                        {"TUTTI_", "?"},
                                                        // The beginning itself.
                                                        {"TUTI_TIMEOUT", "TUTTI_TIMEOUT"},
                                                        {"TUI_TIMEOUT", "TUTTI_TIMEOUT"},
                                                        {"TTUTTI_TLS", "TUTTI_TLS"},
                                                        {"TUTTITIMEOUT", "TUTTI_TIMEOUT"}})
    EXPECT_EQ(said_of(given), meant) << given;
}

TEST(StrangeVariables, AreNotThoseOfOthers) {
  for (const char* const name : {"PATH", "HOME", "TITLE", "TUTOR", "TIMEOUT", "MASTER_PORT", "RANK",
                                 "GLOO_SOCKET_IFNAME", "NCCL_ALGO", "TUTTI", "T", ""})
    EXPECT_EQ(said_of(name), "") << name;
}

TEST(StrangeVariables, OfTestsAndToolsAreMeantToBeNoneOfTheLibrarys) {
  for (const char* const name :
       {"TUTTI_LONG_TESTS", "TUTTI_SEED", "TUTTI_SEEDS", "TUTTI_SPEED", "TUTTI_PACE",
        "TUTTI_ROTATION", "TUTTI_BENCH_OPENMPI_MPIEXEC", "TUTTI_BENCH_MPICH_MPIEXEC",
        "TUTTI_BENCH_IMPI_MPIEXEC", "TUTTI_SOURCE", "TUTTI_CLI", "TUTTI_DOCS", "TUTTI_WERROR"})
    EXPECT_EQ(said_of(name), "?") << name;
}

}  // namespace
