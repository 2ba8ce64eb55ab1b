// Gather of unlike sizes: rank 0 gets a report from every rank. Reports differ in length, and only
// the rank that writes one knows how long it is.
//
//   tuttirun --nproc-per-node 4 21_reports

#include <cstdio>
#include <span>
#include <string>

#include <tutti/tutti.hpp>

namespace {

std::string report_of(int rank) {
  std::string report = "rank " + std::to_string(rank) + " has seen";
  for (int i = 0; i < rank; ++i) report += " " + std::to_string(i * i);
  return rank == 0 ? "" : report;  // rank 0 has nothing to report
}

}  // namespace

int main() {
  tutti::ProcessGroup world = tutti::init_process_group({.or_alone = true});
  const std::string mine = report_of(world.rank());
  const tutti::Blocks<char> reports = world.gather_v(mine, {.root = 0}).wait();

  bool right = true;
  for (int rank = 0; world.rank() == 0 && rank < world.size(); ++rank) {
    const std::span<const char> block = reports[rank];
    const std::string report(block.begin(), block.end());
    std::printf("%d characters: %s\n", static_cast<int>(report.size()), report.c_str());
    right = right && report == report_of(rank);
  }
  return right ? 0 : 1;
}
