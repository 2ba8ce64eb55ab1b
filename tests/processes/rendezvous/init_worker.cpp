// One rank: init_worker URL|env RANK|- SIZE|- SECONDS ROUNDS. Joins the job, sends to
// the last rank and adds up all ranks, as often as told. Lines as processes/fault/job.hpp reads
// them.

#include <time.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <tutti/tutti.hpp>

namespace {

void say(const char* word, const std::string& text) {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  std::printf("%s %lld %s\n", word,
              static_cast<long long>(time.tv_sec) * 1'000'000'000 + time.tv_nsec, text.c_str());
  std::fflush(stdout);
}

std::optional<int> number(const std::string& text) {
  return text == "-" ? std::nullopt : std::optional<int>(std::stoi(text));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) return 2;
  tutti::InitOptions options;
  if (std::string(argv[1]) != "env") options.init_method = argv[1];
  options.rank = number(argv[2]);
  options.size = number(argv[3]);
  options.timeout = std::chrono::milliseconds(static_cast<long>(1000 * std::stod(argv[4])));
  say("start", "");
  try {
    for (int round = 0; round < std::stoi(argv[5]); ++round) {
      auto world = tutti::init_process_group(options);
      std::vector<int> one{world.rank() + 1};
      // First towards one rank only, which so is dialled by each other that does not share memory.
      const int last = world.size() - 1;
      std::vector<int> other{0};
      for (int rank = 0; world.rank() == last && rank < last; ++rank) world.recv(other, rank);
      if (world.rank() != last) world.send(one, last);
      world.all_reduce(one).wait();
      if (one[0] != world.size() * (world.size() + 1) / 2) return 4;
    }
  } catch (const tutti::Error& error) {
    say("error", std::string(to_string(error.code())) + " " + error.what());
    return 3;
  }
  say("done", "");
  return 0;
}
