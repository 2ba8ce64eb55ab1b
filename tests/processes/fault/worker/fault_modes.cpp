// Ranks of the fault tests: their modes stand in kModes.
#include <dirent.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <random>
#include <thread>

#include <tutti/tutti.hpp>

#include "modes.hpp"
#include "speak.hpp"
#include "support/refused_calls.hpp"
#include "unit/backend/world_of_one.hpp"

namespace tutti::fault {
namespace {

using namespace std::chrono_literals;

int entries_of(const char* folder) {
  int count = 0;
  DIR* const dir = ::opendir(folder);
  while (::readdir(dir) != nullptr) ++count;
  ::closedir(dir);
  return count;
}

/// Threads of this process. A thread that was joined may be listed a moment longer: the kernel
/// wakes the joiner before it takes the thread off the list.
int settled_threads() {
  int threads = 0;
  for (int i = 0; i < 5000; ++i) {
    threads = entries_of("/proc/self/task") - 2;
    if (threads == 1) break;
    const timespec moment{0, 1'000'000};
    ::nanosleep(&moment, nullptr);
  }
  return threads;
}

/// The resources that a process holds: descriptors, mappings of ours, threads (without . and ..,
/// and the descriptor that lists them).
std::string holdings() {
  int mapped = 0;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (line.find("memfd:tutti") != std::string::npos) ++mapped;
  return std::to_string(entries_of("/proc/self/fd") - 3) + "," + std::to_string(mapped) + "," +
         std::to_string(settled_threads());
}

/// With FAULT_FORKS: forks children as a data loader does. They hold a copy of each descriptor of
/// their parent, and outlive it if it is killed; then the test ends them.
class Children {
 public:
  Children() = default;
  ~Children() {
    for (const pid_t pid : pids_) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
    }
  }
  Children(const Children&) = delete;
  Children& operator=(const Children&) = delete;

  void fork_now_and_then() {
    if (!forks_ || pids_.size() == kMost || random_() % 8 != 0) return;
    const pid_t pid = ::fork();
    if (pid == 0) {
      tell_test();
      ::close(STDOUT_FILENO);  // its end is to be its parent's
      ::alarm(kSecondsOfALife);
      while (true) ::pause();
    }
    if (pid > 0) pids_.push_back(pid);
  }

 private:
  /// "child <ns> <pid>", for the test to end it (speak.hpp), in one write and without stdio, whose
  /// locks other threads of the parent may have held.
  static void tell_test() {
    char line[64];
    const int bytes = std::snprintf(line, sizeof(line), "child %lld %d\n", clock_ns(), ::getpid());
    (void)!::write(STDOUT_FILENO, line, static_cast<std::size_t>(bytes));
  }

  static constexpr std::size_t kMost = 3;
  static constexpr unsigned kSecondsOfALife = 20;

