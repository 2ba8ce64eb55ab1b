#include "nodes.hpp"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <csignal>
#include <string_view>

#include "base/deadline.hpp"
#include "base/fnv.hpp"
#include "base/index.hpp"
#include "base/shown.hpp"
#include "os/host.hpp"
#include "store/served.hpp"
#include "store/tcp_store.hpp"

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
namespace {

using namespace std::chrono_literals;

constexpr std::string_view kVerdictKey = "/verdict";
constexpr std::string_view kDoneKey = "/done";
constexpr std::string_view kNodesKey = "/nodes";
constexpr std::string_view kSettingsKey = "/settings";
constexpr std::string_view kComeKey = "/come";
constexpr std::string_view kCompleteKey = "/complete";
constexpr std::string_view kPortKey = "/port";
constexpr std::string_view kFinal = "final ";
constexpr std::string_view kBySignal = "signal: ";  // before the text
constexpr std::string_view kNoPort = "none";
constexpr std::string_view kOwnPort =
    "; if they are another job's, give each job a port of its own";
constexpr std::chrono::milliseconds kReportTimeout = 5s;
constexpr auto kGoodByeTimeout = 250ms;
// How often a node looks whether all have come.
constexpr auto kLook = 1s;
constexpr int kNamesShown = 16;
// A node that was started with the others may dial a moment later. If the job has failed by then,
// it still hears of that.
constexpr auto kLateNodes = 1s;
// A signal may come while this node joins the others, which shall hear of it. Where it has not
// reached the store, nobody waits.
constexpr auto kJoinFirst = 1s;
// A job may run for as long as it likes; this outlives every machine.
constexpr auto kForever = std::chrono::hours(24 * 365);

constexpr std::size_t kMostText = 1024;    // shown of what another node says
constexpr std::size_t kMostProgram = 256;  // shown of a program and its arguments

std::string key_of(int start, std::string_view what) {
  return start == 0 ? fmt::format("tuttirun{}", what) : fmt::format("tuttirun/{}{}", start, what);
}

std::string message_of(int exit_code, std::string_view text, bool final) {
  return fmt::format("{}{} {}", final ? kFinal : "", exit_code, text);
}

Nodes::Verdict parse_verdict(std::string_view text) {
  Nodes::Verdict verdict;
  if (text == "done") {
    verdict.success = true;
    return verdict;
  }
  if (text.starts_with(kFinal)) {
    verdict.final = true;
    text.remove_prefix(kFinal.size());
  }
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), verdict.exit_code);
  if (error != std::errc() || verdict.exit_code < 1 || verdict.exit_code > 255)
    verdict.exit_code = 1;
  std::string_view rest(end, static_cast<std::size_t>(text.data() + text.size() - end));
  rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
  if (rest.starts_with(kBySignal)) {
    rest.remove_prefix(kBySignal.size());
    const int signal = verdict.exit_code - 128;
    verdict.signal = signal > 0 && signal < NSIG ? signal : SIGTERM;
  }
  // Any process that reaches the store may have written it, and it is printed.
  verdict.text = base::shown_on_line(rest, kMostText);
  return verdict;
}

/// Leaves the server and ends the calls of all threads.
void hang_up(const TcpStore& store) {
  if (const auto served = store.served())
    served->client->leave(TcpStore::Clock::now() + kGoodByeTimeout);
}

/// The settings of a node: --nnodes and --nproc-per-node. Where the job has no name, also the
/// program and its arguments, so that two jobs that meet by mistake are told apart.
std::string settings_of(const Options& options) {
  std::string text =
      fmt::format("--nnodes {} --nproc-per-node {}", options.nnodes, options.nproc_per_node);
  if (!options.job_id.empty()) return text;
  if (options.runner == Runner::module) text += " -m";
  for (const std::string& word : options.program) text += " " + word;
  return text;
}

std::string unreachable(const std::exception& error) {
  return fmt::format("tuttirun on node 0 cannot be reached: {}", error.what());
}

std::vector<std::string> keys_of_nodes(int nnodes) {
  std::vector<std::string> keys;
  for (int number = 0; number < nnodes; ++number)
    keys.push_back(fmt::format("{}/{}", key_of(0, kNodesKey), number));
  return keys;
}

bool ends_job(const Nodes::Verdict& verdict) { return verdict.success || verdict.final; }

}  // namespace

