#include "kept.hpp"

#include <atomic>
#include <memory>

#include <tutti/backend/backend.hpp>

namespace nb = nanobind;

namespace tutti::python {
namespace {

// A stack of the objects of done operations. No mutex: a child forked while it is held could never
// drop anything.
std::atomic<Kept*> finished{nullptr};

}  // namespace

void Kept::done(void* context, const Outcome& status) noexcept {
  Kept* const kept = static_cast<Kept*>(context);
  kept->outcome_ = status;
  // relaxed: only the exchange below counts.
  kept->next_ = finished.load(std::memory_order_relaxed);
  // release: pairs with the acquire in release_done, which reads *kept.
  while (!finished.compare_exchange_weak(kept->next_, kept, std::memory_order_release,
                                         std::memory_order_relaxed)) {
  }
}

void Kept::until_done(Work& work, Memory memory, Group group) {
  std::unique_ptr<Kept> kept(new Kept(std::move(memory), std::move(group)));
  work.on_done({&Kept::done, kept.get()});
  (void)kept.release();  // the queue owns it from here on
  work.detach();
}

void Kept::release_done() noexcept {
  // relaxed: an empty queue says nothing about other memory.
  if (finished.load(std::memory_order_relaxed) == nullptr) [[likely]]
    return;
  // acquire: pairs with the release in done.
  Kept* kept = finished.exchange(nullptr, std::memory_order_acquire);
  while (kept != nullptr) {
    const std::unique_ptr<Kept> dropped(kept);
    kept = kept->next_;
    try {
      dropped->memory_.finish(dropped->outcome_);
    } catch (nb::python_error& problem) {
      report_unraisable(problem, "tutti: the result of a dropped operation");
    }
  }
}

void report_unraisable(nb::python_error& problem, const char* where) noexcept {
  problem.restore();
  const nb::object place = nb::steal(PyUnicode_FromString(where));
  PyErr_WriteUnraisable(place.ptr());
}

}  // namespace tutti::python
