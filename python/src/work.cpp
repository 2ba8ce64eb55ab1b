#include "work.hpp"

#include <string>
#include <utility>

#include "errors.hpp"
#include "kept.hpp"
#include "timeout.hpp"
#include "waiting.hpp"

namespace nb = nanobind;

namespace tutti::python {

RunningWork::RunningWork(Work work, Buffer buffer, Group group)
    : group_(std::move(group)), buffer_(std::move(buffer)), work_(std::move(work)) {}

RunningWork::~RunningWork() {
  if (!work_.valid() || work_.done()) return;
  Kept::until_done(work_, std::move(buffer_), std::move(group_));
}

bool RunningWork::wait(nb::handle limit) {
  Kept::release_done();
  const Timeout timeout = timeout_of(limit);
  if (timeout && *timeout < timeout->zero()) {
    raise(Status(Errc::invalid_argument, "Work.wait: the timeout must not be negative"));
  }
  if (!wait_interruptibly(*group_, work_, timeout)) {
    raise(
        Status(Errc::timeout, "Work.wait: an operation of group '" + std::string(group_->name()) +
                                  "' is not done within " +
                                  std::to_string(std::chrono::duration<double>(*timeout).count()) +
                                  " s; it goes on, and can be waited for again"));
  }
  work_.wait();
  buffer_ = Buffer();
  return true;
}

bool RunningWork::is_completed() {
  Kept::release_done();
  return work_.done();
}

nb::object RunningWork::exception() {
  const Status status = work_.error();
  return status.ok() ? nb::none() : exception_of(status);
}

void bind_work(nb::module_& module) {
  nb::class_<RunningWork>(
      module, "Work", "An operation under way. Dropping it cancels nothing and waits for nothing.")
      .def("wait", &RunningWork::wait, nb::arg("timeout") = nb::none(),
           "Return True when the buffer is usable, or raise what went wrong. TimeoutError after\n"
           "`timeout` (seconds or timedelta): the operation goes on.")
      .def("is_completed", &RunningWork::is_completed, "Done, well or badly? Never blocks.")
      .def("exception", &RunningWork::exception,
           "What went wrong, or None (also while not done). Never blocks.");
}

}  // namespace tutti::python
