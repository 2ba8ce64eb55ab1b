#include "mock_gpu.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace tutti::test {
namespace {

std::uint64_t host_key(int rank) { return (std::uint64_t{1} << 32) + static_cast<unsigned>(rank); }

void join(MockMachine::Clock& into, const MockMachine::Clock& other) {
  for (const auto& [stream, time] : other) {
    std::uint64_t& known = into[stream];
    known = std::max(known, time);
  }
}

/// Contexts of this thread, the current one last.
thread_local std::vector<std::uintptr_t> contexts;
thread_local int capture_mode = 0;  // CU_STREAM_CAPTURE_MODE_GLOBAL

}  // namespace

MockMachine::MockMachine(int ranks)
    : calls_(static_cast<std::size_t>(ranks)),
      hosts_(static_cast<std::size_t>(ranks)),
      seen_(static_cast<std::size_t>(ranks) + 1) {}

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
    if (stream != 0 && stream < 1000) misuse("a stream that was destroyed is used");
    at->second.rank = rank;
    at->second.key = next_++;
  }
  return at->second;
}

std::uintptr_t MockMachine::make_stream(int rank) {
  const std::uintptr_t handle = static_cast<std::uintptr_t>(next_);
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
  if (what.begin == what.end) return;
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

// ---- The driver of a rank

MockCuda::~MockCuda() = default;

std::string MockCuda::error_text(int code) const {
  return code == kFailure ? "a planted fault of CUDA (719)" : "CUDA error " + std::to_string(code);
}

int MockCuda::enter(const char* function, bool needs_context) {
  if (machine_.deinitialized) return cuda::kCudaDeinitialized;
  if (machine_.captured(rank_) != 0 && needs_context && capture_mode != cuda::kCaptureRelaxed)
    machine_.misuse(std::string(function) + " while a graph is captured");
  if (needs_context && contexts.empty())
    machine_.misuse(std::string(function) + " without a context");
  return machine_.enter(rank_, function) ? kFailure : 0;
}

int MockCuda::init() noexcept {
  const std::lock_guard lock(machine_.mutex);
  return enter("cuInit", false);
}

int MockCuda::device_count(int& count) noexcept {
  const std::lock_guard lock(machine_.mutex);
  count = devices_;
  return enter("cuDeviceGetCount", false);
}

int MockCuda::bus_id(int device, std::string& id) {
  const std::lock_guard lock(machine_.mutex);
  id = "GPU " + std::to_string(first_gpu + device);
  return enter("cuDeviceGetPCIBusId", false);
}

int MockCuda::retain_context(int device, cuda::Context& made) noexcept {
  const std::lock_guard lock(machine_.mutex);
  if (const int code = enter("cuDevicePrimaryCtxRetain", false); code != 0) return code;
  ++machine_.alive["contexts"];
  made = static_cast<cuda::Context>(device + 1);
  return 0;
}

int MockCuda::release_context(int /*device*/) noexcept {
  const std::lock_guard lock(machine_.mutex);
  if (machine_.deinitialized) return cuda::kCudaDeinitialized;
  --machine_.alive["contexts"];
  return 0;
}

int MockCuda::push_context(cuda::Context context) noexcept {
  const std::lock_guard lock(machine_.mutex);
  if (const int code = enter("cuCtxPushCurrent", false); code != 0) return code;
  contexts.push_back(static_cast<std::uintptr_t>(context));
  return 0;
}

int MockCuda::pop_context() noexcept {
  if (contexts.empty()) return kFailure;
  contexts.pop_back();
  return 0;
}

int MockCuda::exchange_capture_mode(int& mode) noexcept {
  const std::lock_guard lock(machine_.mutex);
  // Nobody can be told of a failure here.
  if (mode == cuda::kCaptureRelaxed) {
    if (const int code = enter("cuThreadExchangeStreamCaptureMode", false); code != 0) return code;
  }
  std::swap(mode, capture_mode);
  return 0;
}

int MockCuda::create_stream(cuda::Stream& made) noexcept {
  const std::lock_guard lock(machine_.mutex);
  if (const int code = enter("cuStreamCreate"); code != 0) return code;
  made = static_cast<cuda::Stream>(machine_.make_stream(rank_));
  return 0;
}

int MockCuda::destroy_stream(cuda::Stream stream) noexcept {
  const std::lock_guard lock(machine_.mutex);
  machine_.drop_stream(rank_, static_cast<std::uintptr_t>(stream));
  return 0;
}

int MockCuda::create_event(cuda::Event& made) noexcept {
  const std::lock_guard lock(machine_.mutex);
  if (const int code = enter("cuEventCreate"); code != 0) return code;
  made = static_cast<cuda::Event>(next_event_++);
  events_[static_cast<std::uintptr_t>(made)] = nullptr;
  ++machine_.alive["events"];
  return 0;
}

int MockCuda::destroy_event(cuda::Event event) noexcept {
  const std::lock_guard lock(machine_.mutex);
  if (events_.erase(static_cast<std::uintptr_t>(event)) != 1)
    machine_.misuse("an event is destroyed that is none");
  --machine_.alive["events"];
  return 0;
}

int MockCuda::record_event(cuda::Event event, cuda::Stream stream) noexcept {
  const std::lock_guard lock(machine_.mutex);
  if (const int code = enter("cuEventRecord"); code != 0) return code;
  const auto at = events_.find(static_cast<std::uintptr_t>(event));
  if (at == events_.end()) {
    machine_.misuse("an event is recorded that is none");
    return 0;
  }
  at->second = std::make_shared<MockMachine::Mark>();
  MockMachine::Item item;
  item.records = at->second;
  machine_.push(rank_, static_cast<std::uintptr_t>(stream), std::move(item));
  return 0;
}

int MockCuda::wait_event(cuda::Stream stream, cuda::Event event) noexcept {
  const std::lock_guard lock(machine_.mutex);
  if (const int code = enter("cuStreamWaitEvent"); code != 0) return code;
  const auto at = events_.find(static_cast<std::uintptr_t>(event));
  if (at == events_.end()) machine_.misuse("a stream waits for an event that is none");
  if (at == events_.end() || at->second == nullptr) return 0;
  MockMachine::Item item;
  item.waits = at->second;
  machine_.push(rank_, static_cast<std::uintptr_t>(stream), std::move(item));
  return 0;
}

int MockCuda::query_event(cuda::Event event) noexcept {
  const std::lock_guard lock(machine_.mutex);
  if (const int code = enter("cuEventQuery"); code != 0) return code;
  machine_.pump();
  const Event& mark = events_[static_cast<std::uintptr_t>(event)];
  if (mark == nullptr) return 0;
  if (!mark->done) return cuda::kCudaNotReady;
  if (std::exchange(mark->seen, true)) ++machine_.looked_again;
  machine_.join_host(rank_, mark->clock);
  return 0;
}

int MockCuda::is_capturing(cuda::Stream stream, bool& capturing) noexcept {
  const std::lock_guard lock(machine_.mutex);
  if (const int code = enter("cuStreamIsCapturing"); code != 0) return code;
  const std::uintptr_t captured = machine_.captured(rank_);
  capturing = captured != 0 && captured == static_cast<std::uintptr_t>(stream);
  const bool implicit = captured != 0 && stream == cuda::Stream{};
  return implicit ? cuda::kCudaCaptureImplicit : 0;
}

int MockCuda::register_host(void* memory, std::size_t bytes) noexcept {
  const std::lock_guard lock(machine_.mutex);
  if (const int code = enter("cuMemHostRegister"); code != 0) return code;
  if (!registered_.emplace(memory, bytes).second) machine_.misuse("memory is registered twice");
  ++machine_.alive["registered memory"];
  return 0;
}

int MockCuda::unregister_host(void* memory) noexcept {
  const std::lock_guard lock(machine_.mutex);
  if (machine_.deinitialized) return cuda::kCudaDeinitialized;
  const auto at = registered_.find(memory);
  if (at == registered_.end()) {
    machine_.misuse("memory is unregistered that is not registered");
    return kFailure;
  }
  const auto begin = reinterpret_cast<std::uintptr_t>(memory);
  machine_.forget(rank_, begin, begin + at->second);
  registered_.erase(at);
  --machine_.alive["registered memory"];
  return 0;
}

int MockCuda::allocate(cuda::Address& made, std::size_t bytes, cuda::Stream stream) noexcept {
  const std::lock_guard lock(machine_.mutex);
  if (const int code = enter("cuMemAllocAsync"); code != 0) return code;
  std::vector<std::byte> memory(bytes);
  made = reinterpret_cast<cuda::Address>(memory.data());
  memory_[made] = std::move(memory);
  ++machine_.alive["allocations"];
  MockMachine::Item item;
  item.accesses = {{made, made + bytes, true}};
  machine_.push(rank_, static_cast<std::uintptr_t>(stream), std::move(item));
  return 0;
}

int MockCuda::free(cuda::Address address, cuda::Stream stream) noexcept {
  const std::lock_guard lock(machine_.mutex);
  // Given back all the same: who calls it has no second chance.
  const int code = enter("cuMemFreeAsync");
  const auto at = memory_.find(address);
  if (at == memory_.end()) {
    machine_.misuse("memory is freed that is none");
    return code;
  }
  MockMachine::Item item;
  const cuda::Address end = address + at->second.size();
  item.accesses = {{address, end, true}};
  item.ended = [this, address, end] {
    machine_.forget(rank_, address, end);
    memory_.erase(address);
    --machine_.alive["allocations"];
  };
  machine_.push(rank_, static_cast<std::uintptr_t>(stream), std::move(item));
  return code;
}

int MockCuda::copy(cuda::Address to, cuda::Address from, std::size_t bytes,
                   cuda::Stream stream) noexcept {
  const std::lock_guard lock(machine_.mutex);
  if (const int code = enter("cuMemcpyAsync"); code != 0) return code;
  push_copy(to, from, bytes, stream);
  return 0;
}

int MockCuda::copy_peer(cuda::Address to, cuda::Context to_gpu, cuda::Address from,
                        cuda::Context from_gpu, std::size_t bytes, cuda::Stream stream) noexcept {
  const std::lock_guard lock(machine_.mutex);
  if (const int code = enter("cuMemcpyPeerAsync"); code != 0) return code;
  if (to_gpu == from_gpu || to_gpu == cuda::Context{} || from_gpu == cuda::Context{})
    machine_.misuse("cuMemcpyPeerAsync within one GPU");
  push_copy(to, from, bytes, stream);
  return 0;
}

void MockCuda::push_copy(cuda::Address to, cuda::Address from, std::size_t bytes,
                         cuda::Stream stream) {
  MockMachine::Item item;
  item.accesses = {{from, from + bytes, false}, {to, to + bytes, true}};
  item.run = [=] {
    std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
    return true;
  };
  machine_.push(rank_, static_cast<std::uintptr_t>(stream), std::move(item));
}

int MockCuda::copy_rows(const cuda::Rows& rows, cuda::Stream stream) noexcept {
  const std::lock_guard lock(machine_.mutex);
  if (const int code = enter("cuMemcpy2DAsync"); code != 0) return code;
  if (rows.from_pitch < rows.width || rows.to_pitch < rows.width)
    machine_.misuse("cuMemcpy2DAsync with a pitch below the width");
  MockMachine::Item item;
  for (std::size_t i = 0; i < rows.rows; ++i) {
    const cuda::Address from = rows.from + i * rows.from_pitch;
    const cuda::Address to = rows.to + i * rows.to_pitch;
    if (i % 64 == 0) {  // as runs: a list of all rows would take the test's time
      item.accesses.push_back({from, from + rows.width, false});
      item.accesses.push_back({to, to + rows.width, true});
    }
  }
  item.run = [=] {
    for (std::size_t i = 0; i < rows.rows; ++i) {
      std::memcpy(reinterpret_cast<void*>(rows.to + i * rows.to_pitch),
                  reinterpret_cast<const void*>(rows.from + i * rows.from_pitch), rows.width);
    }
    return true;
  };
  machine_.push(rank_, static_cast<std::uintptr_t>(stream), std::move(item));
  return 0;
}

}  // namespace tutti::test
