#include "backend/native/driver.hpp"
#include "backend/native/driver_pause.hpp"
#include "backend/native/progress_thread.hpp"
#include "os/cpu.hpp"

// Blocking sends and recvs: submitted and waited for under one lock.
namespace tutti::native {

/// Spins until a short message is there for this recv, before it is submitted. False: submit it.
inline bool Driver::take_short(engine::Group& group, const Collective& call,
                               std::uint64_t record) noexcept {
  const bool yields = options_.ranks_on_host > options_.cpus || spin_penalty_ > 0;
  for (int spins = yields ? 1 : Pause::kSpinsPerLook; spins > 0; --spins) {
    const transport::ShortLook look = engine_.take_short(group, call, record);
    if (look != transport::ShortLook::nothing) return look == transport::ShortLook::taken;
    if (driver_lock_.wanted()) return false;
    os::relax();
  }
  return false;
}

std::optional<Received> Driver::run(engine::Group& group, const Collective& call,
                                    Outcome& outcome) noexcept {
  driver_lock_.lock();
  ++submits_;
  std::optional<std::uint64_t> record;
  if (call.kind == Kind::recv) {
    record = engine_.begin_short_recv(group, call);
    if (record && take_short(group, call, *record)) {
      wait_ended(true);
      driver_lock_.unlock();  // nothing else has moved
      return Received{call.root, call.tag};
    }
  }
  const std::uint64_t ticket = engine_.submit(group, call, record);
  wake_sleepers();  // it may end another, from this rank to itself
  if (ticket == engine::kDoneTicket) {
    const bool kick = engine_.has_finished();
    if (kick) [[unlikely]]
      need_thread();
    driver_lock_.unlock();
    if (kick) [[unlikely]]
      ProgressThread::kick();
    return Received();
  }
  Received received;
  (void)wait_and_unlock(group, ticket, std::nullopt, outcome, &received);
  if (outcome.ok()) return received;
  (void)release(group, ticket);
  return std::nullopt;
}

}  // namespace tutti::native
