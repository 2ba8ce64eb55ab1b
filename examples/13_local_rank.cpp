// A program for the launcher that takes its local rank either way: from the environment, or from an
// argument, as programs of torch.distributed.launch's time do, whose launcher spelled it with a
// dash or an underscore.
//
//   tuttirun --nproc-per-node 3 13_local_rank
//   tuttirun --pass-local-rank --nproc-per-node 3 13_local_rank    # gets --local-rank=K
//   tuttirun --pass-local-rank --nproc_per_node 3 13_local_rank    # gets --local_rank=K
//
// The local rank counts the processes of one host. It says which GPU or which cores are ours, one
// process for each. It never decides who writes a file that all hosts share: there is a local rank
// 0 on every host. That is rank 0's work.

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <tutti/tutti.hpp>

namespace {

struct LocalRank {
  int number = 0;
  const char* from = "";
};

std::optional<LocalRank> local_rank(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    for (const std::string_view option : {"--local-rank=", "--local_rank="}) {
      if (argument.starts_with(option))
        return LocalRank{std::atoi(argv[i] + option.size()), "argument"};
    }
  }
  // Of tuttirun; of the mpirun of Open MPI; of that of MPICH and Intel MPI.
  for (const char* const name : {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID"}) {
    if (const char* const text = std::getenv(name))
      return LocalRank{std::atoi(text), "environment"};
  }
  return std::nullopt;
}

}  // namespace

int main(int argc, char** argv) {
  const std::optional<LocalRank> local = local_rank(argc, argv);
  if (!local) {
    std::fprintf(stderr, "no local rank: start this program with tuttirun\n");
    return 2;
  }
  tutti::ProcessGroup world = tutti::init_process_group();
  std::printf("rank %d takes device %d (told by the %s)\n", world.rank(), local->number,
              local->from);

  // On one host every local rank is there once.
  const int mine[] = {local->number};
  std::vector<int> all(static_cast<std::size_t>(world.size()));
  world.all_gather(all, mine).wait();
  int right = 0;
  for (int rank = 0; rank < world.size(); ++rank)
    right += all[static_cast<std::size_t>(rank)] == rank ? 1 : 0;

  // --expect WHERE: for the tests of this example.
  for (int i = 1; i + 1 < argc; ++i) {
    if (std::string_view(argv[i]) == "--expect" && std::string_view(argv[i + 1]) != local->from)
      return 3;
  }
  return right == world.size() ? 0 : 1;
}
