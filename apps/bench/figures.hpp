#pragma once

#include <cstdint>
#include <optional>

#include "apps/bench/measure.hpp"

/// The columns of OSU's micro-benchmarks and of nccl-tests, computed from the times of a run.
namespace tutti::bench {

/// Of one library at one point. Times are seconds, bandwidths bytes per second.
struct Figures {
  /// OSU (osu_allreduce -f): what a call takes a rank on average; the mean over the ranks, the
  /// fastest and the slowest rank. Medians over the rounds.
  double avg = 0;
  double min = 0;
  double max = 0;
  /// OSU (-z): percentiles of single calls, each the mean over the ranks. None: no call was timed
  /// by itself.
  std::optional<double> p50;
  std::optional<double> p99;
  /// Context switches of a rank in a call: it gave its core up, or lost it.
  double voluntary = 0;
  double involuntary = 0;
  /// nccl-tests: bytes of the operation / avg. None: it moves no data.
  std::optional<double> algbw;
  /// nccl-tests (doc/PERFORMANCE.md): algbw * bus_factor. None: nccl-tests has no such operation.
  std::optional<double> busbw;
};

/// None: it was not measured, or it failed.
std::optional<Figures> figures_of(const Point& point, const Series& series);

/// Elements (float32) of a buffer or block of so many bytes.
std::uint64_t element_count(const Point& point);

/// The size S of nccl-tests: the buffer of an operation whose ranks have equal buffers, the blocks
/// of all ranks together where they have blocks. send_recv goes there and back, so it is twice the
/// buffer; of send_window it is all its messages.
std::uint64_t bytes_moved(Operation operation, std::uint64_t bytes, int ranks);

/// What nccl-tests multiply algbw with, so that busbw can be compared with the speed of the links,
/// whatever the number of ranks.
std::optional<double> bus_factor(Operation operation, int ranks);

}  // namespace tutti::bench
