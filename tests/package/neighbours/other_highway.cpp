// As a Highway of another version: names of the one that tutti is compiled with mean other things.

#include <cstdlib>

namespace hwy {

struct ChosenTarget {
  int words[16];
};

ChosenTarget& GetChosenTarget() { std::abort(); }
long SupportedTargets() { return 1L << 62; }
void DisableTargets(long) { std::abort(); }
void SetSupportedTargetsForTest(long) { std::abort(); }

}  // namespace hwy

bool use_neighbour() { return hwy::SupportedTargets() == 1L << 62; }
