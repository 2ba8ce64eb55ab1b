#pragma once

#include <signal.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <utility>

namespace tutti::test {

/// Runs `act` at the next access to a page of memory, before that access. What another process does
/// between two looks of the code under test happens there, each time. One trap at a time.
class PageTrap {
 public:
  PageTrap(const void* page, std::function<void()> act) : act_(std::move(act)) {
    page_ = const_cast<void*>(page);
    armed() = this;
    struct sigaction action = {};
    action.sa_sigaction = spring;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    if (::sigaction(SIGSEGV, &action, &before_) != 0 || ::mprotect(page_, kBytes, PROT_NONE) != 0)
      std::abort();
  }
  ~PageTrap() {
    open();
    ::sigaction(SIGSEGV, &before_, nullptr);
    armed() = nullptr;
  }
  PageTrap(const PageTrap&) = delete;
  PageTrap& operator=(const PageTrap&) = delete;

  [[nodiscard]] bool sprung() const noexcept { return sprung_; }

 private:
  static constexpr std::size_t kBytes = 4096;

  static PageTrap*& armed() {
    static PageTrap* trap = nullptr;
    return trap;
  }
  static void spring(int /*signal*/, siginfo_t* about, void* /*context*/) {
    PageTrap& trap = *armed();
    const auto offset = reinterpret_cast<std::uintptr_t>(about->si_addr) -
                        reinterpret_cast<std::uintptr_t>(trap.page_);
    if (offset >= kBytes || std::exchange(trap.sprung_, true)) std::abort();  // a real fault
    trap.open();
    trap.act_();
  }
  void open() const noexcept { ::mprotect(page_, kBytes, PROT_READ | PROT_WRITE); }

  std::function<void()> act_;
  void* page_;
  struct sigaction before_ = {};
  bool sprung_ = false;
};

}  // namespace tutti::test
