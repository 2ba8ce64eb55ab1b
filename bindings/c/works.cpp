// <tutti/c.h>: operations that were started.
#include <algorithm>
#include <exception>
#include <memory>
#include <set>
#include <vector>

#include <tutti/backend/group_access.hpp>

#include "face.hpp"

using namespace tutti::c;  // NOLINT: the functions are C's

namespace {

/// Waits by `wait` and frees the handle.
template <class Wait>
int end(tutti_work* work, Wait&& wait) noexcept {
  const std::unique_ptr<tutti_work> ended(work);
  return result_of([&] {
    if (work != nullptr && work->work.valid()) wait(work->work);  // empty: it was cancelled
  });
}

/// The Works of handles in a row, as the calls of C++ take them; the destructor gives them back.
class Row {
 public:
  Row(tutti_work* const* works, int count)
      : handles_(list_of(works, count, "works")), works_(handles_.size()) {
    for (std::size_t i = 0; i < handles_.size(); ++i)
      if (handles_[i] != nullptr) works_[i] = std::move(handles_[i]->work);
  }
  Row(const Row&) = delete;
  Row& operator=(const Row&) = delete;
  ~Row() {
    // Backwards: a handle that is twice in the list has its Work in the first place.
    for (std::size_t i = handles_.size(); i-- > 0;)
      if (handles_[i] != nullptr) handles_[i]->work = std::move(works_[i]);
  }
  [[nodiscard]] std::span<tutti::Work> works() noexcept { return works_; }
  /// Waits until one is done whose end no call has told, at most `limit`; tells nothing itself.
  void wait(std::chrono::nanoseconds limit) {
    std::vector<tutti::Work*> all;
    for (tutti::Work& work : works_) all.push_back(&work);
    tutti::GroupAccess::wait_any(all, limit);
  }
  /// True if that one is done and no call has told its end. This call tells it: throws its failure,
  /// which tutti::wait_any for all throws without the place.
  bool tell_end(std::size_t place) {
    return works_[place].done() && tutti::wait_any({&works_[place], 1}).has_value();
  }

 private:
  std::span<tutti_work* const> handles_;
  std::vector<tutti::Work> works_;
};

}  // namespace

int tutti_wait(tutti_work* work, int* source) {
  if (source != nullptr) *source = -1;
  return end(work, [&](tutti::Work& its) {
    its.wait();
    if (source != nullptr) *source = its.source_rank();
  });
}

int tutti_synchronize(tutti_work* work) {
  return end(work, [](tutti::Work& its) { its.synchronize(); });
}

int tutti_test(tutti_work* work, int* done) {
  return result_of([&] { at(done, "done") = work == nullptr || work->work.done() ? 1 : 0; });
}

int tutti_wait_for(tutti_work* work, double limit, int* done) {
  return result_of([&] {
    const auto longest = limit_of(limit);
    at(done, "done") = work == nullptr || work->work.wait_for(longest) ? 1 : 0;
  });
}

int tutti_work_error(tutti_work* work) {
  return result_of([&] {
    if (work != nullptr) tutti::raise_if(work->work.error());
  });
}

int tutti_received(const tutti_work* work, int* source, int* tag) {
  return result_of([&] {
    const tutti::Work& its = at(work, "the work").work;
    if (source != nullptr) *source = its.source_rank();
    if (tag != nullptr) *tag = its.tag();
  });
}

int tutti_on_done(tutti_work* work, tutti_callback callback, void* context) {
  return result_of([&] {
    tutti::Work& its = at(work, "the work").work;
    if (callback == nullptr) refuse("callback is NULL");
    its.on_done([callback, context](const tutti::Outcome& outcome) {
      // The text is there for the callback: tutti_error_text of its thread.
      callback(context, result_of([&] { tutti::raise_if(outcome); }));
    });
  });
}

int tutti_cancel(tutti_work* work, int* cancelled) {
  return result_of([&] {
    at(cancelled, "cancelled") = 0;
    *cancelled = at(work, "the work").work.cancel() ? 1 : 0;
  });
}

void tutti_detach(tutti_work* work) {
  if (work != nullptr) work->work.detach();
  delete work;
}

int tutti_wait_all(tutti_work** works, int count) {
  return result_of([&] {
    std::vector<tutti::Work> all;
    {
      Row row(works, count);
      for (tutti::Work& work : row.works())
        if (work.valid()) all.push_back(std::move(work));
    }
    // A handle may stand there twice.
    for (tutti_work* const work : std::set(works, works + count)) delete work;
    std::fill_n(works, count, nullptr);
    tutti::wait_all(all);
  });
}

int tutti_wait_any(tutti_work* const* works, int count, double limit, int* place) {
  return result_of([&] {
    at(place, "place") = -1;
    const auto longest = limit_of(limit);
    Row row(works, count);
    row.wait(longest);
    for (int i = 0; i < count; ++i) {
      *place = i;  // also that of a failure
      if (row.tell_end(static_cast<std::size_t>(i))) return;
    }
    *place = -1;
  });
}

int tutti_wait_some(tutti_work* const* works, int count, double limit, int* places, int* done) {
  return result_of([&] {
    at(done, "done") = 0;
    const auto longest = limit_of(limit);
    Row row(works, count);
    if (count > 0) (void)at(places, "places");
    row.wait(longest);
    std::exception_ptr first;
    for (int i = 0; i < count; ++i) {
      try {
        if (!row.tell_end(static_cast<std::size_t>(i))) continue;
      } catch (...) {
        if (!first) first = std::current_exception();
      }
      places[(*done)++] = i;
    }
    if (first) std::rethrow_exception(first);
  });
}