Nodes::Nodes(const Options& options, TcpStoreOptions store, std::optional<int> node_rank,
             std::string why_serving, std::function<void()> on_news) {
  state_->nnodes = options.nnodes;
  const std::string settings = settings_of(options);
  state_->digest = base::fnv_of(settings);
  state_->settings = base::shown_on_line(settings, kMostProgram);
  state_->why_serving = std::move(why_serving);
  state_->max_restarts = options.max_restarts;
  state_->join_timeout = options.join_timeout;
  state_->stall_warning = options.stall_warning;
  state_->done_timeout = std::max(kReportTimeout, options.link_timeout);
  state_->node_rank = node_rank;
  state_->on_news = std::move(on_news);
  thread_ = std::thread([state = state_, store = std::move(store)] { run(*state, store); });
  pthread_setname_np(thread_.native_handle(), "tuttirun-nodes");
}

Nodes::~Nodes() {
  bool over = false;
  std::shared_ptr<TcpStore> store;
  {
    std::unique_lock lock(state_->mutex);
    state_->on_news = nullptr;
    // The node that serves hears at once what it has put, and then waits for late ones.
    if (state_->store && state_->node_rank == 0)
      state_->settled.wait_for(lock, kLateNodes, [&] { return state_->over; });
    over = state_->over;
    store = state_->store;
  }
  // The thread may still wait for the verdict that this node has put itself: the lost connection
  // ends that. It must not outlive main(): it would use libraries that have been taken down.
  if (store) hang_up(*store);
  if (over || store)
    thread_.join();
  else
    thread_.detach();
}

void Nodes::run(State& state, const TcpStoreOptions& options) {
  std::string objection;
  record::StartWatch watch(state.stall_warning, /*shown=*/true);
  watch.show(std::nullopt, state.nnodes, os::host_name());
  const store::OnWait on_wait = [&](const std::string& why) {
    watch.waits_for(why);
    if (watch.is_due()) watch.log("tuttirun", why + "; start tuttirun there, too");
  };
  try {
    const std::shared_ptr<TcpStore> store = store::make_tcp_store(options, on_wait);
    {
      const std::lock_guard lock(state.mutex);
      state.reached = true;
    }
    objection = follow(state, store, watch);
  } catch (const NetworkError& error) {
    objection = error.code() == Errc::refused ? error.what() : unreachable(error);
  } catch (const std::exception& error) {
    objection = unreachable(error);
  }
  if (!objection.empty()) publish(state, {.final = true, .text = objection});
}

std::string Nodes::follow(State& state, const std::shared_ptr<TcpStore>& store,
                          record::StartWatch& watch) {
  std::string objection = join(state, store);
  for (int start = 0; objection.empty(); ++start) {
    if (start > 0) objection = await_port(state, *store, start);
    if (!objection.empty()) break;
    Verdict verdict = parse_verdict(start == 0 ? await_first_verdict(state, *store, watch)
                                               : store->get(key_of(start, kVerdictKey), kForever));
    const bool last = ends_job(verdict);
    publish(state, std::move(verdict));
    if (last) break;
  }
  if (objection.empty()) await_late_nodes(state, *store);
  return objection;
}

bool Nodes::is_first(const State& state) {
  const std::lock_guard lock(state.mutex);
  return state.node_rank == 0;
}

void Nodes::await_late_nodes(const State& state, TcpStore& store) {
  if (!is_first(state)) return;
  const std::vector<std::string> keys = keys_of_nodes(state.nnodes);
  try {
    store.wait(keys, kLateNodes);
  } catch (const std::exception&) {
    // A node that comes later finds nobody, and says so.
  }
}

std::string Nodes::missing_nodes(const State& state, TcpStore& store) {
  const std::vector<std::string> keys = keys_of_nodes(state.nnodes);
  std::string names;
  int missing = 0;
  for (int number = 0; number < state.nnodes; ++number) {
    if (store.check(base::at(keys, number))) continue;
    if (++missing <= kNamesShown) names += fmt::format("{}{}", missing == 1 ? "" : ", ", number);
  }
  if (missing == 0) return {};
  if (missing > kNamesShown) names += fmt::format(" and {} more", missing - kNamesShown);
  return fmt::format("{} {} of {}", missing == 1 ? "node" : "nodes", names, state.nnodes);
}

std::string Nodes::why_missing(const State& state, TcpStore& store) {
  std::string why;
  if (store.check(kRefusedKey)) why = "; " + base::shown_on_line(store.get(kRefusedKey), kMostText);
  if (!state.why_serving.empty())
    why += fmt::format("; node 0 is host {}, as {}", os::host_name(), state.why_serving);
  return why;
}

