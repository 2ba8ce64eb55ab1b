#include "support/mock_gpu.hpp"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace tutti::test {
namespace {

/// Streams of callers may have any other number.
constexpr std::uint64_t kFirstStream = std::uint64_t{1} << 32;

std::uint64_t host_key(int rank) { return (std::uint64_t{1} << 32) + static_cast<unsigned>(rank); }

void join(MockMachine::Clock& into, const MockMachine::Clock& other) {
  for (const auto& [stream, time] : other) {
    std::uint64_t& known = into[stream];
    known = std::max(known, time);
  }
}

/// Of the memory, which every descriptor of it has.
std::uint64_t file_of(cuda::Memory memory) {
  struct stat about {};
  (void)::fstat(static_cast<int>(memory), &about);
  return about.st_ino & 0x3fffff;
}

}  // namespace

MockMachine::MockMachine(int ranks)
    : calls_(static_cast<std::size_t>(ranks)),
      hosts_(static_cast<std::size_t>(ranks)),
      seen_(static_cast<std::size_t>(ranks) + 1) {}

MockMachine& MockMachine::of_process() {
  static MockMachine* const one = [] {
    auto* const made = new MockMachine(1);
    made->finds_races_ = false;
    return made;
  }();
  return *one;
}

bool MockMachine::enter(int rank, const std::string& function) {
  if (deinitialized) misuse(function + " after the end of the driver");
  const int before = calls_[static_cast<std::size_t>(rank)][function]++;
  if (rank != fault_rank_ || function != fault_ || before != occurrence_ || hit_) return false;
  hit_ = true;
  return true;
}

void MockMachine::plant(int rank, std::string function, int occurrence) {
  fault_rank_ = rank;
  fault_ = std::move(function);
  occurrence_ = occurrence;
}

void MockMachine::misuse(const std::string& text) {
  if (misuses_.find(text) == std::string::npos) misuses_ += text + "\n";
}

std::string MockMachine::new_misuses() {
  return misuses_.substr(std::exchange(asked_, misuses_.size()));
}

std::string MockMachine::leaks() const {
  std::string text;
  for (const auto& [what, count] : alive) {
    if (count != 0) text += what + ": " + std::to_string(count) + "\n";
  }
  return text;
}

MockMachine::Stream& MockMachine::stream_of(int rank, std::uintptr_t stream) {
  const auto [at, made] = streams_.try_emplace({rank, stream});
  if (made) {
    if (stream >= kFirstStream && stream < kFirstStream + next_)
      misuse("a stream that was destroyed is used");
    at->second.rank = rank;
    at->second.key = next_++;
  }
  return at->second;
}

std::uintptr_t MockMachine::make_stream(int rank) {
  const std::uintptr_t handle = static_cast<std::uintptr_t>(kFirstStream + next_);
  Stream& stream = streams_[{rank, handle}];
  stream.rank = rank;
  stream.key = next_++;
  ++alive["streams"];
  last_[rank] = handle;
  return handle;
}

void MockMachine::drop_stream(int rank, std::uintptr_t stream) {
  pump();
  if (!stream_of(rank, stream).items.empty()) misuse("a stream with work was destroyed");
  streams_.erase({rank, stream});
  graphs_.erase({rank, stream});
  --alive["streams"];
}

void MockMachine::push(int rank, std::uintptr_t stream, Item item) {
  if (stream != 0 && captured_[rank] == stream) {
    if (item.records != nullptr || item.waits != nullptr)
      misuse("an event is used on a stream that is captured");
    graphs_[{rank, stream}].push_back(std::move(item));
    return;
  }
  Clock& host = hosts_[static_cast<std::size_t>(rank)];
  ++host[host_key(rank)];
  item.host = host;
  stream_of(rank, stream).items.push_back(std::move(item));
  pump();
}

void MockMachine::run_graph(int rank, std::uintptr_t stream) {
  for (Item& item : std::exchange(graphs_[{rank, stream}], {})) push(rank, stream, std::move(item));
}

void MockMachine::hold(int rank, std::uintptr_t stream, bool held) {
  stream_of(rank, stream).held = held;
  pump();
}

void MockMachine::join_host(int rank, const Clock& clock) {
  join(hosts_[static_cast<std::size_t>(rank)], clock);
}

