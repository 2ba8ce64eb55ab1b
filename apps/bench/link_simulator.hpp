#pragma once

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "os/fd.hpp"

namespace tutti::bench {

/// The links of the hosts to a switch that joins them.
struct LinkShape {
  std::string text;                   ///< "1Gbit,1ms"
  double bytes_per_second = 0;        ///< each way
  std::chrono::nanoseconds delay{0};  ///< one way, from host to host
};

/// Of "1Gbit,1ms": bits per second with K, M or G; us, ms or s. Throws std::invalid_argument.
LinkShape parse_link_shape(const std::string& text);

/// A switch with slow links, for which no kernel module is needed. Joins a tun device "e0" in each
/// of some network namespaces, until it goes.
class LinkSimulator {
 public:
  /// Packets to address x.x.x.k go to the k-th namespace, counted from 1. Throws
  /// std::runtime_error.
  LinkSimulator(const std::vector<std::string>& namespaces, const LinkShape& shape);
  LinkSimulator(const LinkSimulator&) = delete;
  LinkSimulator& operator=(const LinkSimulator&) = delete;
  ~LinkSimulator();

 private:
  std::vector<os::Fd> devices_;
  std::atomic<bool> ended_ = false;
  std::thread thread_;
};

}  // namespace tutti::bench
