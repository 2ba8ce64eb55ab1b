#include "work.hpp"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include <tutti/backend/backend.hpp>

#include "arguments.hpp"
#include "callbacks.hpp"
#include "errors.hpp"
#include "gil.hpp"
#include "kept.hpp"
#include "waiting.hpp"

namespace nb = nanobind;

namespace tutti::python {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::nanoseconds;

/// The exception of a UserOp's function references frames, which reference the Work that keeps it:
/// a cycle that Python's collector must see.
int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (nb::inst_ready(self)) Py_VISIT(nb::inst_ptr<RunningWork>(self)->memory().has_raised().ptr());
  return 0;
}

int clear(PyObject* self) {
  if (!nb::inst_ready(self)) return 0;
  const nb::object dropped = std::move(nb::inst_ptr<RunningWork>(self)->memory().raised());
  return 0;
}

PyType_Slot collected[] = {{Py_tp_traverse, reinterpret_cast<void*>(&traverse)},
                           {Py_tp_clear, reinterpret_cast<void*>(&clear)},
                           {0, nullptr}};

}  // namespace

/// The task that reports the end of an operation to Python. Made and destroyed with the GIL.
class RunningWork::Done : public Task {
 public:
  Done(RunningWork& work, nb::object self) : work_(work), self_(std::move(self)) {
    const nb::ft_lock_guard lock(listing);
    outstanding.insert(this);
  }
  ~Done() override {
    const nb::ft_lock_guard lock(listing);
    outstanding.erase(this);
  }
  static void arrived(void* context, const Outcome&) noexcept {
    Callbacks::leave(std::unique_ptr<Task>(static_cast<Done*>(context)));
  }
  void run() noexcept override {
    const nb::object self = take();  // keeps the Work alive during the callbacks
    if (self.is_valid()) work_.call_back(self);
  }

  /// True if an operation is done, but its callbacks have not been called.
  static bool late() {
    std::vector<std::pair<RunningWork*, nb::object>>
        all;  // polling may release the GIL, and the set may change
    {
      const nb::ft_lock_guard lock(listing);
      for (const Done* const one : outstanding) all.emplace_back(&one->work_, one->self_);
    }
    return std::any_of(all.begin(), all.end(), [](const auto& one) { return one.first->look(); });
  }
  /// The Python objects of those that will never run.
  static std::vector<nb::object> abandoned() {
    const nb::ft_lock_guard lock(listing);
    std::vector<nb::object> objects;
    for (Done* const one : outstanding) objects.push_back(std::move(one->self_));
    outstanding.clear();
    return objects;
  }

 private:
  /// The Python object, which holds work_; none after it was abandoned.
  nb::object take() {
    const nb::ft_lock_guard lock(listing);
    return outstanding.erase(this) != 0 ? std::move(self_) : nb::object();
  }

  static inline nb::ft_mutex listing;
  static inline std::set<Done*> outstanding;
  RunningWork& work_;
  nb::object self_;
};

RunningWork::RunningWork(Work work, Memory memory, Group group)
    : group_(std::move(group)), memory_(std::move(memory)), work_(std::move(work)) {
  if (memory_.sent() != nullptr) memory_.sent()->set_work(this);
}

RunningWork::~RunningWork() {
  if (memory_.sent() != nullptr) memory_.sent()->set_work(nullptr);
  // acquire: pairs with the release in `settle`. No other thread has this object any more.
  const bool running = stage_.load(std::memory_order_acquire) == Stage::running;
  const nb::error_scope kept;  // it may be freed while an exception is raised
  // Not polled: that could run the function of a UserOp in a destructor.
  if (running && work_.valid() && (memory_.may_call() || !work_.done())) {
    Kept::until_done(work_, std::move(memory_), std::move(group_));
    return;
  }
  try {
    memory_.finish(running ? work_.error() : outcome_);
  } catch (nb::python_error& problem) {
    report_unraisable(problem, "tutti: the result of a dropped operation");
  }
}

bool RunningWork::settle(nanoseconds limit) {
  // relaxed: the thread that settled it held the mutex, as this one does.
  if (stage_.load(std::memory_order_relaxed) != Stage::running) return true;
  settling_.store(std::this_thread::get_id());
  const bool done = limit > limit.zero() ? work_.wait_for(limit) : work_.done();
  settling_.store(std::thread::id());
  if (!done) return false;
  outcome_ = work_.error();
  if (outcome_.ok()) {
    work_.synchronize();  // drops the backend
    received_ = {work_.source_rank(), work_.tag()};
  }
  // release: pairs with the acquire loads of threads without the mutex.
  stage_.store(Stage::settled, std::memory_order_release);
  return true;
}