  bool forks_ = std::getenv("FAULT_FORKS") != nullptr;
  std::mt19937 random_{static_cast<unsigned>(::getpid())};
  std::vector<pid_t> pids_;
};

/// Operations of every kind, in an order that follows from the seed, until something breaks.
/// `parts`: some of them in groups of some ranks, which break one by one.
void churn(ProcessGroup& world, unsigned seed, int rounds, bool parts = true) {
  std::mt19937 random(seed);
  std::vector<float> large(256 * 1024);
  Children children;
  for (int round = 0; round < rounds; ++round) {
    children.fork_now_and_then();
    const auto kind = random() % 5;
    const int root = static_cast<int>(random() % static_cast<unsigned>(world.size()));
    begin_call();
    if (kind == 0) {
      world.barrier().wait();
    } else if (kind == 1) {
      std::vector<int> small(64, world.rank() == root ? round : -1);
      world.broadcast(small, {.root = root}).wait();
      if (small.back() != round) std::abort();
    } else if (kind == 2) {
      std::fill(large.begin(), large.end(), 1.0F);
      world.all_reduce(large).wait();
      if (large.back() != static_cast<float>(world.size())) std::abort();
    } else if (kind == 3 && parts) {
      std::vector<int> ranks;
      for (int rank = root % 2; rank < world.size(); rank += 2) ranks.push_back(rank);
      if (auto group = world.new_group(ranks)) {
        std::vector<long> one{1};
        begin_call();
        group.all_reduce(one).wait();
        if (one[0] != group.size()) std::abort();
      }
    } else {
      std::vector<double> few(8, 1.0);
      world.all_reduce(few).wait();
      if (few[0] != world.size()) std::abort();
    }
  }
}

sigset_t signals_from_the_test() {
  sigset_t awaited;
  sigemptyset(&awaited);
  sigaddset(&awaited, SIGUSR1);
  sigaddset(&awaited, SIGUSR2);
  return awaited;
}

/// The next of them.
int wait_for_the_test() {
  const sigset_t awaited = signals_from_the_test();
  int signal = 0;
  sigwait(&awaited, &signal);
  return signal;
}

/// To all ranks, whether rank 0 has been sent SIGUSR1 by now.
bool all_told(ProcessGroup& world) {
  const sigset_t awaited = signals_from_the_test();
  const timespec at_once{};
  std::vector<int> told{0};
  if (world.rank() == 0 && ::sigtimedwait(&awaited, nullptr, &at_once) == SIGUSR1) told[0] = 1;
  world.broadcast(told, {.root = 0}).wait();
  return told[0] != 0;
}

/// Churns on until rank 0 is sent SIGUSR1: what a test does meanwhile never finds the job over.
void churn_until_told(ProcessGroup& world, unsigned seed) {
  do {
    churn(world, seed++, 50);
  } while (!all_told(world));
}

/// All ranks are connected, nothing is under way until the signal comes; then a sum is right.
void rest_until_told(ProcessGroup& world) {
  std::vector<int> sums(4096, world.rank());
  const auto sum = [&] {
    std::fill(sums.begin(), sums.end(), world.rank());
    world.all_reduce(sums).wait();
    const int right = world.size() * (world.size() - 1) / 2;
    if (sums.front() != right || sums.back() != right) std::abort();
  };
  sum();
  say("there");
  wait_for_the_test();
  sum();
}

/// The last rank gets as much as the others can send, until rank 0 is sent SIGUSR1.
void flow_until_told(ProcessGroup& world) {
  const int last = world.size() - 1;
  std::vector<std::vector<int>> data(static_cast<std::size_t>(last), std::vector<int>(500'000));
  int round = 0;
  do {
    std::vector<Work> works;
    for (int rank = 0; rank < last; ++rank) {
      auto& part = data[static_cast<std::size_t>(rank)];
      std::fill(part.begin(), part.end(), world.rank() == last ? -1 : round + rank);
      if (world.rank() == last) works.push_back(world.irecv(part, rank));
      if (world.rank() == rank) works.push_back(world.isend(part, last));
    }
    wait_all(works);
    for (int rank = 0; world.rank() == last && rank < last; ++rank) {
      for (const int value : data[static_cast<std::size_t>(rank)])
        if (value != round + rank) std::abort();
    }
    if (round++ == 0) say("there");
  } while (!all_told(world));
}

/// Rank 1 calls something else than the others.
void disagree(ProcessGroup& world, const std::string& what, std::size_t count) {
  const bool odd = world.rank() == 1;
  std::vector<float> data(count, static_cast<float>(world.rank() + 1));
  std::vector<int> integers(count, world.rank() + 1);
  const auto unchanged = [&] {
    const int own = world.rank() + 1;
    return std::count(data.begin(), data.end(), static_cast<float>(own)) == std::ssize(data) &&
           std::count(integers.begin(), integers.end(), own) == std::ssize(integers);
  };
  world.barrier().wait();
  try {
    if (what == "root" || (what == "kind" && odd)) {
      world.broadcast(data, {.root = what == "root" && odd ? 1 : 0}).wait();
    } else if (what == "dtype" && odd) {
      world.all_reduce(integers).wait();
    } else if (what == "count" && odd) {
      world.all_reduce(std::span(data).first(count - 1)).wait();
    } else if (what == "op" && odd) {
      world.all_reduce(data, {.op = ReduceOp::max}).wait();
    } else if (what == "order" && odd) {
      world.barrier().wait();
      world.all_reduce(data).wait();
    } else {
      world.all_reduce(data).wait();
      if (what == "order") world.barrier().wait();
    }
  } catch (const DisagreementError&) {
    say("unchanged", "%d", unchanged());
    throw;
  }
  // The root of a broadcast, and who was served by it, may learn it at the next call.
  world.barrier().wait();
}

/// Rank 1 ends as soon as its own calls have returned; the others need it no more, or do.
void peace(ProcessGroup& world, bool needed) {
  std::vector<int> data(100'000, world.rank());
  if (world.rank() != 1) std::this_thread::sleep_for(200ms);
  world.broadcast(data, {.root = 1}).wait();
  if (data.back() != 1) std::abort();
  if (world.rank() == 1) std::exit(0);
  if (needed) world.barrier().wait();
}

/// Rank 1 is killed while the others wait for it.
void die(ProcessGroup& world) {
  for (int turn = 0; turn < 3; ++turn) world.barrier().wait();
  if (world.rank() == 1) std::raise(SIGKILL);
  world.barrier().wait();
}

/// Rank 1 does not come to what the others wait in, until it is sent SIGUSR1: it computes, or is in
/// an operation of another group, which has no end. Warnings of the log are told.
void stalled(ProcessGroup& world, const std::string& what) {
  set_log_sink([](LogLevel level, std::string_view text) {
    if (level >= LogLevel::warning) say("warned", "%s", std::string(text).c_str());
  });
  auto pair = world.new_group(std::vector<int>{1, 2});
  std::vector<int> one{1};
  world.barrier().wait();
  say("there");
  if (world.rank() == 1 && what == "elsewhere") pair.barrier().wait();
  if (world.rank() == 1) wait_for_the_test();
  if (what == "queue") {
    for (int i = 0; i < 66; ++i) world.broadcast(one, {.root = 0}).wait();  // 64 may be ahead
  } else if (what == "receive") {
    if (world.rank() == 0) world.recv(one, 1);
    if (world.rank() == 1) world.send(one, 0);
  } else {
    world.barrier().wait();
  }
}

/// All but one rank, which is killed meanwhile, wait for each other.
void monitored(ProcessGroup& world, int absent) {
  world.barrier().wait();
  say("here");
  while (world.rank() == absent) ::pause();
  world.monitored_barrier({.wait_all_ranks = true});
}

/// Rank 1 is late by so many seconds; what waiting for it cost.
void idle(ProcessGroup& world, double seconds) {
  std::vector<float> data(16, 1.0F);
  world.all_reduce(data).wait();
  if (world.rank() == 1) std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  const long long cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
  const long long wall = clock_ns();
  world.all_reduce(data).wait();
  const long long passed = clock_ns() - wall;
  say("idle", "%lld %lld", clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu, passed);
}

void latency(ProcessGroup& world, int calls) {
  std::vector<float> data(16, 0.0F);
  world.barrier().wait();
  const long long begin = clock_ns();
  for (int i = 0; i < calls; ++i) {
    if (i == 10) say("going");  // connected with all it needs
    begin_call();
    world.all_reduce(data).wait();
  }
  say("latency", "%lld", (clock_ns() - begin) / calls);
}

/// Two worlds one after the other, each dropped through every handle.
int again() {
  for (int turn = 0; turn < 2; ++turn) {
    std::vector<ProcessGroup> handles{init_process_group()};
    handles.push_back(handles.front());
    std::vector<int> one{1};
    handles.front().all_reduce(one).wait();
    if (one[0] != handles.front().size()) std::abort();
    handles.pop_back();
    handles.front().all_reduce(one).wait();
    handles.clear();
  }
  return 0;
}

/// Says that it waits, and sends to rank `peer` when it is sent SIGUSR1: before that nobody has
/// connected with anybody. SIGUSR2: ends in peace, without destroying anything.
void late(ProcessGroup& world, int peer) {
  say("waiting");
  if (wait_for_the_test() == SIGUSR2) std::exit(0);
  std::vector<int> one{1};
  world.send(one, peer);
  world.barrier().wait();
}

/// The state between the last rank and the others when its link is cut, until that breaks
/// something. Each rank says "there" when it has come to it; what begins after the cut waits for
/// SIGUSR1.
void link(ProcessGroup& world, const std::string& state) {
  const int last = world.size() - 1;
  const bool is_last = world.rank() == last;
  std::vector<int> one{1};
  const auto pass_to_the_last = [&] {
    for (int rank = 0; is_last && rank < last; ++rank) world.recv(one, rank);
    if (!is_last) world.send(one, last);
  };
  if (state != "dialled_later") {
    pass_to_the_last();  // connects all with it
    world.barrier().wait();
  }
  say("there");
  if (state.ends_with("_later")) wait_for_the_test();
  if (state == "ends_later") return pass_to_the_last();
  if (state != "sending" && state != "receiving") {
    world.recv(one, is_last ? 0 : last);
    return;
  }
  std::vector<std::vector<float>> data(static_cast<std::size_t>(is_last ? last : 1),
                                       std::vector<float>(100'000));
  while (true) {
    std::vector<Work> works;
    for (int rank = 0; rank < std::ssize(data); ++rank) {
      auto& mine = data[static_cast<std::size_t>(rank)];
      const int other = is_last ? rank : last;
      works.push_back(is_last == (state == "sending") ? world.irecv(mine, other)
                                                      : world.isend(mine, other));
    }
    wait_all(works);
  }
}

/// Ends the process while another thread ends worlds. Rank 1, which has been stopped, takes nothing
/// of what rank 0 sends, so leaving takes its time.
void exit_while_ending(ProcessGroup& world) {
  world.barrier().wait();
  say("here");
  while (world.rank() == 1) ::pause();
  wait_for_the_test();
  // Never destroyed: they outlive whatever runs at exit.
  auto& alone = *new std::vector<ProcessGroup>;
  auto& data = *new std::vector<float>(std::size_t{16} << 20, 1.0F);
  for (int i = 0; i < 8; ++i) alone.push_back(world_of_one());
  world.isend(data, 1).detach();
  std::thread([&alone] {
    std::this_thread::sleep_for(200ms);
    alone.clear();
  }).detach();
  std::exit(0);
}

/// With FAULT_GIVEN_STORE, its port: in a part of a store that the program makes and never
/// destroys.
ProcessGroup make_world() {
  const char* const port = std::getenv("FAULT_GIVEN_STORE");
  if (port == nullptr) return init_process_group();
  static auto& given = *new std::shared_ptr<Store>(make_prefix_store(
      "given", make_tcp_store({.port = static_cast<std::uint16_t>(std::stoi(port)),
                               .secret = job_secret(),
                               .encrypt = Config::from_environment().value().tls})));
  return init_process_group({.store = given});
}

unsigned seed_of(const Arguments& given) { return static_cast<unsigned>(std::stoul(given.at(0))); }

struct Mode {
  const char* name;
  void (*run)(ProcessGroup& world, const Arguments& given);
  bool awaits_signals = false;
};
constexpr Mode kModes[] = {
    {"churn", [](auto& world, auto& given) { churn(world, seed_of(given), given.number(1)); }},
    {"churn_together",
     [](auto& world, auto& given) { churn(world, seed_of(given), given.number(1), false); }},
    {"churn_until_told", [](auto& world, auto& given) { churn_until_told(world, seed_of(given)); },
     true},
    {"rest_until_told", [](auto& world, auto&) { rest_until_told(world); }, true},
    {"flow_until_told", [](auto& world, auto&) { flow_until_told(world); }, true},
    {"disagree",
     [](auto& world, auto& given) { disagree(world, given.at(0), std::stoul(given.at(1))); }},
    {"peace", [](auto& world, auto& given) { peace(world, given.at(0) == "needed"); }},
    {"die", [](auto& world, auto&) { die(world); }},
    {"stalled", [](auto& world, auto& given) { stalled(world, given.at(0)); }, true},
    {"monitored", [](auto& world, auto& given) { monitored(world, given.number(0)); }},
    {"idle", [](auto& world, auto& given) { idle(world, std::stod(given.at(0))); }},
    {"latency", [](auto& world, auto& given) { latency(world, given.number(0)); }},
    {"late", [](auto& world, auto& given) { late(world, given.number(0)); }, true},
    {"link", [](auto& world, auto& given) { link(world, given.at(0)); }, true},
    {"exit_while_ending", [](auto& world, auto&) { exit_while_ending(world); }, true},
};

int run(const Mode& mode, const Arguments& given) {
  if (mode.awaits_signals) {  // in all threads: a signal that comes early waits
    const sigset_t awaited = signals_from_the_test();
    ::pthread_sigmask(SIG_BLOCK, &awaited, nullptr);
  }
  if (std::getenv("FAULT_NO_PIDFDS") != nullptr && !test::refuse_pidfds()) return 77;
  say("init");
  auto world = make_world();
  say("ready");
  // An error is told while the world lives, whose end may take a time of its own: rank 0 serves the
  // store until the others have left it.
  try {
    mode.run(world, given);
  } catch (const Error& error) {
    return tell(error);
  }
  return 0;
}

/// ... and says what this process held before and after it.
int run_and_tell_holdings(const std::function<int()>& run) {
  const std::string before = holdings();
  int code = 0;
  try {
    code = run();
  } catch (const Error& error) {
    code = tell(error);
  } catch (const std::exception& error) {
    say("error", "foreign -1 %s", error.what());
    code = 4;
  }
  say("left", "%s %s", before.c_str(), holdings().c_str());
  return code;
}

}  // namespace

std::optional<int> run_fault_mode(const Arguments& arguments) {
  if (arguments.mode == "again") return run_and_tell_holdings(again);
  for (const Mode& mode : kModes)
    if (arguments.mode == mode.name)
      return run_and_tell_holdings([&] { return run(mode, arguments); });
  return std::nullopt;
}

}  // namespace tutti::fault
