#pragma once

#include <pthread.h>
#include <signal.h>

namespace tutti::base {

/// Blocks all signals in this thread while it lives. A thread that is started meanwhile never gets
/// one: signals belong to the user's threads.
class NoSignals {
 public:
  NoSignals() noexcept {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~NoSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace tutti::base
