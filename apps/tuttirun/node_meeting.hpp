#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include <tutti/error.hpp>
#include <tutti/store.hpp>

#include "options.hpp"
#include "record/start_watch.hpp"

namespace tutti::launcher {

/// Where the store that the launchers share tells which node it has refused.
inline constexpr std::string_view kRefusedKey = "tuttirun/refused";

/// Makes this launcher one of the nodes of a job: gives it a number, compares what all were started
/// with, and waits until all have come.
class NodeMeeting {
 public:
  /// `why_serving`: on the node that serves, for error texts.
  NodeMeeting(const Options& options, std::string why_serving);

  /// `number`: ours, if it is known; otherwise the store counts the nodes that come, from 1.
  /// Returns ours, with wills for the first start. Errors: refused: what speaks against this node.
  Result<int> join(TcpStore& store, std::optional<int> number) const;
  /// Until all have come or `start` has a verdict, which it gets here when a node has not come by
  /// then. A worker may fail, and all start again, before all nodes have come. The node with number
  /// 0 tells `watch` who is missing.
  void await_all(TcpStore& store, int number, int start,
                 std::chrono::steady_clock::time_point come_by, record::StartWatch& watch) const;
  /// On the node that serves, when the job has ended: a node that was started with the others may
  /// dial a moment later, and still hear of that.
  void await_late(TcpStore& store) const;
  [[nodiscard]] int nnodes() const noexcept { return nnodes_; }
  [[nodiscard]] std::chrono::milliseconds join_timeout() const noexcept { return join_timeout_; }

 private:
  /// The objection to what this node was started with, which must be the same on all.
  [[nodiscard]] std::string compare_settings(TcpStore& store, int number) const;
  /// Waits for an answer of the store, and tells `watch` if there is none.
  [[nodiscard]] static bool have_all_come(TcpStore& store, int number, record::StartWatch& watch);
  /// "node 1 of 2"; empty: all have come.
  [[nodiscard]] std::string missing_nodes(TcpStore& store) const;
  /// "; ..." for the error of nodes that have not come; empty: nothing more is known.
  [[nodiscard]] std::string why_missing(TcpStore& store) const;

  int nnodes_;
  int max_restarts_;
  std::chrono::milliseconds join_timeout_;
  std::string why_serving_;
  std::uint64_t digest_;  ///< of what all nodes must be started with
  std::string settings_;  ///< the same for people, without the arguments of the program
};

}  // namespace tutti::launcher
