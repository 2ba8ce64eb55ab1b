#include <tutti/process_group.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <exception>
#include <utility>

#include <tutti/backend.hpp>

namespace tutti {
namespace {

[[noreturn]] void refuse(std::string text) {
  raise(Status(Errc::invalid_argument, std::move(text)));
}

// An output whose elements share memory would hold whichever was written last.
bool overlaps_itself(const TensorView& view) noexcept {
  if (view.contiguous()) return false;
  const auto shape = view.shape();
  const auto strides = view.strides();
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] > 1 && strides[d] == 0) return true;
  }
  return false;
}

}  // namespace

struct ProcessGroup::Impl {
  Impl(Backend* its_backend, std::string its_name, std::vector<int> its_ranks,
       std::chrono::nanoseconds its_timeout)
      : backend(its_backend),
        name(std::move(its_name)),
        global_ranks(std::move(its_ranks)),
        timeout(its_timeout) {}
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  Backend* backend;
  std::string name;
  std::vector<int> global_ranks;
  std::chrono::nanoseconds timeout;

  /// Bit per dtype for each kind and op that the backend is known to do: asked once.
  std::array<std::array<std::atomic<std::uint32_t>, 16>, kKindCount> known{};

  bool supports(const Collective& call) {
    auto& bits = known[static_cast<std::size_t>(call.kind)][static_cast<std::size_t>(call.op) % 16];
    const std::uint32_t bit = std::uint32_t{1} << static_cast<unsigned>(call.input.dtype());
    // relaxed: the bits stand alone.
    if ((bits.load(std::memory_order_relaxed) & bit) != 0) [[likely]]
      return true;
    if (!backend->unsupported(call).empty()) return false;
    bits.fetch_or(bit, std::memory_order_relaxed);
    return true;
  }

  ~Impl() {
    backend->close(std::chrono::seconds(1));
    backend->drop_reference();
  }
};

ProcessGroup::ProcessGroup(Backend* backend, std::string name, std::vector<int> global_ranks,
                           std::chrono::nanoseconds timeout)
    : impl_(std::make_shared<Impl>(backend, std::move(name), std::move(global_ranks), timeout)) {}

int ProcessGroup::rank() const noexcept { return impl_->backend->rank(); }
int ProcessGroup::size() const noexcept { return impl_->backend->size(); }
std::string_view ProcessGroup::name() const noexcept { return impl_->name; }
std::string_view ProcessGroup::backend() const noexcept { return impl_->backend->name(); }
std::chrono::nanoseconds ProcessGroup::timeout() const noexcept { return impl_->timeout; }
Backend& ProcessGroup::impl() const noexcept { return *impl_->backend; }
Status ProcessGroup::health() const { return impl_->backend->health(); }

int ProcessGroup::global_rank(int rank) const {
  if (rank < 0 || rank >= size()) {
    refuse("global_rank: rank " + std::to_string(rank) + " is not in group '" + impl_->name +
           "' of size " + std::to_string(size()));
  }
  return impl_->global_ranks[static_cast<std::size_t>(rank)];
}

std::optional<int> ProcessGroup::group_rank(int global_rank) const noexcept {
  const auto at = std::find(impl_->global_ranks.begin(), impl_->global_ranks.end(), global_rank);
  if (at == impl_->global_ranks.end()) return std::nullopt;
  return static_cast<int>(at - impl_->global_ranks.begin());
}

