#include "node_meeting.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/deadline.hpp"
#include "base/fnv.hpp"
#include "base/format.hpp"
#include "base/index.hpp"
#include "base/shown.hpp"
#include "os/host.hpp"
#include "verdict.hpp"

namespace tutti::launcher {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view kNodesKey = "/nodes";
constexpr std::string_view kSettingsKey = "/settings";
constexpr std::string_view kComeKey = "/come";
constexpr std::string_view kCompleteKey = "/complete";
constexpr std::string_view kOwnPort =
    "; if they are another job's, give each job a port of its own";
// How often a node looks whether all have come.
constexpr auto kLook = 1s;
constexpr auto kLateNodes = 1s;
constexpr int kNamesShown = 16;
constexpr std::size_t kMostProgram = 256;  // shown of a program

/// --nnodes and --nproc-per-node. Where the job has no name, also the program and its arguments, so
/// that two jobs that meet by mistake are told apart. Arguments may hold secrets and cross the
/// network in clear, so only their digest does.
std::string settings_of(const Options& options) {
  std::string text =
      base::format("--nnodes {} --nproc-per-node {}", options.nnodes, options.nproc_per_node);
  if (!options.job_id.empty() || options.program.empty()) return text;
  if (options.runner == Runner::module) text += " -m";
  text += " " + base::shown_words(options.program.front(), kMostProgram);
  std::string arguments;
  for (const std::string& word : std::span(options.program).subspan(1)) arguments += word + '\0';
  if (!arguments.empty())
    text += base::format(" and arguments with the digest {:016x}", base::fnv_of(arguments));
  return text;
}

std::vector<std::string> keys_of_nodes(int nnodes) {
  std::vector<std::string> keys;
  for (int number = 0; number < nnodes; ++number)
    keys.push_back(base::format("{}/{}", key_of(0, kNodesKey), number));
  return keys;
}

}  // namespace

NodeMeeting::NodeMeeting(const Options& options, std::string why_serving)
    : nnodes_(options.nnodes),
      max_restarts_(options.max_restarts),
      join_timeout_(options.join_timeout),
      why_serving_(std::move(why_serving)) {
  settings_ = settings_of(options);
  digest_ = base::fnv_of(settings_);
}

Result<int> NodeMeeting::join(TcpStore& store, std::optional<int> number) const {
  // The node that serves is number 0.
  const std::string nodes = key_of(0, kNodesKey);
  if (!number) number = static_cast<int>(store.add(nodes, 1));
  if (std::string other = compare_settings(store, *number); !other.empty())
    return Outcome(Errc::refused, std::move(other));
  if (*number >= nnodes_) {
    return Outcome(
        Errc::refused,
        base::format("{} nodes have come already, as many as --nnodes says{}", nnodes_, kOwnPort));
  }
  // Before the others take this node for one that has come.
  set_wills(store, *number, 0);
  if (store.add(base::format("{}/{}", nodes, *number), 1) > 1) {
    drop_wills(store, 0);  // the job goes on without this one
    return Outcome(
        Errc::refused,
        base::format(
            "a node with --node-rank {} has come already; give each its own, from 0 to {}{}",
            *number, nnodes_ - 1, kOwnPort));
  }
  if (store.add(key_of(0, kComeKey), 1) == nnodes_) store.set(key_of(0, kCompleteKey), "1");
  return *number;
}

bool NodeMeeting::have_all_come(TcpStore& store, int number, record::StartWatch& watch) {
  while (true) {
    try {
      return store.check(key_of(0, kCompleteKey), kLook);
    } catch (const TimeoutError&) {
      watch.waits_for("an answer of " + store.describe());
      if (watch.is_due())
        watch.log("tuttirun on " + name_of_node(number),
                  store.describe() +
                      " does not answer; look whether tuttirun on node 0 is "
                      "stopped, or the network cut");
    }
  }
}

void NodeMeeting::await_all(TcpStore& store, int number, int start,
                            std::chrono::steady_clock::time_point come_by,
                            record::StartWatch& watch) const {
  const std::string verdict = key_of(start, kVerdictKey);
  watch.waits_for("the other nodes");
  while (!have_all_come(store, number, watch)) {
    const auto left = base::left_until(come_by);
    const bool over = left == left.zero();
    // The node with the store tells who is missing, at the end each does.
    const std::string missing = over || number == 0 ? missing_nodes(store) : std::string();
    const std::string not_come =
        base::format("{} {} not come", missing, missing.starts_with("nodes") ? "have" : "has");
    if (over && !missing.empty()) {
      const std::string text = base::format(
          "{} within {:.0f} s; start tuttirun there, too, with the same --nnodes, --master-addr, "
          "--master-port and --secret-file{}",
          not_come, std::ceil(std::chrono::duration<double>(join_timeout_).count()),
          why_missing(store));
      put_end(store, message_of(1, text, true), start, std::max(start, max_restarts_) + 1);
    }
    if (over) break;
    if (!missing.empty()) {
      watch.waits_for(missing);
      if (watch.is_due())
        watch.log("tuttirun on " + name_of_node(0), not_come + "; start tuttirun there, too");
    }
    try {
      store.wait({verdict}, std::min<std::chrono::milliseconds>(left, kLook));
      break;
    } catch (const TimeoutError&) {
      // Perhaps a node has come.
    }
  }
  watch.end();
}

void NodeMeeting::await_late(TcpStore& store) const {
  try {
    store.wait({key_of(0, kCompleteKey)}, kLateNodes);
  } catch (const std::exception&) {
    // A node that comes later finds nobody, and says so.
  }
}

std::string NodeMeeting::missing_nodes(TcpStore& store) const {
  const std::vector<std::string> keys = keys_of_nodes(nnodes_);
  std::string names;
  int missing = 0;
  for (int number = 0; number < nnodes_; ++number) {
    if (store.check(base::at(keys, number))) continue;
    if (++missing <= kNamesShown) names += base::format("{}{}", missing == 1 ? "" : ", ", number);
  }
  if (missing == 0) return {};
  if (missing > kNamesShown) names += base::format(" and {} more", missing - kNamesShown);
  return base::format("{} {} of {}", missing == 1 ? "node" : "nodes", names, nnodes_);
}

std::string NodeMeeting::why_missing(TcpStore& store) const {
  std::string why;
  if (store.check(kRefusedKey)) why = "; " + base::shown_on_line(store.get(kRefusedKey), kMostText);
  if (!why_serving_.empty())
    why += base::format("; node 0 is host {}, as {}", os::host_name(), why_serving_);
  return why;
}

std::string NodeMeeting::compare_settings(TcpStore& store, int number) const {
  const std::string digest = base::format("{:016x} ", digest_);
  const std::string first =
      store.compare_set(key_of(0, kSettingsKey), "",
                        base::format("{}{} on {}", digest, settings_, name_of_node(number)));
  if (first.starts_with(digest)) return {};
  const std::string theirs =
      base::shown_on_line(first.substr(std::min(digest.size(), first.size())), kMostText);
  if (store.check(key_of(0, kCompleteKey))) {
    return base::format("another job has this address and port: {}, and all its nodes have come{}",
                        theirs, kOwnPort);
  }
  const std::string objection = base::format(
      "{} was started with {}, but it is {}; give all nodes the same, and each job a port of "
      "its own; only nodes of a job with a name (--rdzv-id) may have other programs or arguments",
      name_of_node(number), settings_, theirs);
  // The others would wait for this node, or for ranks that will never be.
  put_end(store, message_of(1, objection, true), 0, max_restarts_ + 1);
  return objection;
}

}  // namespace tutti::launcher
