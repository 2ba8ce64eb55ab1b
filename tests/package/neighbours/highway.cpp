#include <hwy/targets.h>

bool use_neighbour() {
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  return hwy::SupportedTargets() != 0 && hwy::GetChosenTarget().IsInitialized();
}