std::string Nodes::await_first_verdict(const State& state, TcpStore& store,
                                       record::StartWatch& watch) {
  const std::vector<std::string> keys = keys_of_nodes(state.nnodes);
  const std::string verdict = key_of(0, kVerdictKey);
  const auto deadline = base::deadline_after(TcpStore::Clock::now(), state.join_timeout);
  watch.waits_for("the other nodes");
  while (!store.check(keys)) {
    const auto left = base::left_until(deadline);
    const bool over = left == left.zero();
    // The node with the store tells who is missing, at the end each does.
    const std::string missing =
        over || is_first(state) ? missing_nodes(state, store) : std::string();
    const std::string not_come =
        fmt::format("{} {} not come", missing, missing.starts_with("nodes") ? "have" : "has");
    if (over && !missing.empty()) {
      const std::string text = fmt::format(
          "{} within {:.0f} s; start tuttirun there, too, with the same --nnodes, --master-addr, "
          "--master-port and --secret-file{}",
          not_come, std::ceil(std::chrono::duration<double>(state.join_timeout).count()),
          why_missing(state, store));
      put_end(store, message_of(1, text, true), 0, state.max_restarts + 1);
    }
    if (over) break;
    if (!missing.empty()) {
      watch.waits_for(missing);
      if (watch.is_due()) watch.log("tuttirun on node 0", not_come + "; start tuttirun there, too");
    }
    try {
      return store.get(verdict, std::min<std::chrono::milliseconds>(left, kLook));
    } catch (const TimeoutError&) {
      // Perhaps a node has come.
    }
  }
  watch.end();
  return store.get(verdict, kForever);
}

std::string Nodes::join(State& state, const std::shared_ptr<TcpStore>& store) {
  std::optional<int> number;
  {
    const std::lock_guard lock(state.mutex);
    number = state.node_rank;
  }
  // The node that serves is number 0.
  const std::string nodes = key_of(0, kNodesKey);
  if (!number) number = static_cast<int>(store->add(nodes, 1));
  if (std::string other = compare_settings(state, *store, *number); !other.empty()) return other;
  if (*number >= state.nnodes)
    return fmt::format("{} nodes have come already, as many as --nnodes says{}", state.nnodes,
                       kOwnPort);
  if (store->add(fmt::format("{}/{}", nodes, *number), 1) > 1) {
    return fmt::format(
        "a node with --node-rank {} has come already; give each its own, from 0 to {}{}", *number,
        state.nnodes - 1, kOwnPort);
  }
  if (store->add(key_of(0, kComeKey), 1) == state.nnodes) store->set(key_of(0, kCompleteKey), "1");
  {
    const std::lock_guard lock(state.mutex);
    state.node_rank = number;
  }
  set_will(state, *store, 0);
  const std::lock_guard lock(state.mutex);
  state.store = store;
  state.settled.notify_all();
  state.ports = {0};
  if (state.on_news) state.on_news();
  return {};
}

std::string Nodes::compare_settings(const State& state, TcpStore& store, int number) {
  const std::string digest = fmt::format("{:016x} ", state.digest);
  const std::string first = store.compare_set(
      key_of(0, kSettingsKey), "", fmt::format("{}{} on node {}", digest, state.settings, number));
  if (first.starts_with(digest)) return {};
  const std::string theirs =
      base::shown_on_line(first.substr(std::min(digest.size(), first.size())), kMostText);
  if (store.check(key_of(0, kCompleteKey))) {
    return fmt::format("another job has this address and port: {}, and all its nodes have come{}",
                       theirs, kOwnPort);
  }
  const std::string objection = fmt::format(
      "node {} was started with {}, but it is {}; give all nodes the same, and each job a port of "
      "its own; only nodes of a job with a name (--rdzv-id) may have other programs or arguments",
      number, state.settings, theirs);
  // The others would wait for this node, or for ranks that will never be.
  put_end(store, message_of(1, objection, true), 0, state.max_restarts + 1);
  return objection;
}

std::string Nodes::await_port(State& state, TcpStore& store, int start) {
  set_will(state, store, start);
  // How long this may take, the job decides: it depends on how long other nodes' workers end.
  const std::string text = store.get(key_of(start, kPortKey), kForever);
  store.drop_will(key_of(start, kPortKey));
  if (text == kNoPort) return {};  // the verdict tells why
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || end != text.data() + text.size() || port == 0)
    return fmt::format("node 0 tells \"{}\" as the port of the restarted store",
                       base::shown_on_line(text, kMostText));
  const std::lock_guard lock(state.mutex);
  state.ports.push_back(port);
  if (state.on_news) state.on_news();
  return {};
}

void Nodes::set_will(const State& state, TcpStore& store, int start) {
  int number = 0;
  {
    const std::lock_guard lock(state.mutex);
    number = state.node_rank.value_or(0);
  }
  const std::string will = message_of(
      1,
      fmt::format("tuttirun on node {} has ended unexpectedly: it was killed, or its host is "
                  "gone",
                  number),
      true);
  // Before this start can have been judged: the next one's, too, or a launcher that is killed
  // between a failure and the restart would be missed by nobody.
  if (start == 0) store.set_will(key_of(start, kVerdictKey), will);
  store.set_will(key_of(start + 1, kVerdictKey), will);
  store.set_will(key_of(start + 1, kPortKey), kNoPort);
  if (start > 0) store.drop_will(key_of(start - 1, kVerdictKey));
}

