#pragma once

#include <filesystem>
#include <stdexcept>

#include "apps/bench/library.hpp"
#include "os/process.hpp"

/// Starting programs and leaving none behind.
namespace tutti::bench {

/// Ctrl-C or SIGTERM came; everything unwinds and ends what it started.
struct Interrupted : std::runtime_error {
  Interrupted() : std::runtime_error("interrupted") {}
};

/// Once, in a process that does nothing else: SIGINT, SIGTERM and SIGHUP from now on only leave a
/// mark, and descendants that lose their parent become our children.
void prepare_process();
/// The mark is there.
bool interrupted() noexcept;
/// Throws Interrupted once the mark is there.
void check_interrupt();

/// Starts it as the leader of a new process group, with TMPDIR=directory, its output going to
/// `log`. Throws std::runtime_error.
os::Process start_program(const Program& program, const std::filesystem::path& directory,
                          const std::filesystem::path& log);

/// Ends and collects all children of this process. For the end, when none should be left.
void end_orphans() noexcept;

}  // namespace tutti::bench
