// One rank of the tests that go over every operation. Modes stand in `main`; lines on standard
// output as in fault_worker.cpp.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "speak.hpp"
#include "support/operations.hpp"

namespace {

using namespace tutti;
using test::Operation;

/// The bytes that all ranks give to an operation, again and again. MAX leaves them as they are.
std::string marker_of(const Operation& operation) {
  return "<marker of " + std::string(operation.name) + ">";
}

/// Each operation that moves elements, with its own marker in all that goes anywhere.
void markers(ProcessGroup& world) {
  for (const Operation& operation : test::all_operations()) {
    if (!has_data(operation.kind)) continue;
    for (const std::size_t count : {std::size_t{1000}, std::size_t{100'000}}) {
      const std::string marker = marker_of(operation);
      test::PreparedCall<std::uint8_t> call(
          test::plan_of(operation, {.count = count, .op = ReduceOp::max}, world.rank(),
                        world.size(), [&](int, std::size_t, std::size_t i) {
                          return static_cast<double>(marker[i % marker.size()]);
                        }));
      call.run(world);
      if (call.wrong() != 0) {
        std::fprintf(stderr, "wrong: %s\n", call.text().c_str());
        std::abort();
      }
    }
    if (world.rank() == 0) fault::say("marker", "%s", marker_of(operation).c_str());
  }
}

/// One operation again and again, until something breaks. A result that is wrong ends the process.
void repeat(ProcessGroup& world, const std::string& name, std::size_t count) {
  for (const Operation& operation : test::all_operations()) {
    if (operation.name != name) continue;
    for (int round = 0;; ++round) {
      const int root = round / 8 % world.size();  // stays a while: a root may run ahead
      test::PreparedCall<float> call(
          test::plan_of(operation, {.count = count, .root = root}, world.rank(), world.size()));
      call.run(world);
      if (call.wrong() == 0) continue;
      fault::say("wrong", "%s", call.text().c_str());
      std::_Exit(5);
    }
  }
}

int run(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  ProcessGroup world = init_process_group();
  fault::say("ready");
  try {
    if (mode == "markers")
      markers(world);
    else if (mode == "repeat" && argc > 3)
      repeat(world, argv[2], std::stoul(argv[3]));
    else
      return 2;
    world.barrier().wait();
  } catch (const Error& error) {
    return fault::tell(error);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const tutti::Error& error) {
    return tutti::fault::tell(error);
  }
}
