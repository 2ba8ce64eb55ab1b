// One rank, or another process, of the tests that start processes: rank_worker MODE ARGUMENTS...
// Lines on standard output tell the test what happened (speak.hpp).

#include "modes.hpp"
#include "speak.hpp"

int main(int argc, char** argv) {
  using namespace tutti::fault;
  Arguments arguments;
  if (argc > 1) arguments = {argv[1], {argv + 2, argv + argc}};
  try {
    for (const auto run : {run_fault_mode, run_fork_mode, run_operation_mode, run_meeting_mode})
      if (const std::optional<int> code = run(arguments)) return *code;
  } catch (const tutti::Error& error) {
    return tell(error);
  }
  std::fprintf(stderr, "no mode \"%s\"\n", arguments.mode.c_str());
  return 2;
}
