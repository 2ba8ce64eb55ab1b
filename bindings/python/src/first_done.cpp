#include <algorithm>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <tutti/backend/group_access.hpp>

#include "gil.hpp"
#include "waiting.hpp"
#include "work.hpp"

namespace nb = nanobind;

// Waits for the first of several Works.
namespace tutti::python {

std::vector<std::size_t> RunningWork::first_done(nb::sequence given, nb::handle timeout) {
  std::vector<RunningWork*> works;
  for (const nb::handle one : given) {
    if (!nb::isinstance<RunningWork>(one)) throw nb::type_error("first_done: each must be a Work");
    works.push_back(nb::inst_ptr<RunningWork>(one));
  }
  const Timeout limit = timeout_of(timeout);
  const std::chrono::steady_clock::time_point end =
      limit ? std::chrono::steady_clock::now() + *limit
            : std::chrono::steady_clock::time_point::max();
  std::vector<bool> was_closed;
  for (RunningWork* const work : works) {
    work->refuse_own_op("wait_any");
    was_closed.push_back(work->group_->closed());
  }
  while (true) {
    std::vector<std::size_t> ended;
    std::vector<RunningWork*> waiting;
    for (std::size_t i = 0; i < works.size(); ++i) {
      if (works[i]->told_.load()) continue;
      if (works[i]->look())
        ended.push_back(i);
      else if (!was_closed[i] && works[i]->group_->closed())
        raise(closed_during("wait_any", *works[i]->group_));
      else
        waiting.push_back(works[i]);
    }
    const std::chrono::nanoseconds left = end - std::chrono::steady_clock::now();
    if (!ended.empty() || waiting.empty() || left <= left.zero()) return ended;
    const WithoutGil unlocked;
    {
      // Of those that another thread waits for, that one sees the end.
      std::sort(waiting.begin(), waiting.end());
      waiting.erase(std::unique(waiting.begin(), waiting.end()), waiting.end());
      std::vector<Work*> ours;
      std::vector<std::unique_lock<std::timed_mutex>> locks;
      for (RunningWork* const work : waiting) {
        std::unique_lock lock(work->mutex_, std::try_to_lock);
        // relaxed: as in `cancel`.
        if (!lock || work->stage_.load(std::memory_order_relaxed) != Stage::running) continue;
        work->settling_.store(std::this_thread::get_id());
        ours.push_back(&work->work_);
        locks.push_back(std::move(lock));
      }
      const bool all = ours.size() == waiting.size();
      const auto slice =
          std::min<std::chrono::nanoseconds>(all ? kSlice : std::chrono::milliseconds(1), left);
      if (ours.empty())
        std::this_thread::sleep_for(slice);
      else
        GroupAccess::wait_any(ours, slice);
      for (RunningWork* const work : waiting) {
        std::thread::id self = std::this_thread::get_id();
        work->settling_.compare_exchange_strong(self, std::thread::id());
      }
    }
    if (std::optional<nb::python_error> raised = raised_by_signal()) {
      interrupt(*waiting.front()->group_);
      throw std::move(*raised);
    }
  }
}

}  // namespace tutti::python