void RunningWork::finish() {
  Stage stage = Stage::settled;
  if (stage_.compare_exchange_strong(stage, Stage::finishing)) {
    const auto tell = [this] {
      stage_.store(Stage::done);
      stage_.notify_all();
      memory_.let_go();  // a __del__ that this calls may look at the Work
    };
    try {
      if (!outcome_.ok()) memory_.note_tensors();
      memory_.finish(outcome_);
    } catch (...) {
      tell();
      throw;
    }
    return tell();
  }
  if (stage == Stage::done) return;
  const WithoutGil unlocked;  // the finishing thread may need the GIL
  stage_.wait(Stage::finishing);
}

bool RunningWork::look() {
  Kept::release_done();
  // acquire: pairs with the release of the finishing thread.
  if (stage_.load(std::memory_order_acquire) == Stage::done) return true;
  // If another thread waits, that thread settles the Work.
  if (settles_here()) return false;
  if (mutex_.try_lock()) {
    const std::lock_guard<std::timed_mutex> locked(mutex_, std::adopt_lock);
    (void)settle(nanoseconds(0));
  }
  // acquire: pairs with the release in `settle`.
  if (stage_.load(std::memory_order_acquire) == Stage::running) return false;
  finish();
  return true;
}

void RunningWork::refuse_own_op(const char* method) const {
  if (!settles_here()) return;
  raise(Outcome(Errc::invalid_argument,
                std::string(method) +
                    ": called by the op of the same operation, which would wait for itself"));
}

bool RunningWork::wait(nb::handle limit) {
  Kept::release_done();
  refuse_own_op("Work.wait");
  const Timeout timeout = timeout_of(limit);
  if (timeout && *timeout < timeout->zero()) {
    raise(Outcome(Errc::invalid_argument, "Work.wait: the timeout must not be negative"));
  }
  bool done = stage_.load() != Stage::running;
  const bool was_closed = group_->closed();
  if (!done) {
    const WithoutGil unlocked;
    const Clock::time_point end = timeout ? Clock::now() + *timeout : Clock::time_point::max();
    while (true) {
      nanoseconds slice = kSlice;
      if (timeout) slice = std::clamp<nanoseconds>(end - Clock::now(), slice.zero(), slice);
      if (mutex_.try_lock_for(std::max<nanoseconds>(slice, std::chrono::milliseconds(1)))) {
        const std::lock_guard<std::timed_mutex> locked(mutex_, std::adopt_lock);
        done = settle(slice);
      }
      if (done || (timeout && Clock::now() >= end) || (!was_closed && group_->closed())) break;
      if (std::optional<nb::python_error> raised = raised_by_signal()) {
        interrupt(*group_);
        throw std::move(*raised);
      }
    }
  }
  if (!done && !was_closed && group_->closed()) raise(closed_during("Work.wait", *group_));
  if (!done) {
    raise(
        Outcome(Errc::timeout, "Work.wait: an operation of group '" + std::string(group_->name()) +
                                   "' is not done within " +
                                   std::to_string(std::chrono::duration<double>(*timeout).count()) +
                                   " s; it goes on, and can be waited for again"));
  }
  finish();
  told_.store(true);
  if (!outcome_.ok()) memory_.raise(outcome_);
  return true;
}

bool RunningWork::is_completed() { return look(); }

Outcome RunningWork::outcome() { return look() ? outcome_ : Outcome(); }

nb::object RunningWork::exception() {
  const Outcome status = outcome();
  return status.ok() ? nb::none() : memory_.exception_of(status);
}

int RunningWork::source_rank() { return look() ? received_.source : -1; }
int RunningWork::tag() { return look() ? received_.tag : -1; }

bool RunningWork::cancel() {
  refuse_own_op("Work.cancel");
  {
    const WithoutGil unlocked;
    const std::lock_guard<std::timed_mutex> locked(mutex_);
    // relaxed: the thread that settled it held the mutex, as this one does.
    if (stage_.load(std::memory_order_relaxed) != Stage::running || !work_.cancel()) return false;
    outcome_ = Outcome(Errc::invalid_argument, "Work.wait: the recv was cancelled by Work.cancel");
    // release: pairs with the acquire loads of threads without the mutex.
    stage_.store(Stage::settled, std::memory_order_release);
  }
  finish();
  return true;
}

nb::list RunningWork::result() const { return memory_.results(); }

