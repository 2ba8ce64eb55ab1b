#include "process_group_tutti.hpp"

#include <algorithm>
#include <utility>

#include "running.hpp"
#include "views.hpp"
#include "without_gil.hpp"

namespace tutti::torch_plugin {

ProcessGroupTutti::ProcessGroupTutti(ProcessGroup group, c10::intrusive_ptr<Options> options)
    : Backend(group.rank(), group.size()), group_(std::move(group)), options_(std::move(options)) {
  init();
}

ProcessGroupTutti::~ProcessGroupTutti() {
  const WithoutGil unlocked;
  group_ = {};
}

ProcessGroup ProcessGroupTutti::open(const char* operation) {
  const std::lock_guard lock(mutex_);
  TORCH_CHECK_WITH(DistBackendError, static_cast<bool>(group_), operation, " in group '",
                   getGroupUid(), "': the group was shut down");
  return group_;
}

c10::intrusive_ptr<WorkTutti> ProcessGroupTutti::batch() {
  const std::lock_guard lock(mutex_);
  return batch_;
}

void ProcessGroupTutti::give_up_batch() {
  c10::intrusive_ptr<WorkTutti> last;
  const std::lock_guard lock(mutex_);
  last.swap(batch_);
}

TorchWork ProcessGroupTutti::send(std::vector<at::Tensor>& tensors, int to, int tag) {
  const TensorView view = view_to_move(single(tensors, "send"), "send");
  return run({OpType::SEND, "tutti:send", tensors, tensors},
             [&](ProcessGroup& group) { return group.isend(view, to, {.tag = tag}); });
}

TorchWork ProcessGroupTutti::recv(std::vector<at::Tensor>& tensors, int from, int tag) {
  TORCH_CHECK_VALUE(from >= 0, "tutti: recv: the sender must be a rank of the group, not ", from);
  const TensorView view = view_to_move(single(tensors, "recv"), "recv");
  return run({OpType::RECV, "tutti:recv", tensors, tensors},
             [&](ProcessGroup& group) { return group.irecv(view, from, {.tag = tag}); });
}

TorchWork ProcessGroupTutti::recvAnysource(std::vector<at::Tensor>& tensors, int tag) {
  const TensorView view = view_to_move(single(tensors, "recv"), "recv");
  return run({OpType::RECVANYSOURCE, "tutti:recvAnySource", tensors, tensors},
             [&](ProcessGroup& group) { return group.irecv(view, any_source, {.tag = tag}); });
}

TorchWork ProcessGroupTutti::barrier(const c10d::BarrierOptions& options) {
  const std::optional<at::Device> bound = getBoundDeviceId();
  if (!options.device_ids.empty())
    synchronize_current(options.device_ids.front());
  else if (bound && bound->is_cuda())
    synchronize_current(bound->index());
  return run({OpType::BARRIER, "tutti:barrier"}, [&](ProcessGroup& group) {
    return group.barrier({.timeout = timeout_of(options.timeout)});
  });
}

void ProcessGroupTutti::monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) {
  ProcessGroup group = open("monitored_barrier");
  // Torch's 0 means no time at all here.
  const auto timeout =
      options.timeout == kNoTimeout ? std::chrono::milliseconds(1) : options.timeout;
  with_torchs_exceptions([&] {
    group.monitored_barrier({.timeout = timeout_of(timeout), .wait_all_ranks = wait_all_ranks});
  });
}

void ProcessGroupTutti::startCoalescing() {
  const std::lock_guard lock(mutex_);
  TORCH_CHECK_VALUE(!batch_, "tutti: operations of this group are coalesced already");
  batch_ = c10::make_intrusive<WorkTutti>(
      getRank(), Operation{OpType::COALESCED, "tutti:coalesced"}, sequence_.load());
  batch_began_ = CompletionHook::Clock::now();
}