void Nodes::publish(State& state, Verdict verdict) {
  const std::lock_guard lock(state.mutex);
  state.over = ends_job(verdict);
  if (state.over) state.store.reset();
  state.verdicts.push_back(std::move(verdict));
  state.settled.notify_all();
  if (state.on_news) state.on_news();
}

void Nodes::begin(int start, std::optional<std::uint16_t> workers_port) {
  std::shared_ptr<TcpStore> store;
  {
    const std::lock_guard lock(state_->mutex);
    state_->start = static_cast<std::size_t>(start);
    store = state_->store;
  }
  if (!workers_port || !store) return;
  try {
    store->compare_set(key_of(start, kPortKey), "", std::to_string(*workers_port), kReportTimeout);
  } catch (const std::exception&) {
    // As in report.
  }
}

std::string Nodes::put_end(TcpStore& store, const std::string& message, int start, int last) {
  std::string first;
  for (int at = start; at <= last; ++at) {
    const std::string stands =
        store.compare_set(key_of(at, kVerdictKey), "", message, kReportTimeout);
    if (at == start) first = stands;
    // Another node, as this one, may still wait for the port of the present start.
    if (at > 0) store.compare_set(key_of(at, kPortKey), "", kNoPort, kReportTimeout);
    if (ends_job(parse_verdict(stands))) break;
  }
  return first;
}

std::string Nodes::report(const std::string& message, bool final) {
  std::shared_ptr<TcpStore> store;
  int start = 0;
  {
    std::unique_lock lock(state_->mutex);
    if (state_->reached)
      state_->settled.wait_for(lock, kJoinFirst, [&] { return state_->store || state_->over; });
    store = state_->store;
    start = static_cast<int>(state_->start);
  }
  if (!store) return message;
  const std::string verdict = key_of(start, kVerdictKey);
  try {
    if (final) {
      // No more starts are judged than there can be.
      return put_end(*store, message, start, std::max(start, state_->max_restarts) + 1);
    }
    if (message != "done") return store->compare_set(verdict, "", message, kReportTimeout);
    // The last one ends the job, so each must know its number.
    if (store->add(key_of(start, kDoneKey), 1, state_->done_timeout) == state_->nnodes) {
      store->compare_set(verdict, "", message, state_->done_timeout);
    }
  } catch (const TimeoutError&) {
    // When the server goes on, it carries out the request, and then our wills, which also hold for
    // starts that are still to come.
    if (const auto served = store->served()) served->client->abandon();
  } catch (const std::exception&) {
    // The thread that waits for the verdict sees the same and tells.
  }
  return message;
}

void Nodes::report_done() { report("done", false); }

std::optional<Nodes::Verdict> Nodes::report_failure(int exit_code, const std::string& text,
                                                    bool final) {
  const std::string message = message_of(exit_code, text, final);
  const std::string stands = report(message, final);
  if (stands == message) {
    // The thread may have heard the verdict before we could ask for it.
    const std::lock_guard lock(state_->mutex);
    if (state_->over && !state_->verdicts.back().success &&
        state_->verdicts.back().text != parse_verdict(message).text)
      return state_->verdicts.back();
  }
  if (stands == message) return std::nullopt;
  Verdict first = parse_verdict(stands);
  return first.success ? std::nullopt : std::optional(std::move(first));
}

void Nodes::report_signal(int signal, const std::string& text) {
  report_failure(128 + signal, fmt::format("{}{}", kBySignal, text), true);
}

std::uint16_t Nodes::workers_port() const {
  const std::lock_guard lock(state_->mutex);
  return state_->start < state_->ports.size() ? state_->ports[state_->start] : 0;
}

std::optional<int> Nodes::joined() const {
  const std::lock_guard lock(state_->mutex);
  return state_->start < state_->ports.size() ? state_->node_rank : std::nullopt;
}

std::optional<Nodes::Verdict> Nodes::verdict() const {
  const std::lock_guard lock(state_->mutex);
  if (state_->start >= state_->verdicts.size()) return std::nullopt;
  return state_->verdicts[state_->start];
}

std::optional<Nodes::Verdict> Nodes::end_of_job() const {
  const std::lock_guard lock(state_->mutex);
  if (state_->start + 1 >= state_->verdicts.size() || !state_->verdicts.back().final)
    return std::nullopt;
  return state_->verdicts.back();
}

}  // namespace tutti::launcher
