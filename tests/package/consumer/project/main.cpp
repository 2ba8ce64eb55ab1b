// Uses the library as a user does: public headers and the target tutti::tutti, nothing else.

#include <cstdio>
#include <string>

#include <tutti/error.hpp>
#include <tutti/version.hpp>

// Calls of the interface beside macros of others.
void run_with_macros_before();
void run_with_macros_behind();
void check_cereal();

int main() {
  if (tutti::version() != tutti::kVersion) {
    std::fprintf(stderr, "headers and library do not belong together\n");
    return 1;
  }
  run_with_macros_before();
  run_with_macros_behind();
  const tutti::Outcome lost(tutti::Errc::peer_lost, "rank 1");
  const std::string name(tutti::to_string(lost.code()));
  std::printf("tutti %s: %s\n", std::string(tutti::version()).c_str(), name.c_str());
#if defined(HAS_CEREAL)
  check_cereal();
#endif
  return name == "peer_lost" ? 0 : 1;
}
