// Joins the job it was started in, twice, and checks that everybody got everybody's blob.

#include <cstdio>
#include <string>

#include <tutti/config.hpp>

#include "rendezvous/rendezvous.hpp"

int main() {
  using namespace tutti::rendezvous;
  for (int round = 0; round < 2; ++round) {
    Settings settings;
    settings.tls = tutti::Config::from_environment().value().tls;
    auto joined = from_env(settings);
    if (!joined) {
      std::fprintf(stderr, "%s\n", std::string(joined.status().message()).c_str());
      return 1;
    }
    const auto blob = [&](int rank) {
      return "round " + std::to_string(round) + " rank " + std::to_string(rank);
    };
    auto all = exchange(*joined->store, "test", joined->identity.rank, joined->identity.size,
                        blob(joined->identity.rank), Clock::now() + std::chrono::seconds(20));
    if (!all) {
      std::fprintf(stderr, "%s\n", std::string(all.status().message()).c_str());
      return 1;
    }
    for (int rank = 0; rank < joined->identity.size; ++rank)
      if ((*all)[static_cast<std::size_t>(rank)] != blob(rank)) return 2;
  }
  std::puts("met everybody twice");
  return 0;
}