Work ProcessGroup::submit(Collective& call, std::optional<std::chrono::nanoseconds> timeout,
                          bool asynchronous) {
  call.timeout = timeout.value_or(impl_->timeout);
  if (call.timeout <= std::chrono::nanoseconds(0)) [[unlikely]]
    refuse(describe(call) + " in group '" + impl_->name + "': the timeout must be positive");
  if (call.kind == Kind::broadcast && (call.root < 0 || call.root >= size())) [[unlikely]] {
    refuse(describe(call) + " in group '" + impl_->name +
           "': root must be a rank of the group, 0 to " + std::to_string(size() - 1));
  }
  if (call.output.count() != call.input.count() || call.output.dtype() != call.input.dtype())
      [[unlikely]] {
    refuse(describe(call) + " in group '" + impl_->name + "': the output is " +
           std::string(to_string(call.output.dtype())) + " x " +
           std::to_string(call.output.count()) + "; it must have the input's dtype and count");
  }
  if (!call.output.contiguous() && overlaps_itself(call.output)) [[unlikely]] {
    refuse(describe(call) + " in group '" + impl_->name +
           "': the buffer has a stride of 0, so several elements share memory; copy it first");
  }
  if (!impl_->supports(call)) [[unlikely]]
    refuse(describe(call) + " in group '" + impl_->name +
           "': " + impl_->backend->unsupported(call));
  Backend* const backend = impl_->backend;
  return Work(backend, backend->submit(call, asynchronous));
}

Work ProcessGroup::all_reduce(const TensorView& buffer, const AllReduceOptions& options) {
  Collective call;
  call.kind = Kind::all_reduce;
  call.op = options.op;
  call.input = buffer;
  call.output = buffer;
  return submit(call, options.timeout, false);
}

Work ProcessGroup::broadcast(const TensorView& buffer, const BroadcastOptions& options) {
  Collective call;
  call.kind = Kind::broadcast;
  call.root = options.root;
  call.input = buffer;
  call.output = buffer;
  return submit(call, options.timeout, false);
}

Work ProcessGroup::barrier(const BarrierOptions& options) {
  Collective call;
  call.kind = Kind::barrier;
  return submit(call, options.timeout, false);
}

std::optional<ProcessGroup> ProcessGroup::new_group(std::span<const int> ranks,
                                                    const NewGroupOptions& options) {
  std::string list;
  std::uint64_t digest = 0xcbf29ce484222325ULL;  // FNV-1a over the ranks
  std::vector<bool> seen(static_cast<std::size_t>(size()));
  bool member = false;
  std::vector<int> globals;
  for (const int rank : ranks) {
    if (rank < 0 || rank >= size()) {
      refuse("new_group in group '" + impl_->name + "': " + std::to_string(rank) +
             " is not a rank of it (size " + std::to_string(size()) + ")");
    }
    if (seen[static_cast<std::size_t>(rank)]) {
      refuse("new_group in group '" + impl_->name + "': rank " + std::to_string(rank) +
             " is listed twice");
    }
    seen[static_cast<std::size_t>(rank)] = true;
    member = member || rank == this->rank();
    digest = (digest ^ static_cast<std::uint64_t>(rank + 1)) * 0x100000001b3ULL;
    list += (list.empty() ? "" : ",") + std::to_string(rank);
    globals.push_back(impl_->global_ranks[static_cast<std::size_t>(rank)]);
  }
  if (ranks.empty()) refuse("new_group in group '" + impl_->name + "': the list of ranks is empty");
  const std::string name = options.name.empty() ? impl_->name + "[" + list + "]" : options.name;
  const std::chrono::nanoseconds timeout = options.timeout.value_or(impl_->timeout);
  std::optional<ProcessGroup> group;
  if (member) {
    // Made before all have agreed, so that whoever is faster finds our lines.
    Result<Backend*> child = impl_->backend->make_child(ranks, name);
    if (!child) raise(child.status());
    group.emplace(*child, name, std::move(globals), timeout);
  }
  Collective call;
  call.kind = Kind::new_group;
  call.digest = digest;
  submit(call, std::nullopt, false).wait();
  return group;
}

void ProcessGroup::abort(std::string_view reason) {
  impl_->backend->abort(Status(Errc::aborted, "group '" + impl_->name + "' was aborted by " +
                                                  impl_->backend->whereabouts(rank()) + ", rank " +
                                                  std::to_string(rank()) + ": " +
                                                  std::string(reason)));
}

void wait_all(std::span<Work> works) {
  std::exception_ptr first;
  for (Work& work : works) {
    try {
      work.wait();
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
}

}  // namespace tutti