void RunningWork::add_done_callback(nb::object self, nb::object callback) {
  if (PyCallable_Check(callback.ptr()) == 0) {
    throw nb::type_error("Work.add_done_callback: the callback must be callable");
  }
  refuse_own_op("Work.add_done_callback");
  Callbacks::start();
  if (!look()) {
    auto done = std::make_unique<Done>(*this, self);  // made and destroyed with the GIL
    const WithoutGil unlocked;
    const std::lock_guard<std::timed_mutex> locked(mutex_);
    if (!settle(nanoseconds(0))) {
      callbacks_.push_back(std::move(callback));
      if (!registered_) work_.on_done({&Done::arrived, done.release()});
      registered_ = true;
    }
  }
  if (!callback.is_valid()) return;
  finish();
  (void)call_python(callback, self);
}

void RunningWork::call_back(nb::handle self) noexcept {
  std::vector<nb::object> callbacks;
  {
    const WithoutGil unlocked;
    const std::lock_guard<std::timed_mutex> locked(mutex_);
    (void)settle(nanoseconds(0));
    callbacks.swap(callbacks_);
    registered_ = false;
  }
  const auto guarded = [](const auto& action, const char* where) {
    try {
      action();
    } catch (nb::python_error& problem) {
      report_unraisable(problem, where);
    }
  };
  guarded([&] { finish(); }, "tutti: the result of an operation");
  for (const nb::object& callback : callbacks)
    guarded([&] { (void)call_python(callback, self); }, "a callback of tutti.Work");
}

void end_callbacks() noexcept {
  // The progress thread may be slightly behind a waiting thread.
  const auto end = Clock::now() + std::chrono::seconds(1);
  try {
    while (RunningWork::Done::late() && Clock::now() < end) {
      const WithoutGil unlocked;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  } catch (nb::python_error& problem) {
    report_unraisable(problem, "tutti: the result of an operation");
  }
  Callbacks::stop();
  RunningWork::Done::abandoned().clear();
}

void bind_work(nb::module_& module) {
  Class<RunningWork>(module, "Work", nb::is_weak_referenceable(), nb::type_slots(collected),
                     "An operation under way. Dropping it cancels nothing and waits for "
                     "nothing: what it needs is\n"
                     "kept until it is done. Any thread may use it.")
      .def("wait", &RunningWork::wait, nb::arg("timeout") = nb::none(),
           "True when the local buffers are usable, or raise what went wrong. TimeoutError after\n"
           "`timeout` (seconds or timedelta): the operation goes on, and can be waited for again.")
      .def("is_completed", &RunningWork::is_completed, "Done, well or badly? Never blocks.")
      .def(
          "is_success",
          [](RunningWork& self) { return self.is_completed() && self.outcome().ok(); },
          "Done, and well? Never blocks.")
      .def("exception", &RunningWork::exception,
           "The error, or None (also while not done). Never blocks.")
      .def_prop_ro("source_rank", &RunningWork::source_rank,
                   "Of a recv that is done: the rank of the group that sent. Else -1.")
      .def_prop_ro("tag", &RunningWork::tag,
                   "Of a recv that is done: the tag of its message. Else -1.")
      .def("cancel", &RunningWork::cancel,
           "Cancel a recv that no message has matched: True, and `wait` raises InvalidArgument. "
           "False: it is too\n"
           "late, or this is no recv that runs.")
      .def_prop_ro("result", &RunningWork::result,
                   "The arrays that are written, as the caller gave them.")
      .def_prop_ro(
          "group", [](const RunningWork& self) { return object_of(self.group()); },
          "The group of the operation.")
      .def(
          "add_done_callback",
          [](nb::pointer_and_handle<RunningWork> self, nb::object callback) {
            self.p->add_done_callback(nb::borrow(self.h), std::move(callback));
          },
          nb::arg("callback"),
          "Call back with this Work once when it is done, well or badly: at once if it is "
          "already,\n"
          "else on one thread that all callbacks of the process share. Other operations may be\n"
          "started and waited for there.")
      .def("__reduce__",
           [](nb::handle) {
             throw nb::type_error(
                 "a Work cannot be pickled: its operation runs in this process; wait for it, and "
                 "send its arrays");
           })
      .def("__await__", [](nb::handle self) {
        return nb::module_::import_("tutti._awaiting").attr("result_of")(self);
      });
  define(module, "first_done", &RunningWork::first_done, nb::arg("works"),
         nb::arg("timeout") = nb::none(),
         "The places of those that are done and were not waited for; waits until there is one.");
}

}  // namespace tutti::python
