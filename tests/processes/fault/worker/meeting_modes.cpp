// Processes that find each other, by every way there is.
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <csignal>
#include <thread>

#include <tutti/tutti.hpp>

#include "modes.hpp"
#include "os/socket.hpp"
#include "rendezvous/rendezvous.hpp"
#include "speak.hpp"

namespace tutti::fault {
namespace {

using namespace std::chrono_literals;

template <class T>
T value_of(Result<T> result) {
  raise_if(result.status());
  return std::move(result).value();
}

int expected_sum(const ProcessGroup& world) { return world.size() * (world.size() + 1) / 2; }

std::optional<int> number_of(const std::string& text) {
  return text == "-" ? std::nullopt : std::optional<int>(std::stoi(text));
}

/// init URL|env RANK|- SIZE|- SECONDS ROUNDS. In each round joins, sends to the last rank, adds up.
int init(const Arguments& given) {
  InitOptions options;
  if (given.at(0) != "env") options.init_method = given.at(0);
  options.rank = number_of(given.at(1));
  options.size = number_of(given.at(2));
  options.timeout = std::chrono::milliseconds(static_cast<long>(1000 * std::stod(given.at(3))));
  say("start");
  for (int round = 0; round < given.number(4); ++round) {
    auto world = init_process_group(options);
    std::vector<int> one{world.rank() + 1};
    // First towards one rank only, which so is dialled by each other that does not share memory.
    const int last = world.size() - 1;
    std::vector<int> other{0};
    for (int rank = 0; world.rank() == last && rank < last; ++rank) world.recv(other, rank);
    if (world.rank() != last) world.send(one, last);
    world.all_reduce(one).wait();
    if (one[0] != expected_sum(world)) return 4;
  }
  say("done");
  return 0;
}

/// Joins the job it was started in, twice, and checks that everybody got everybody's blob.
int exchange() {
  for (int round = 0; round < 2; ++round) {
    rendezvous::Settings settings;
    settings.tls = Config::from_environment().value().tls;
    const auto joined = value_of(rendezvous::from_env(settings));
    const auto blob = [&](int rank) {
      return "round " + std::to_string(round) + " rank " + std::to_string(rank);
    };
    const int size = joined.identity.size;
    const auto all =
        value_of(rendezvous::exchange(*joined.store, "test", joined.identity.rank, size,
                                      blob(joined.identity.rank), rendezvous::Clock::now() + 20s));
    for (int rank = 0; rank < size; ++rank)
      if (all[static_cast<std::size_t>(rank)] != blob(rank)) return 2;
  }
  std::puts("met everybody twice");
  return 0;
}

InitOptions options_of(const std::string& way) {
  InitOptions options;
  options.timeout = 15s;
  if (way.starts_with("tcp:") && !way.starts_with("tcp://")) {
    const auto port = static_cast<std::uint16_t>(std::stoi(way.substr(4)));
    options.store = make_tcp_store({.port = port, .timeout = 15s});
  } else if (way.starts_with("file:") && !way.starts_with("file://")) {
    options.store = make_file_store({.path = way.substr(5), .timeout = 15s});
  } else if (way != "env") {
    options.init_method = way;
  }
  return options;
}

void add_up(ProcessGroup& world) {
  std::vector<int> one{world.rank() + 1};
  world.all_reduce(one).wait();
  if (one[0] != expected_sum(world)) throw std::runtime_error("a wrong sum");
}

/// Works until somebody is lost; who.
int lost_rank(ProcessGroup& world) {
  try {
    while (true) add_up(world);
  } catch (const NetworkError& error) {
    return error.culprit().value();
  }
}

/// survive WAY RANK SIZE [VICTIM...]. Meets the others (WAY: a URL, "env", or "tcp:PORT" or
/// "file:PATH" for a store of its own), twice, and works until VICTIM, the process that was rank
/// VICTIM at first, has killed itself. Then those who are left number themselves anew and go on
/// with a new world, until all victims are gone.
int survive(const Arguments& given) {
  InitOptions options = options_of(given.at(0));
  const int me = given.number(1);
  int rank = me;
  int size = given.number(2);
  for (std::size_t next = 3;; ++next) {
    options.rank = rank;
    options.size = size;
    // The same ranks meet as often as they like under one name.
    { auto first = init_process_group(options); }
    ProcessGroup world = init_process_group(options);
    if (next == given.rest.size()) {
      add_up(world);
      say("met", "%d of %d", rank, size);
      break;
    }
    if (given.number(next) == me) {
      add_up(world);
      std::raise(SIGKILL);
    }
    const int lost = lost_rank(world);
    world = {};
    if (rank > lost) --rank;
    --size;
    options.job_name = "after loss " + std::to_string(next - 2);
  }
  say("done");
  return 0;
}

/// Passes on all that one side of a connection says to the other, until its end.
void pass_on(int from, int to) {
  std::array<char, 64 * 1024> buffer;
  while (true) {
    pollfd readable{from, POLLIN, 0};
    if (::poll(&readable, 1, -1) < 0) break;
    const ssize_t got = ::recv(from, buffer.data(), buffer.size(), 0);
    if (got <= 0) break;
    const auto bytes = std::as_bytes(std::span(buffer).first(static_cast<std::size_t>(got)));
    const auto far = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    if (!os::send_all(to, bytes, far).ok()) break;
  }
  ::shutdown(to, SHUT_WR);
}

/// Stands between a host and a published port of a container behind it: hands on what comes to a
/// port to an endpoint, until it is killed. Says "taken" of connections.
int forward(int port, const std::string& to) {
  const os::Address target = os::Address::parse_endpoint(to).value();
  const auto from = os::Address::parse("0.0.0.0", static_cast<std::uint16_t>(port));
  const os::Fd listener = os::listen_tcp(from.value()).value();
  say("listens");
  while (true) {
    const auto far = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    if (!os::wait_ready(listener.get(), POLLIN, far).value()) continue;
    auto taken = os::accept_connection(listener.get());
    if (!taken || !taken->valid()) continue;
    say("taken");
    auto onward = os::connect_tcp(target, far);
    if (!onward) continue;
    std::thread([near_side = std::move(*taken), far_side = std::move(*onward)] {
      std::thread back([&] { pass_on(far_side.get(), near_side.get()); });
      pass_on(near_side.get(), far_side.get());
      back.join();
    }).detach();
  }
}

}  // namespace

std::optional<int> run_meeting_mode(const Arguments& arguments) {
  if (arguments.mode == "init") return init(arguments);
  if (arguments.mode == "exchange") return exchange();
  if (arguments.mode == "survive") return survive(arguments);
  if (arguments.mode == "forward") return forward(arguments.number(0), arguments.at(1));
  return std::nullopt;
}

}  // namespace tutti::fault
