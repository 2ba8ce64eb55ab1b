#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

#include <tutti/store.hpp>

// Keys, all under "tuttirun", or "tuttirun/<start>" for the workers that were started again:
//   settings   of the first node that has come, which all must have (first start): a digest, then
//              what it was started with, for people
//   complete   all nodes have come (first start)
//   come       how many of them have come (first start)
//   refused    set by the store itself: the node that it has refused, and why
//   nodes      how many nodes without a number have come (first start)
//   nodes/<n>  how many nodes with this number have come (first start)
//   port       of the workers' store, told by the node that serves; "none": that start will not be
//   verdict    set once: how that start has ended
//   done       how many nodes are done
// The thread waits for one key at a time: verdict, the next start's port, its verdict, and so on.
// So a node that ends the job at a start that is still to come sets both, the verdict first.
namespace tutti::launcher {

inline constexpr std::string_view kVerdictKey = "/verdict";
inline constexpr std::string_view kPortKey = "/port";
inline constexpr std::string_view kNoPort = "none";
/// How long a node tries to tell the others something.
inline constexpr std::chrono::milliseconds kReportTimeout = std::chrono::seconds(5);
/// Shown of what another node says.
inline constexpr std::size_t kMostText = 1024;

/// The key under which the launchers tell each other `what` of a start.
[[nodiscard]] std::string key_of(int start, std::string_view what);

/// "node 1 (host-b)": a node of this number on this host.
[[nodiscard]] std::string name_of_node(int number);

/// How a start of the workers has ended, as the launchers tell each other.
struct Verdict {
  bool success = false;
  bool final = false;  ///< not to be started again, whatever --max-restarts says
  int exit_code = 1;
  int signal = 0;    ///< that has ended the job from outside, or 0
  std::string text;  ///< what failed, and where

  /// From what stands in the store.
  [[nodiscard]] static Verdict parse(std::string_view message);
  [[nodiscard]] bool ends_job() const noexcept { return success || final; }
};

/// The text in the store for a start that has failed, and the one for a start that has ended well.
[[nodiscard]] std::string message_of(int exit_code, std::string_view text, bool final);
inline constexpr std::string_view kDone = "done";
/// Before the text of one that a signal has ended, with the exit code 128 and its number.
inline constexpr std::string_view kBySignal = "signal: ";

/// Leaves with the store the text that the others read if node `number`, which is ours, is killed
/// during `start` or on the way to the next one.
void set_wills(TcpStore& store, int number, int start);
/// Takes those of the present start back.
void drop_wills(TcpStore& store, int start);

/// Puts it as the verdict of all starts from `start` to `last` that have none. Returns what stands
/// as that of `start`: the message, or what came before it.
std::string put_end(TcpStore& store, const std::string& message, int start, int last);

}  // namespace tutti::launcher
