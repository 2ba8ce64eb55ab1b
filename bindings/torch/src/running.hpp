#pragma once

#include <utility>

#include <tutti/stream.hpp>

#include "failures.hpp"
#include "process_group_tutti.hpp"

namespace tutti::torch_plugin {

using c10d::OpType;
using TorchWork = c10::intrusive_ptr<c10d::Work>;

template <class Start>
TorchWork ProcessGroupTutti::run(Operation operation, const Start& start) {
  return run_each(std::move(operation),
                  [&](ProcessGroup& group, const auto& add) { add(start(group)); });
}

template <class Start>
TorchWork ProcessGroupTutti::run_each(Operation operation, const Start& start) {
  operation.stream = CallStream::of(operation.inputs, operation.outputs, operation.title);
  const StreamGuard on_it(handle_of(operation.stream));
  ProcessGroup group = open(operation.title);
  const bool collective = !c10d::isP2POp(operation.type);
  const std::uint64_t sequence = collective ? ++sequence_ : sequence_.load();
  CompletionHook* const hook = watching_.load(std::memory_order_acquire);
  const auto began =
      hook != nullptr ? CompletionHook::Clock::now() : CompletionHook::Clock::time_point{};
  if (const c10::intrusive_ptr<WorkTutti> whole = batch()) {
    try {
      with_torchs_exceptions([&] {
        start(group, [&](tutti::Work one) { whole->add(std::move(one), std::move(operation)); });
      });
    } catch (...) {  // torch does not call endCoalescing then
      give_up_batch();
      throw;
    }
    return whole;
  }
  auto work = c10::make_intrusive<WorkTutti>(getRank(), std::move(operation), sequence);
  with_torchs_exceptions(
      [&] { start(group, [&](tutti::Work one) { work->add(std::move(one)); }); });
  if (hook != nullptr) hook->watch(*work, began);
  return work;
}

}  // namespace tutti::torch_plugin
