#include "completion_hook.hpp"

#include <utility>

#include <ATen/core/ivalue.h>
#include <c10/util/Exception.h>
#include <c10/util/Logging.h>

#include "interpreter_end.hpp"
#include "without_gil.hpp"
#include "work_tutti.hpp"

namespace tutti::torch_plugin {
namespace {

/// The hook that this thread runs.
thread_local const CompletionHook* running_hook = nullptr;

}  // namespace

void CompletionHook::watch(c10d::Work& work, Clock::time_point begin) {
  const c10::intrusive_ptr<c10::ivalue::Future> future = work.getFuture();
  {
    const std::lock_guard lock(mutex_);
    ++pending_;
  }
  future->addCallback([self = shared_from_this(), begin, type = work.retrieveOpType(),
                       sequence = work.getSequencenumber()](c10::ivalue::Future& /*done*/) {
    const Clock::time_point end = Clock::now();
    self->call(std::make_shared<c10d::WorkInfo>(type, sequence, begin, end, end - begin));
  });
}

void CompletionHook::call(const std::shared_ptr<c10d::WorkInfo>& ended) noexcept {
  const CompletionHook* const outer = std::exchange(running_hook, this);
  try {
    function_(ended);
  } catch (const std::exception& problem) {
    LOG(ERROR) << "tutti: the completion hook failed, and is called again for the next operation: "
               << problem.what();
  }
  running_hook = outer;
  const std::lock_guard lock(mutex_);
  --pending_;
  fewer_.notify_all();
}

void CompletionHook::wait() {
  TORCH_CHECK_VALUE(
      running_hook != this,
      "tutti: the completion hook cannot wait for operations whose hooks run after it");
  TORCH_CHECK_VALUE(!in_chain(),
                    "tutti: what is chained to a future cannot wait for the completion hook, which "
                    "runs after it; wait on another thread");
  const WithoutGil unlocked;
  std::unique_lock lock(mutex_);
  // At the interpreter's end nobody calls the function any more.
  // Not `wait`: since GCC 12 it is a new symbol of the C++ runtime, and wheels serve older ones.
  while (pending_ != 0 && !InterpreterUse::ended()) fewer_.wait_for(lock, std::chrono::hours(1));
}

}  // namespace tutti::torch_plugin
