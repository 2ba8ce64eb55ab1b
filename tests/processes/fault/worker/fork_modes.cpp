// A rank, or the server of a store, that forks, execs or exits where it is least convenient.
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <functional>
#include <new>
#include <set>
#include <thread>

#include <sys/wait.h>

#include <tutti/tutti.hpp>

#include "modes.hpp"
#include "speak.hpp"

namespace {

thread_local volatile std::sig_atomic_t allocates = 0;

}  // namespace

// They tell a signal handler that its thread is in malloc. Sanitizers have their own.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
void* operator new(std::size_t size, const std::nothrow_t& /*tag*/) noexcept {
  allocates = allocates + 1;
  void* const memory = std::malloc(size);
  allocates = allocates - 1;
  return memory;
}
void* operator new(std::size_t size) {
  void* const memory = operator new(size, std::nothrow);
  return memory != nullptr ? memory : throw std::bad_alloc();
}
void operator delete(void* memory) noexcept {
  allocates = allocates + 1;
  std::free(memory);
  allocates = allocates - 1;
}
void operator delete(void* memory, std::size_t /*size*/) noexcept { operator delete(memory); }
#endif

namespace tutti::fault {
namespace {

using namespace std::chrono_literals;

/// As a data loader: it lives on when its parent has died. The test ends it.
void fork_a_child() {
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(STDOUT_FILENO);  // its end is to be its parent's
    ::alarm(120);
    while (true) ::pause();
  }
  say("child", "%d", static_cast<int>(child));
}

[[noreturn]] void wait_for_the_end() {
  say("there");
  while (true) ::pause();
}

/// All are connected with all.
void connect_all(ProcessGroup& world) {
  std::vector<int> in(static_cast<std::size_t>(world.size()));
  std::vector<int> out(in.size());
  world.all_to_all(in, out).wait();
}

int serve() {
  const auto store = make_tcp_store({.serve = true});
  store->set("key", "value");
  fork_a_child();
  say("port", "%d", static_cast<int>(store->port()));
  wait_for_the_end();
}

/// The last rank forks and waits to be killed, or starts another program.
void last_goes(ProcessGroup& world, bool execs) {
  connect_all(world);
  if (world.rank() == world.size() - 1) {
    if (execs) {
      ::execl("/bin/sleep", "sleep", "60", nullptr);
      std::abort();
    }
    fork_a_child();
    wait_for_the_end();
  }
  say("there");
  world.barrier().wait();
}

void ring_alarm_after(std::chrono::microseconds time) {
  const itimerval soon{{0, 0}, {0, static_cast<suseconds_t>(time.count())}};
  ::setitimer(ITIMER_REAL, &soon, nullptr);
}

/// Exits in a signal handler at the first millisecond in which this thread is likely to drive.
void exit_in_handler(ProcessGroup& world) {
  connect_all(world);
  std::vector<float> data(std::size_t{4} << 20, 1.0F);
  // The first operations allocate most.
  for (int i = 0; i < 3; ++i) world.all_reduce(data).wait();
  if (world.rank() == 1) {
    std::signal(SIGALRM, [](int) {
      // exit waits for the lock of malloc, which the thread under this handler may hold.
      if (allocates) return ring_alarm_after(100us);
      say("exits");
      std::exit(0);
    });
    ring_alarm_after(20ms);
  }
  while (true) world.all_reduce(data).wait();
}

void exit_in_callback(ProcessGroup& world) {
  connect_all(world);
  const int rank = world.rank();
  Work work = world.barrier();
  if (rank == 1) {
    work.on_done({[](void*, const Outcome&) noexcept {
                    say("exits");
                    std::exit(0);
                  },
                  nullptr});
  }
  work.wait();
  // The callback's thread ends the process, and may have ended its world.
  while (rank == 1) ::pause();
  std::vector<int> never{0};
  world.recv(never, 1 - rank);
}

constexpr std::string_view kGroupOfParent = "this process was forked after init_process_group";
constexpr std::string_view kStoreOfParent =
    "was made before this process was forked, and a child cannot use it";

/// 0 if it throws what a call on an object of the parent must throw.
int refused(const char* name, std::string_view text, const std::function<void()>& call) {
  try {
    call();
    say("worked", "%s", name);
  } catch (const Error& error) {
    if (error.code() == Errc::unsupported &&
        std::string_view(error.what()).find(text) != std::string_view::npos)
      return 0;
    say("otherwise", "%s: %s", name, error.what());
  }
  return 1;
}

int in_child(ProcessGroup& world, Work& work, Store& store) {
  std::vector<int> one{1};
  int wrong = is_initialized() ? 1 : 0;
  wrong += refused("barrier", kGroupOfParent, [&] { world.barrier().wait(); });
  wrong += refused("all_reduce", kGroupOfParent, [&] { world.all_reduce(one).wait(); });
  wrong += refused("send", kGroupOfParent, [&] { world.send(one, 0); });
  wrong += refused("recv", kGroupOfParent, [&] { world.recv(one, 0); });
  wrong +=
      refused("new_group", kGroupOfParent, [&] { (void)world.new_group(std::vector<int>{0}); });
  wrong += refused("health", kGroupOfParent, [&] { raise_if(world.health()); });
  wrong += refused("wait", kGroupOfParent, [&] { work.wait(); });
  wrong += refused("wait_for", kGroupOfParent, [&] {
    if (work.wait_for(1s)) raise_if(work.error());
  });
  wrong += refused("set", kStoreOfParent, [&] { store.set("a", "b"); });
  wrong += refused("get", kStoreOfParent, [&] { (void)store.get("key"); });
  wrong += refused("add", kStoreOfParent, [&] { (void)store.add("n", 1); });
  auto own =
      init_process_group({.store = make_hash_store(), .rank = 0, .size = 1, .config = Config()});
  own.all_reduce(one).wait();
  if (!is_initialized()) ++wrong;
  return wrong;
}

/// What a child may do, while another thread of its parent holds what locks there are.
void children(ProcessGroup& world) {
  std::shared_ptr<Store> store = make_tcp_store({.serve = true});
  store->set("key", "value");
  std::vector<int> data{0};
  Work work = world.irecv(data, 1 - world.rank());
  {
    std::atomic<bool> stop{false};
    std::thread busy([&] {
      while (!stop) {
        (void)store->get("key");
        (void)work.done();
        set_log_sink(nullptr, LogLevel::warning);
        (void)available_backends();
      }
    });
    for (int i = 0; i < 20; ++i) {
      const pid_t child = ::fork();
      if (child == 0) {
        ::alarm(20);
        int wrong = 1;
        try {
          wrong = in_child(world, work, *store);
          store.reset();  // does not end the parent's
        } catch (const std::exception& error) {
          say("otherwise", "%s", error.what());
        }
        ::_exit(wrong);
      }
      int end = 0;
      ::waitpid(child, &end, 0);
      if (end != 0) say("wrong", "child %d ended with %d", i, end);
    }
    stop = true;
    busy.join();
  }
  if (store->get("key") != "value") say("wrong", "the store");
  world.send(data, 1 - world.rank());
  work.wait();
  world.barrier().wait();
  say("well");
}

}  // namespace

std::optional<int> run_fork_mode(const Arguments& arguments) {
  const std::string& mode = arguments.mode;
  if (mode == "serve") return serve();
  const std::set<std::string> known = {"forks", "execs", "exit_in_handler", "exit_in_callback",
                                       "children"};
  if (!known.contains(mode)) return std::nullopt;
  // At exit, statics go before what was registered earlier; others live on.
  static std::unique_ptr<ProcessGroup> as_static;
  auto made = std::make_unique<ProcessGroup>(init_process_group());
  ProcessGroup& world = *made;
  if (arguments.at(0) == "static") {
    as_static = std::move(made);
  } else if (mode.starts_with("exit")) {
    (void)made.release();
  }
  say("ready");
  try {
    if (mode == "forks" || mode == "execs") last_goes(world, mode == "execs");
    if (mode == "exit_in_handler") exit_in_handler(world);
    if (mode == "exit_in_callback") exit_in_callback(world);
    if (mode == "children") children(world);
  } catch (const Error& error) {
    return tell(error);
  }
  return 0;
}

}  // namespace tutti::fault
