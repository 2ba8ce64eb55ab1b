#pragma once

#include <gtest/gtest.h>

#include <any>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <optional>
#include <ostream>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <tutti/tutti.hpp>

#include "unit/child.hpp"
#include "unit/group/error_text.hpp"

namespace tutti::test {

/// How the ranks of a world are made. All of them promise the same.
struct Arrangement {
  using Body = std::function<void(ProcessGroup& world)>;

  std::string name;  ///< for GoogleTest: letters and digits
  int size = 1;
  /// Makes a world and runs the body on each of its ranks that are in this process.
  std::function<void(const Body& body)> run;
  /// Its name in the list of backends, where it says what it promises.
  std::string backend = "native";
  /// A device of whose tensors this backend takes none; absent: it takes those of all.
  std::optional<Device> foreign = Device{DeviceType::cuda, 1};
  /// Operations that it has not.
  std::vector<Kind> lacks = {};
  /// A message of so many bytes waits for its recv.
  std::size_t waiting_message = std::size_t{32} << 20;
  /// Its MPI may take a message of any length though there is no recv.
  std::function<bool()> takes_any_message = [] { return false; };
};

inline void PrintTo(const Arrangement& one, std::ostream* out) { *out << one.name; }

inline std::string name_of(const testing::TestParamInfo<Arrangement>& one) {
  return one.param.name;
}

/// Those of at least two ranks.
inline std::vector<Arrangement> of_several(std::vector<Arrangement> all) {
  std::erase_if(all, [](const Arrangement& one) { return one.size < 2; });
  return all;
}

/// An operation that takes so long hangs: its error ends the test.
inline constexpr auto kForever = std::chrono::seconds(60);

/// No operation times out, however slow the machine is.
inline Config patient(std::string_view backend = "auto") {
  Config config;
  config.timeout = kForever;
  config.backend = backend;
  return config;
}

/// The ranks after and before this one, in a ring.
inline int after(const ProcessGroup& world) { return (world.rank() + 1) % world.size(); }
inline int before(const ProcessGroup& world) {
  return (world.rank() + world.size() - 1) % world.size();
}

/// Waits for a condition. False: it has not come true for as long as an operation may take.
template <class Condition>
[[nodiscard]] bool comes_true(Condition&& condition) {
  const auto until = std::chrono::steady_clock::now() + kForever;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return true;
}

/// Waits until another rank has broken the group; false: none has.
[[nodiscard]] inline bool breaks_soon(ProcessGroup& group) {
  return comes_true([&] { return !group.health().ok(); });
}

/// Meets the other ranks. Rank 0 may break the group while another one still waits for the end.
inline void meet(ProcessGroup& group) {
  try {
    group.barrier().wait();
  } catch (const BackendError&) {
    if (group.rank() == 0) throw;
  }
}

/// The error of this class that the function ends with; without an error the test fails.
template <class E, class Function>
[[nodiscard]] Outcome error_of(Function&& function) {
  try {
    function();
  } catch (const E& error) {
    return error.status();
  }
  ADD_FAILURE() << "no error";
  return {};
}

/// Calls the function in a forked child, and waits for the child. 0: the function has ended with an
/// error that speaks of the fork.
template <class Function>
[[nodiscard]] int status_of_fork(const Function& function) {
  return end_of(start_child([&] {
    const std::string text = text_of<Error>(function);
    if (text.find("fork") == std::string::npos) throw std::runtime_error(text);
  }));
}

/// A number that a variable of the environment holds.
inline int number_of(const char* variable, int otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::atoi(text);
}

/// The world of a launcher's ranks, made anew for each body.
inline void run_launched(Config config, const Arrangement::Body& body) {
  config.timeout = kForever;
  ProcessGroup world = init_process_group({.config = std::move(config)});
  body(world);
  // A rank that is ahead must not end before the others have what they wait for.
  if (world.health().ok()) world.barrier().wait();
}

/// A world of a launcher's ranks. `backend`: "" is the one that the launcher's environment names or
/// a world gets by itself. `change`: what else stands in the config.
inline Arrangement launched_arrangement(std::string name, std::string_view backend = {},
                                        std::function<void(Config&)> change = {}) {
  Arrangement one;
  one.name = std::move(name);
  one.size = number_of("WORLD_SIZE", 1);
  if (!backend.empty()) one.backend = backend;
  one.run = [backend = std::string(backend),
             change = std::move(change)](const Arrangement::Body& body) {
    Config config = Config::from_environment().value();
    if (!backend.empty()) config.backend = backend;
    if (change) change(config);
    run_launched(config, body);
  };
  return one;
}

/// How many ranks an mpirun has started; 0: none has.
inline int ranks_of_mpirun() {
  for (const char* const name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}) {
    if (const char* const size = std::getenv(name)) return std::atoi(size);
  }
  return 0;
}

/// The world of this process, on the backend of its launcher if none is given.
inline ProcessGroup launched_world(std::string backend = ranks_of_mpirun() > 0 ? "mpi" : "native",
                                   std::chrono::nanoseconds timeout = kForever,
                                   std::any options = {}) {
  Config config = Config::from_environment().value();
  config.timeout = timeout;
  config.backend = std::move(backend);
  return init_process_group({.config = config, .backend_options = std::move(options)});
}

}  // namespace tutti::test