TorchWork ProcessGroupTutti::endCoalescing() {
  c10::intrusive_ptr<WorkTutti> whole;
  CompletionHook::Clock::time_point began;
  {
    const std::lock_guard lock(mutex_);
    TORCH_CHECK_VALUE(batch_, "tutti: no operations of this group are coalesced");
    whole.swap(batch_);
    began = batch_began_;
  }
  if (CompletionHook* const hook = watching_.load()) hook->watch(*whole, began);
  return whole;
}

void ProcessGroupTutti::registerOnCompletionHook(
    std::function<void(std::shared_ptr<c10d::WorkInfo>)>&& hook) {
  TORCH_CHECK_VALUE(hook, "tutti: the completion hook is empty");
  const std::lock_guard lock(mutex_);
  TORCH_CHECK_VALUE(!hook_, "tutti: this group has a completion hook already");
  hook_ = std::make_shared<CompletionHook>(std::move(hook));
  onCompletionHook_ = [](const std::shared_ptr<c10d::WorkInfo>&) {};  // hasHooks() looks at it
  watching_.store(hook_.get());
}

void ProcessGroupTutti::waitForPendingWorks() {
  CompletionHook* const hook = watching_.load();
  TORCH_CHECK_VALUE(hook != nullptr, "tutti: this group has no completion hook to wait for");
  hook->wait();
}

c10::intrusive_ptr<c10d::Backend> ProcessGroupTutti::split(
    const c10::intrusive_ptr<c10d::Store>& /*store*/, const std::vector<int>& ranks,
    const c10::intrusive_ptr<c10d::Backend::Options>& options) {
  TORCH_CHECK_VALUE(!ranks.empty(), "tutti: split: the list of ranks is empty");
  std::vector<int> sorted = ranks;
  std::ranges::sort(sorted);
  TORCH_CHECK_VALUE(std::ranges::adjacent_find(sorted) == sorted.end(),
                    "tutti: split: the list names a rank twice");
  TORCH_CHECK_VALUE(sorted.front() >= 0 && sorted.back() < getSize(),
                    "tutti: split: the ranks of this group are 0 to ", getSize() - 1);
  const auto ours = std::ranges::find(ranks, getRank());
  const bool member = ours != ranks.end();
  ProcessGroup group = open("split");
  const auto timeout = options ? options->timeout : options_->timeout;
  NewGroupOptions wanted{.timeout = timeout_of(timeout)};
  if (options) wanted.name = options->group_name;
  // Lists have no rank in common, so the least rank of each tells which one it is.
  ProcessGroup part = with_torchs_exceptions([&] {
    return group.split(member ? std::optional<int>(sorted.front()) : std::nullopt,
                       static_cast<int>(ours - ranks.begin()), wanted);
  });
  if (!part) return nullptr;
  auto part_options = c10::make_intrusive<Options>(timeout);
  return c10::make_intrusive<ProcessGroupTutti>(std::move(part), std::move(part_options));
}

void ProcessGroupTutti::setTimeout(std::chrono::milliseconds timeout) {
  ProcessGroup group = open("set_timeout");
  with_torchs_exceptions([&] { group.set_timeout(bounded(timeout)); });
  options_->timeout = timeout;
}

c10d::ErrorType ProcessGroupTutti::getError() {
  switch (open("get_error").health().code()) {
    case Errc::ok: return c10d::ErrorType::SUCCESS;
    case Errc::timeout: return c10d::ErrorType::TIMEOUT;
    case Errc::peer_lost:
    case Errc::peer_left: return c10d::ErrorType::REMOTE_ERROR;
    default: return c10d::ErrorType::COMM_ERROR;
  }
}

void ProcessGroupTutti::abort() { open("abort").abort("torch's abort() was called"); }

void ProcessGroupTutti::shutdown() {
  const WithoutGil unlocked;
  ProcessGroup last;
  const std::lock_guard lock(mutex_);
  std::swap(last, group_);
}

}  // namespace tutti::torch_plugin
