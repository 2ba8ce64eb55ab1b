#include "gpu/ipc_peers.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>

#include <tutti/backend/kinds.hpp>

#include "base/format.hpp"
#include "base/index.hpp"
#include "base/log.hpp"
#include "call/call_code.hpp"
#include "os/host.hpp"
#include "os/socket.hpp"
#include "secure/hmac.hpp"

namespace tutti::gpu {
namespace {

/// Everything waited for here has already been sent, so a short limit is enough.
constexpr auto kSoon = std::chrono::seconds(5);

os::Deadline soon() { return std::chrono::steady_clock::now() + kSoon; }

std::string socket_name(std::uint64_t number) { return base::format("tutti-gpu-{:016x}", number); }

/// The message that carries a descriptor to a rank's socket.
struct Sent {
  std::uint64_t secret = 0;
  std::uint64_t rank = 0;
};

}  // namespace

IpcPeers::IpcPeers(int rank, int size, const DirectOptions& options, bool for_messages)
    : rank_(rank),
      size_(size),
      options_(options),
      for_messages_(for_messages),
      state_(options.on && size <= cuda::kernels::kMostSources ? State::unknown : State::host) {}

bool IpcPeers::may_be_split(const Collective& call, const call::Extent& extent) {
  return is_collective(call.kind) && has_data(call.kind) && call.digest == 0 && !extent.uneven() &&
         extent.agreed != call::kSplits;
}

bool IpcPeers::takes(Kind kind) const noexcept {
  if (state_ == State::direct) return kernels_ || !traits_of(kind).reduces;
  return state_ != State::host;
}

std::size_t IpcPeers::bytes_of(std::size_t rank) const noexcept {
  if (for_messages_ && rank != 0) return cuda::kMemoryStep;  // the smallest allocation
  return (kSlots * slot_bytes() + cuda::kMemoryStep - 1) / cuda::kMemoryStep * cuda::kMemoryStep;
}

cuda::Address IpcPeers::slot(int rank, std::uint64_t part) const noexcept {
  return base::at(memory_, rank).address() + (part % kSlots) * slot_bytes();
}

std::uint64_t IpcPeers::number_parts(std::uint64_t count) noexcept {
  const std::uint64_t first = parts_;
  parts_ += count;
  return first;
}

void IpcPeers::cannot(const std::string& why) {
  if (why_not_.empty()) why_not_ = why;
}

// ---- What a rank does before each exchange

void IpcPeers::make(cuda::CudaApi& cuda) {
  cuda::Calls calls(cuda);
  const cuda::Current current(cuda, *gpu_->device, calls);
  memory_.resize(base::as_size(size_));
  int descriptor = -1;
  const std::size_t self = base::as_size(rank_);
  if (!calls.ok() || !memory_[self].make(calls, cuda, bytes_of(self), gpu_->device->index()) ||
      !memory_[self].share(calls, descriptor))
    return cannot(calls.failure());
  os::keep_private(descriptor);
  shared_ = os::Fd(descriptor);
  std::array<std::uint64_t, 2> random{};
  const Outcome drawn = secure::random_bytes(std::as_writable_bytes(std::span(random)));
  Result<std::string> boot = os::boot_id();
  if (!drawn.ok() || !boot)
    return cannot(std::string((drawn.ok() ? boot.status() : drawn).message()));
  Result<os::Fd> listener = os::listen_unix(socket_name(random[0]));
  if (!listener) return cannot(std::string(listener.status().message()));
  listener_ = std::move(*listener);
  mine_ = Told{call::hash_text(*boot), random[0], random[1], 1, 0};
  cuda::Calls loading(cuda);
  if (gpu_->reducer.load(loading, cuda, options_.image))
    mine_.kernels = 1;
  else
    cannot(loading.failure());
}

void IpcPeers::send() {
  for (int rank = 0; rank < size_; ++rank) {
    if (rank == rank_) continue;
    const Told& other = base::at(told_, rank);
    const Sent sent{other.secret, static_cast<std::uint64_t>(rank_)};
    const int descriptor = shared_.get();
    Result<os::Fd> there = os::connect_unix(socket_name(other.socket));
    if (there && !os::is_of_this_user(there->get())) {
      closer_.close(std::move(*there));
      return cannot(base::format("another user listens under the name of rank {}", rank));
    }
    const Outcome status = !there ? there.status()
                                  : os::send_fds(there->get(), std::span(&descriptor, 1),
                                                 std::as_bytes(std::span(&sent, 1)), soon());
    if (!status.ok()) return cannot(std::string(status.message()));
  }
  done_ = 1;
}

/// All other ranks have sent already, so this waits neither for them nor for a stranger that
/// connects and sends nothing.
void IpcPeers::receive(cuda::CudaApi& cuda) {
  cuda::Calls calls(cuda);
  const cuda::Current current(cuda, *gpu_->device, calls);
  done_ = 0;
  for (int missing = size_ - 1; missing > 0;) {
    Result<os::Fd> from = os::accept_connection(listener_.get());
    if (!from || !from->valid()) return cannot("the memory of another rank's GPU has not come");
    Sent sent;
    const auto bytes = std::as_writable_bytes(std::span(&sent, 1));
    // Peeks first: receiving a stranger's descriptors is not safe, because closing them may block.
    const Result<std::optional<std::size_t>> seen = os::peek_some(from->get(), bytes);
    if (!os::is_of_this_user(from->get()) || !seen || seen.value().value_or(0) != sizeof sent ||
        sent.secret != mine_.secret || sent.rank >= memory_.size()) {
      closer_.close(std::move(*from));
      continue;
    }
    Result<os::ReceivedFds> got =
        os::receive_fds(from->get(), bytes, std::chrono::steady_clock::now());
    if (!got || got->bytes != sizeof sent || got->fds.size() != 1) continue;
    if (!calls.ok() || !memory_[sent.rank].open(calls, cuda, bytes_of(sent.rank),
                                                gpu_->device->index(), got->fds[0].get()))
      return cannot(calls.failure());
    --missing;
  }
  done_ = 1;
}

void IpcPeers::prepare(int number, cuda::CudaApi& cuda) {
  state_ = State::agreeing;
  if (number == 0)
    make(cuda);
  else if (number == 1)
    send();
  else
    receive(cuda);
  exchange_ = Collective();
  exchange_.kind = Kind::all_gather;
  exchange_.tag = kLibraryTag;
  const auto views = [&](auto& own, auto& all) {
    using Value = std::remove_reference_t<decltype(own)>;
    all.assign(base::as_size(size_), Value());
    exchange_.input = TensorView(&own, DType::uint8, sizeof own);
    exchange_.output = TensorView(all.data(), DType::uint8, sizeof own * all.size());
  };
  if (number == 0)
    views(mine_, told_);
  else
    views(done_, all_done_);
}

int IpcPeers::first_unable(int number) const {
  for (int rank = 0; rank < size_; ++rank) {
    const bool able =
        number == 0 ? base::at(told_, rank).able != 0 && base::at(told_, rank).host == told_[0].host
                    : base::at(all_done_, rank) != 0;
    if (!able) return rank;
  }
  return -1;
}

void IpcPeers::take(int number, cuda::CudaApi& cuda, const std::string& group) {
  const int unable = first_unable(number);
  if (unable < 0 && number < kExchanges - 1) return;
  closer_.close(std::move(listener_));
  shared_.reset();
  kernels_ = std::ranges::all_of(told_, [](const Told& one) { return one.kernels != 0; });
  state_ = unable < 0 ? State::direct : State::host;
  if (unable >= 0) release(cuda);
  if (unable < 0 && (kernels_ || for_messages_)) return;  // messages need no kernels
  // A rank with a reason logs it; without one, only rank 0 logs that another rank has it.
  if (why_not_.empty() && rank_ != 0) return;
  std::string why = why_not_;
  const bool hosts =
      number == 0 && unable >= 0 && told_[base::as_size(unable)].able != 0 && why.empty();
  if (hosts)
    why = for_messages_ ? "the receiver is on another host than the sender"
                        : base::format("rank {} is on another host than rank 0", unable);
  if (why.empty()) why = "not all ranks can; a line of such a rank says why";
  const std::string text = base::format(
      "group '{}', {}: {} go through memory of the host, though TUTTI_CUDA_IPC=on: {}", group,
      !for_messages_ ? base::format("rank {}", rank_)
      : rank_ == 0   ? "the sender"
                     : "the receiver",
      unable < 0 ? "reductions on GPUs" : "tensors of GPUs", why);
  const auto level = hosts ? base::Level::info : base::Level::warning;
  if (for_messages_)  // many pairs and groups may have the same reason
    base::log_limited(level, "messages from GPU to GPU", text);
  else
    base::log(level, text);
}

void IpcPeers::release(cuda::CudaApi& cuda) noexcept {
  cuda::Calls calls(cuda);
  const cuda::Current current(cuda, *gpu_->device, calls);
  memory_.clear();
}

void IpcPeers::keep_for_ever() noexcept {
  for (cuda::SharedMemory& one : memory_) one.keep_for_ever();
  memory_.clear();
}

}  // namespace tutti::gpu
