// Gather of unlike sizes: rank 0 gets a report from every rank. Reports differ in length, and only
// the rank that writes one knows how long it is.
//
//   tuttirun --nproc-per-node 4 21_reports

#include <cstdio>
#include <vector>

#include <tutti/tutti.hpp>

namespace {

/// The measurements of a rank: nothing on rank 0, one number more on each rank behind it.
std::vector<double> report_of(int rank) {
  std::vector<double> report;
  for (int i = 0; i < rank; ++i) report.push_back(i * i);
  return report;
}

}  // namespace

int main() {
  tutti::ProcessGroup world = tutti::init_process_group({.or_alone = true});
  const std::vector<double> mine = report_of(world.rank());
  const tutti::Blocks<double> reports = world.gather_v(mine, {.root = 0}).wait();

  bool right = true;
  for (int rank = 0; world.rank() == 0 && rank < world.size(); ++rank) {
    const std::vector<double> report(reports[rank].begin(), reports[rank].end());
    std::printf("rank %d has measured %d numbers\n", rank, static_cast<int>(report.size()));
    right = right && report == report_of(rank);
  }
  return right ? 0 : 1;
}
