#include "backend/nccl/abort.hpp"

#include <exception>
#include <thread>
#include <utility>

#include "base/no_signals.hpp"

namespace tutti::nccl {
namespace {

void abort_both(Api& nccl, Comm comm, const CommPlace& split) noexcept {
  (void)nccl.abort(comm);
  if (split != nullptr && *split != Comm{}) (void)nccl.abort(*split);
}

}  // namespace

Abort::Abort(Api& nccl, Comm comm, const CommPlace& split) noexcept {
  if (comm == Comm{}) return;
  try {
    std::promise<void> done;
    std::future<void> over = done.get_future();
    const base::NoSignals no_signals;
    std::thread([&nccl, comm, split, done = std::move(done)]() mutable {
      abort_both(nccl, comm, split);
      done.set_value();
    }).detach();
    over_ = std::move(over);
  } catch (const std::exception&) {
    abort_both(nccl, comm, split);  // no thread: better here than not at all
  }
}

bool Abort::wait(std::chrono::steady_clock::time_point until) noexcept {
  return !over_.valid() || over_.wait_until(until) == std::future_status::ready;
}

}  // namespace tutti::nccl
