// One rank of the tests that go over every operation.
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "modes.hpp"
#include "processes/fault/sockets.hpp"
#include "speak.hpp"
#include "support/operations.hpp"

namespace tutti::fault {
namespace {

using test::Operation;

/// The bytes that all ranks give to an operation, again and again. MAX leaves them as they are.
std::string marker_of(const Operation& operation) {
  return "<marker of " + std::string(operation.name) + ">";
}

/// Each operation that moves elements, with its own marker in all that goes anywhere.
void markers(ProcessGroup& world) {
  std::vector<Operation> all = test::all_operations();
  all.insert(all.end(), std::begin(test::kCoalesced), std::end(test::kCoalesced));
  for (const Operation& operation : all) {
    if (!has_data(operation.kind)) continue;
    for (const std::size_t count : {std::size_t{1000}, std::size_t{100'000}}) {
      const std::string marker = marker_of(operation);
      test::PreparedCall<std::uint8_t> call(
          test::plan_of(operation, {.count = count, .op = ReduceOp::max}, world.rank(),
                        world.size(), [&](int, std::size_t, std::size_t i) {
                          return static_cast<double>(marker[i % marker.size()]);
                        }));
      call.run(world);
      if (call.wrong() != 0) {
        std::fprintf(stderr, "wrong: %s\n", call.text().c_str());
        std::abort();
      }
    }
    if (world.rank() == 0) say("marker", "%s", marker_of(operation).c_str());
  }
}

/// One operation again and again, until something breaks. A result that is wrong ends the process.
void repeat(ProcessGroup& world, const std::string& name, std::size_t count) {
  for (const Operation& operation : test::all_operations()) {
    if (operation.name != name) continue;
    constexpr int kRoundsOfARoot = 8;  // stays a while: a root may run ahead
    for (int round = 0;; ++round) {
      if (round == kRoundsOfARoot * world.size()) say("going");  // connected with all it needs
      const int root = round / kRoundsOfARoot % world.size();
      test::PreparedCall<float> call(
          test::plan_of(operation, {.count = count, .root = root}, world.rank(), world.size()));
      begin_call();
      call.run(world);
      if (call.wrong() == 0) continue;
      say("wrong", "%s", call.text().c_str());
      std::_Exit(5);
    }
  }
}

/// Every rank sends to every other, a little and much. Then each says with how many ranks of its
/// own host and of other hosts it is connected by TCP, beside the store.
void links(ProcessGroup& world) {
  std::vector<Work> works;
  constexpr std::size_t kCounts[] = {10, 200'000};
  const auto ranks = static_cast<std::size_t>(world.size());
  std::vector<std::vector<int>> theirs(2 * ranks);
  std::vector<std::vector<int>> mine;
  for (const std::size_t count : kCounts) mine.emplace_back(count, world.rank());
  for (std::size_t size = 0; size < 2; ++size) {
    for (int other = 0; other < world.size(); ++other) {
      auto& place = theirs[size * ranks + static_cast<std::size_t>(other)];
      place.assign(kCounts[size], -1);
      works.push_back(world.irecv(place, other));
      works.push_back(world.isend(mine[size], other));
    }
  }
  wait_all(works);
  for (std::size_t i = 0; i < theirs.size(); ++i) {
    const std::vector<int> expected(kCounts[i / ranks], static_cast<int>(i % ranks));
    if (theirs[i] != expected) std::abort();
  }
  world.barrier().wait();
  const char* const text = std::getenv("TUTTI_STORE_PORT");
  char store[8];
  std::snprintf(store, sizeof(store), ":%04X", text == nullptr ? 0 : std::atoi(text));
  int inside = 0;
  int outside = 0;
  for (const Socket& one : tcp_sockets_of()) {
    if (!one.is_established() || one.theirs.ends_with(store)) continue;
    const auto host = [](const std::string& end) { return end.substr(0, end.find(':')); };
    ++(host(one.ours) == host(one.theirs) ? inside : outside);
  }
  say("links", "%d %d %d", world.rank(), inside, outside);
  world.barrier().wait();  // nobody has left before all have looked
}

/// large [RANK MIB]: that rank has little address space left.
/// So many large operations at once do not find room in the ring of their rank.
constexpr std::size_t kManyAtOnce = 6;

/// Sums that take staging beside the ring, of two sizes, and a message between each two ranks.
void large(ProcessGroup& world) {
  std::vector<std::vector<int>> values(kManyAtOnce, std::vector<int>(std::size_t{1} << 20, 1));
  std::vector<Work> works;
  for (std::vector<int>& one : values) works.push_back(world.all_reduce(one));
  wait_all(works);
  for (const std::vector<int>& one : values)
    if (one.front() != world.size() || one.back() != world.size()) std::abort();
  for (const std::size_t count : {std::size_t{1} << 21, std::size_t{1} << 22}) {
    std::vector<int> numbers(count, world.rank() + 1);
    world.all_reduce(numbers).wait();
    const int sum = world.size() * (world.size() + 1) / 2;
    if (numbers.front() != sum || numbers.back() != sum) std::abort();
    std::vector<int> all(count);
    const std::vector<int> mine(count / static_cast<std::size_t>(world.size()), world.rank());
    all.resize(mine.size() * static_cast<std::size_t>(world.size()));
    world.all_gather(all, mine).wait();
    if (all.front() != 0 || all.back() != world.size() - 1) std::abort();
  }
  links(world);
}

/// Leaves this process that many MiB of address space beside what it has.
void limit_address_space(int mib) {
  std::ifstream file("/proc/self/statm");
  rlim_t pages = 0;
  file >> pages;
  const rlim_t bytes =
      pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)) + static_cast<rlim_t>(mib) * 1024 * 1024;
  const rlimit limit{bytes, bytes};
  if (::setrlimit(RLIMIT_AS, &limit) != 0) std::abort();
}

/// starve RANK: that rank has little address space left when it adds up much.
void starve(ProcessGroup& world, int poor) {
  std::vector<std::vector<int>> values(kManyAtOnce, std::vector<int>(std::size_t{1} << 20, 1));
  world.barrier().wait();
  if (world.rank() == poor) limit_address_space(8);
  std::vector<Work> works;
  for (std::vector<int>& one : values) works.push_back(world.all_reduce(one));
  wait_all(works);
}

/// The world of ranks that meet by an exchange of the program's own.
ProcessGroup join_by_exchange() {
  const auto port = static_cast<std::uint16_t>(std::atoi(std::getenv("MASTER_PORT")));
  const std::shared_ptr<TcpStore> store = make_tcp_store({.port = port});
  InitOptions options;
  options.rank = std::atoi(std::getenv("RANK"));
  options.size = std::atoi(std::getenv("WORLD_SIZE"));
  options.exchange = [store, rank = *options.rank, size = *options.size](
                         const std::string& name,
                         const std::string& mine) -> Result<std::vector<std::string>> {
    const auto key = [&](int of) { return name + "/" + std::to_string(of); };
    store->set(key(rank), mine);
    std::vector<std::string> keys;
    for (int of = 0; of < size; ++of) keys.push_back(key(of));
    return store->multi_get(keys, std::chrono::seconds(15));
  };
  return init_process_group(options);
}

}  // namespace

std::optional<int> run_operation_mode(const Arguments& arguments) {
  const std::string& mode = arguments.mode;
  if (mode != "markers" && mode != "links" && mode != "repeat" && mode != "large" &&
      mode != "starve" && mode != "exchanged")
    return std::nullopt;
  if (mode == "large" && !arguments.rest.empty() &&
      std::getenv("RANK") == std::to_string(arguments.number(0)))
    limit_address_space(arguments.number(1));
  ProcessGroup world = mode == "exchanged" ? join_by_exchange() : init_process_group();
  say("ready");
  try {
    if (mode == "markers") markers(world);
    if (mode == "links") links(world);
    if (mode == "large") large(world);
    if (mode == "starve") starve(world, arguments.number(0));
    if (mode == "repeat") repeat(world, arguments.at(0), std::stoul(arguments.at(1)));
    world.barrier().wait();
  } catch (const Error& error) {
    return tell(error);
  }
  return 0;
}

}  // namespace tutti::fault
