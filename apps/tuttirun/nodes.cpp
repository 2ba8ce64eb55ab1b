#include "nodes.hpp"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <string_view>

#include "base/deadline.hpp"
#include "base/format.hpp"
#include "base/number.hpp"
#include "base/shown.hpp"
#include "os/host.hpp"
#include "store/served.hpp"
#include "store/tcp_store.hpp"

namespace tutti::launcher {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view kDoneKey = "/done";
constexpr auto kGoodByeTimeout = 250ms;
// For the answer of our own server.
constexpr auto kHear = 1s;
// A signal may come while this node joins the others, which shall hear of it. Where it has not
// reached the store, nobody waits.
constexpr auto kJoinFirst = 1s;
// A job may run for as long as it likes; this outlives every machine.
constexpr auto kForever = std::chrono::hours(24 * 365);

std::atomic<bool> thread_left = false;

/// Leaves the server and ends the calls of all threads.
void hang_up(const TcpStore& store) {
  if (const auto served = store.served())
    served->client->leave(TcpStore::Clock::now() + kGoodByeTimeout);
}

std::string unreachable(const std::exception& error) {
  return base::format("tuttirun on node 0 cannot be reached: {}", error.what());
}

}  // namespace

Nodes::State::State(const Options& options, std::string why_serving)
    : meeting(options, std::move(why_serving)),
      max_restarts(options.max_restarts),
      stall_warning(options.stall_warning),
      done_timeout(std::max(kReportTimeout, options.link_timeout)) {}

Nodes::Nodes(const Options& options, TcpStoreOptions store, std::optional<int> node_rank,
             std::string why_serving, std::function<void()> on_news)
    : state_(std::make_shared<State>(options, std::move(why_serving))) {
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
      state_->settled.wait_for(lock, kHear, [&] { return state_->over; });
    over = state_->over;
    store = state_->store;
  }
  // The thread may still wait for the verdict that this node has put itself: the lost connection
  // ends that.
  if (store) hang_up(*store);
  if (over || store) {
    thread_.join();
  } else {
    thread_left = true;
    thread_.detach();
  }
}

bool Nodes::left_a_thread() { return thread_left; }

void Nodes::run(State& state, const TcpStoreOptions& options) {
  std::string objection;
  record::StartWatch watch(state.stall_warning, /*shown=*/true);
  watch.show(std::nullopt, state.meeting.nnodes(), os::host_name());
  const store::OnWait on_wait = [&](const std::string& what, const std::string& why) {
    watch.waits_for(what);
    if (watch.is_due())
      watch.log("tuttirun", base::format("{} {}; start tuttirun there, too", what, why));
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
  auto number = join(state, store);
  if (!number) return std::string(number.status().message());
  const auto come_by = base::deadline_after(TcpStore::Clock::now(), state.meeting.join_timeout());
  for (int start = 0;; ++start) {
    if (start > 0) {
      if (std::string objection = await_port(state, *store, *number, start); !objection.empty())
        return objection;
    }
    state.meeting.await_all(*store, *number, start, come_by, watch);
    const Verdict verdict = Verdict::parse(store->get(key_of(start, kVerdictKey), kForever));
    publish(state, verdict);
    if (!verdict.ends_job()) continue;
    // A signal is obeyed at once.
    if (*number == 0 && verdict.signal == 0) state.meeting.await_late(*store);
    return {};
  }
}

Result<int> Nodes::join(State& state, const std::shared_ptr<TcpStore>& store) {
  std::optional<int> number;
  {
    const std::lock_guard lock(state.mutex);
    number = state.node_rank;
  }
  auto joined = state.meeting.join(*store, number);
  if (!joined) return joined;
  const std::lock_guard lock(state.mutex);
  state.node_rank = *joined;
  state.store = store;
  state.settled.notify_all();
  state.ports = {0};
  if (state.on_news) state.on_news();
  return joined;
}

std::string Nodes::await_port(State& state, TcpStore& store, int number, int start) {
  set_wills(store, number, start);
  // How long this may take, the job decides: it depends on how long other nodes' workers end.
  const std::string text = store.get(key_of(start, kPortKey), kForever);
  store.drop_will(key_of(start, kPortKey));
  if (text == kNoPort) return {};  // the verdict tells why
  const std::uint16_t port = base::whole_number<std::uint16_t>(text).value_or(0);
  if (port == 0)
    return base::format("node 0 tells \"{}\" as the port of the restarted store",
                        base::shown_on_line(text, kMostText));
  const std::lock_guard lock(state.mutex);
  state.ports.push_back(port);
  if (state.on_news) state.on_news();
  return {};
}

void Nodes::publish(State& state, Verdict verdict) {
  const std::lock_guard lock(state.mutex);
  state.over = verdict.ends_job();
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
    if (message != kDone) return store->compare_set(verdict, "", message, kReportTimeout);
    // The last one ends the job, so each must know its number.
    if (store->add(key_of(start, kDoneKey), 1, state_->done_timeout) == state_->meeting.nnodes()) {
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

void Nodes::report_done() { report(std::string(kDone), false); }

std::optional<Verdict> Nodes::report_failure(int exit_code, const std::string& text, bool final) {
  const std::string message = message_of(exit_code, text, final);
  const std::string stands = report(message, final);
  if (stands == message) {
    // The thread may have heard the verdict before we could ask for it.
    const std::lock_guard lock(state_->mutex);
    if (state_->over && !state_->verdicts.back().success &&
        state_->verdicts.back().text != Verdict::parse(message).text)
      return state_->verdicts.back();
  }
  if (stands == message) return std::nullopt;
  Verdict first = Verdict::parse(stands);
  return first.success ? std::nullopt : std::optional(std::move(first));
}

void Nodes::report_signal(int signal, const std::string& text) {
  report_failure(128 + signal, base::format("{}{}", kBySignal, text), true);
}

std::uint16_t Nodes::workers_port() const {
  const std::lock_guard lock(state_->mutex);
  return state_->start < state_->ports.size() ? state_->ports[state_->start] : 0;
}

std::optional<int> Nodes::joined() const {
  const std::lock_guard lock(state_->mutex);
  return state_->start < state_->ports.size() ? state_->node_rank : std::nullopt;
}

std::optional<Verdict> Nodes::verdict() const {
  const std::lock_guard lock(state_->mutex);
  if (state_->start >= state_->verdicts.size()) return std::nullopt;
  return state_->verdicts[state_->start];
}

std::optional<Verdict> Nodes::end_of_job() const {
  const std::lock_guard lock(state_->mutex);
  if (state_->start + 1 >= state_->verdicts.size() || !state_->verdicts.back().final)
    return std::nullopt;
  return state_->verdicts.back();
}

}  // namespace tutti::launcher
