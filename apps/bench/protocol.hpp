#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "apps/bench/operations.hpp"

/// The messages between the harness and the ranks of a measured library, over a unix socket. Every
/// rank of every library has a connection of its own and sleeps in recv() between commands, so that
/// all libraries are alive at once while one measures. Both ends come from the same build, or from
/// two (`--against-build`) whose kMagic is the same.
namespace tutti::bench {

/// Begins every message. The last byte is the version: raise it when the number of an operation or
/// task changes, or a struct below otherwise than by a field that was zero before.
constexpr std::uint32_t kMagic = 0x74756263;

constexpr bool is_other_version(std::uint32_t magic) {
  return magic != kMagic && magic >> 8 == kMagic >> 8;
}

enum class Task : std::uint32_t {
  loop,    ///< calls back to back; the answer holds the time of all of them together
  sync,    ///< the library's barrier before each call; the answer holds the time of each
  verify,  ///< one call, result compared with what it must be, element by element
  quit,
};

/// To a rank.
struct Command {
  std::uint32_t magic = kMagic;
  Task task = Task::quit;
  std::uint32_t operation = 0;  ///< number_of
  /// loop: each such call is timed by itself as well; 0: none. sync: so many microseconds after
  /// rank 0 has left the barrier all ranks begin together, by one clock; 0: each as it leaves.
  std::uint32_t parameter = 0;
  std::uint64_t bytes = 0;
  std::uint64_t warmup = 0;
  std::uint64_t iterations = 0;
};

/// First thing that a rank says.
struct Hello {
  std::uint32_t magic = kMagic;
  std::int32_t rank = 0;
  std::int32_t size = 0;
  char title[116] = {};  ///< name and version, ends with a zero
};

/// From a rank to every command but quit, followed by `samples` doubles.
struct Answer {
  std::uint32_t magic = kMagic;
  std::uint32_t ok = 0;
  double seconds = 0;          ///< loop: all timed calls together
  double rewrite_seconds = 0;  ///< part of `seconds` in which the input was written anew
  std::uint64_t involuntary_switches = 0;  ///< how often somebody else took the core meanwhile
  /// sync: seconds of each call. loop: of those that were timed by themselves. verify of a barrier:
  /// time of entering and leaving, for each call.
  std::uint64_t samples = 0;
  char message[112] = {};                ///< what is wrong, if not ok; ends with a zero
  std::uint64_t voluntary_switches = 0;  ///< how often it gave its core up meanwhile
};

static_assert(std::is_trivially_copyable_v<Command> && std::is_trivially_copyable_v<Hello> &&
              std::is_trivially_copyable_v<Answer>);

/// From here on the time to write the input anew is measured and taken off; below it is a few
/// nanoseconds, less than two readings of the clock.
constexpr std::uint64_t kTimedRewriteBytes = 4096;

/// Sends or receives all bytes. False: the other end is gone.
bool send_all(int fd, const void* data, std::size_t bytes);
bool receive_all(int fd, void* data, std::size_t bytes);

}  // namespace tutti::bench
