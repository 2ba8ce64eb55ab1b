#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "apps/bench/measure.hpp"

namespace tutti::cli {

/// The command line of `tutti bench`: its options, and the measurements that they ask for.
struct BenchOptions {
  /// Adds every option, to be read into this object.
  void add_to(CLI::App& command);
  /// The operations, sizes and rounds that are measured; not by whom.
  [[nodiscard]] bench::Settings measured_settings() const;
  /// With the libraries and numbers of ranks that are started here.
  [[nodiscard]] bench::Settings settings() const;

  std::vector<std::string> operations{"all_reduce"};
  std::vector<int> ranks{2, 8};
  int hosts = 1;
  std::string network;  // empty: not given
  std::string hogs;     // empty: none
  std::string begin = "8";
  std::string end = "64M";
  std::uint64_t factor = 8;
  bool range_given = false;  ///< begin, end or factor was given, so `sizes` does not count
  std::vector<std::string> sizes{"8", "4K", "256K", "16M"};
  std::vector<std::string> against;
  bool without_ours = false;
  std::string backend;  // empty: not given
  std::string mpi;
  std::string device = "cpu";
  std::string against_build;
  int pairs = 11;
  int rounds = 5;
  int budget_ms = 60;
  std::string mode = "loop";
  std::string json;
  std::string csv;
  std::string html;
  int timeout_s = 30;
  std::string programs;
};

}  // namespace tutti::cli
