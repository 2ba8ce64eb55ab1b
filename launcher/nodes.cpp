#include "nodes.hpp"

#include <fmt/format.h>
#include <pthread.h>

#include <charconv>
#include <string_view>

namespace tutti::launcher {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view kVerdictKey = "/verdict";
constexpr std::string_view kDoneKey = "/done";
constexpr std::string_view kNodesKey = "/nodes";
constexpr std::string_view kPortKey = "/port";
constexpr std::string_view kFinal = "final ";
constexpr auto kReportTimeout = 5s;
// A job may run for as long as it likes; this outlives every machine.
constexpr auto kForever = std::chrono::hours(24 * 365);

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
  verdict.text = std::string(end, text.data() + text.size());
  return verdict;
}

}  // namespace

Nodes::Nodes(const Options& options, TcpStoreOptions store, std::optional<int> node_rank,
             int restart, std::optional<std::uint16_t> workers_port,
             std::function<void()> on_news) {
  state_->nnodes = options.nnodes;
  state_->restart = restart;
  state_->prefix = restart == 0 ? "tuttirun" : fmt::format("tuttirun/{}", restart);
  state_->workers_port = workers_port;
  state_->node_rank = node_rank;
  state_->on_news = std::move(on_news);
  thread_ = std::thread([state = state_, store = std::move(store)] { run(*state, store); });
  pthread_setname_np(thread_.native_handle(), "tuttirun-nodes");
}

Nodes::~Nodes() {
  bool ended = false;
  {
    const std::lock_guard lock(state_->mutex);
    state_->on_news = nullptr;
    ended = state_->verdict.has_value();
  }
  if (ended)
    thread_.join();
  else
    thread_.detach();
}

void Nodes::say(TcpStore& store, const std::string& message, const State& state) {
  const std::string verdict = fmt::format("{}{}", state.prefix, kVerdictKey);
  if (message != "done") {
    store.compare_set(verdict, "", message, kReportTimeout);
  } else if (store.add(fmt::format("{}{}", state.prefix, kDoneKey), 1, kReportTimeout) ==
             state.nnodes) {
    store.compare_set(verdict, "", "done", kReportTimeout);
  }
}

void Nodes::run(State& state, const TcpStoreOptions& options) {
  Verdict verdict;
  std::shared_ptr<TcpStore> store;
  try {
    store = make_tcp_store(options);
    const std::string objection = join(state, store);
    if (objection.empty())
      verdict = parse_verdict(store->get(fmt::format("{}{}", state.prefix, kVerdictKey), kForever));
    else
      verdict = {.final = true, .text = objection};
  } catch (const std::exception& error) {
    verdict.final = true;
    verdict.text = fmt::format("tuttirun on node 0 cannot be reached: {}", error.what());
  }
  const std::lock_guard lock(state.mutex);
  state.store.reset();
  state.verdict = std::move(verdict);
  if (state.on_news) state.on_news();
}

std::string Nodes::agree_on_port(State& state, TcpStore& store) {
  if (state.restart == 0) return {};
  const std::string key = fmt::format("{}{}", state.prefix, kPortKey);
  std::optional<std::uint16_t> port;
  {
    const std::lock_guard lock(state.mutex);
    port = state.workers_port;
  }
  if (port) {
    store.set(key, std::to_string(*port));
    return {};
  }
  const std::string text = store.get(key);
  std::uint16_t told = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), told);
  if (error != std::errc() || end != text.data() + text.size() || told == 0)
    return fmt::format("node 0 tells \"{}\" as the port of the restarted store", text);
  const std::lock_guard lock(state.mutex);
  state.workers_port = told;
  return {};
}

std::string Nodes::join(State& state, const std::shared_ptr<TcpStore>& store) {
  std::optional<int> number;
  {
    const std::lock_guard lock(state.mutex);
    number = state.node_rank;
  }
  // The node that serves is number 0.
  const std::string nodes = fmt::format("{}{}", state.prefix, kNodesKey);
  if (!number) number = static_cast<int>(store->add(nodes, 1));
  if (*number >= state.nnodes)
    return fmt::format("{} nodes have come already, as many as --nnodes says", state.nnodes);
  if (store->add(fmt::format("{}/{}", nodes, *number), 1) > 1) {
    return fmt::format(
        "a node with --node-rank {} has come already; give each its own, from 0 to {}", *number,
        state.nnodes - 1);
  }
  if (const std::string objection = agree_on_port(state, *store); !objection.empty())
    return objection;
  const std::lock_guard lock(state.mutex);
  state.node_rank = number;
  state.store = store;
  state.joined = true;
  if (state.on_news) state.on_news();
  return {};
}

void Nodes::report(const std::string& message) {
  std::shared_ptr<TcpStore> store;
  {
    const std::lock_guard lock(state_->mutex);
    store = state_->store;
  }
  if (!store) return;
  try {
    say(*store, message, *state_);
  } catch (const std::exception&) {
    // The thread that waits for the verdict sees the same and tells.
  }
}

void Nodes::report_done() { report("done"); }

void Nodes::report_failure(int exit_code, const std::string& text, bool final) {
  report(fmt::format("{}{} {}", final ? kFinal : "", exit_code, text));
}

std::uint16_t Nodes::workers_port() const {
  const std::lock_guard lock(state_->mutex);
  return state_->workers_port.value_or(0);
}

std::optional<int> Nodes::joined() const {
  const std::lock_guard lock(state_->mutex);
  return state_->joined ? state_->node_rank : std::nullopt;
}

std::optional<Nodes::Verdict> Nodes::verdict() const {
  const std::lock_guard lock(state_->mutex);
  return state_->verdict;
}

}  // namespace tutti::launcher