void MockMachine::touch(int rank, const void* data, std::size_t bytes, bool writes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  Clock& host = hosts_[static_cast<std::size_t>(rank)];
  ++host[host_key(rank)];
  see(rank, {begin, begin + bytes, writes}, host_key(rank), host);
}

void MockMachine::forget(int rank, std::uintptr_t begin, std::uintptr_t end) {
  std::erase_if(seen_[static_cast<std::size_t>(rank)], [&](const Seen& before) {
    return before.access.begin >= begin && before.access.end <= end;
  });
}

void MockMachine::see(int rank, const Access& what, std::uint64_t stream, const Clock& clock) {
  if (!finds_races_ || what.begin == what.end) return;
  Access access = what;
  std::vector<Seen>& seen =
      place_shared(access) ? seen_.back() : seen_[static_cast<std::size_t>(rank)];
  for (const Seen& before : seen) {
    if (before.access.end <= access.begin || access.end <= before.access.begin) continue;
    if (!before.access.writes && !access.writes) continue;
    const auto known = clock.find(before.stream);
    if (known != clock.end() && known->second >= before.time) continue;
    misuse("a race on rank " + std::to_string(rank) + ": stream " + std::to_string(stream) +
           (access.writes ? " writes" : " reads") + " what stream " +
           std::to_string(before.stream) + (before.access.writes ? " writes" : " reads"));
  }
  std::erase_if(seen, [&](const Seen& before) {
    const bool covered = before.access.begin >= access.begin && before.access.end <= access.end;
    return covered && (access.writes || (before.stream == stream && !before.access.writes));
  });
  seen.push_back({access, stream, clock.at(stream)});
}

void MockMachine::arrive(int rank, const std::string& meeting) {
  Clock& host = hosts_[static_cast<std::size_t>(rank)];
  ++host[host_key(rank)];
  join(meetings_[meeting], host);
}

void MockMachine::leave(int rank, const std::string& meeting) {
  join(hosts_[static_cast<std::size_t>(rank)], meetings_[meeting]);
}

bool MockMachine::step(Stream& stream) {
  if (stream.held || stream.items.empty()) return false;
  Item& item = stream.items.front();
  if (item.waits != nullptr && !item.waits->done) return false;
  if (item.run && !item.run()) return false;
  join(stream.clock, item.host);
  if (item.waits != nullptr) join(stream.clock, item.waits->clock);
  ++stream.clock[stream.key];
  for (const Access& access : item.accesses) see(stream.rank, access, stream.key, stream.clock);
  if (item.records != nullptr) {
    item.records->clock = stream.clock;
    item.records->done = true;
  }
  if (item.ended) item.ended();
  stream.items.pop_front();
  return true;
}

void MockMachine::pump() {
  for (bool moved = true; moved;) {
    moved = false;
    for (auto& [handle, stream] : streams_) {
      while (step(stream)) moved = true;
    }
  }
}

// ---- Memory that ranks share

cuda::Memory MockMachine::make_shared(std::size_t bytes) {
  const int fd = ::memfd_create("mock-gpu", MFD_CLOEXEC);
  if (fd < 0 || ::ftruncate(fd, static_cast<off_t>(bytes)) != 0) misuse("no memfd");
  return static_cast<cuda::Memory>(fd);
}

void MockMachine::map_shared(cuda::Address address, std::size_t bytes, cuda::Memory memory) {
  if (::mmap(reinterpret_cast<void*>(address), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED,
             static_cast<int>(memory), 0) == MAP_FAILED)
    misuse("memory could not be mapped");
  shared_.push_back({address, address + bytes, file_of(memory)});
}

void MockMachine::unmap_shared(cuda::Address address, std::size_t bytes) {
  if (std::erase_if(shared_, [&](const Shared& one) { return one.begin == address; }) != 1)
    misuse("memory is unmapped that is not mapped");
  if (::mmap(reinterpret_cast<void*>(address), bytes, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
    misuse("memory could not be unmapped");
}

bool MockMachine::place_shared(Access& access) const {
  for (const Shared& one : shared_) {
    if (access.begin < one.begin || access.begin >= one.end) continue;
    const std::uintptr_t offset = (std::uintptr_t{one.file} << 40) - one.begin;
    access.begin += offset;
    access.end += offset;
    return true;
  }
  return false;
}

}  // namespace tutti::test
