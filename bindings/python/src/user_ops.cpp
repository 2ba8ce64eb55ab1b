#include <nanobind/stl/string.h>

#include <atomic>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <tutti/backend/kinds.hpp>
#include <tutti/user_op.hpp>

#include "arguments.hpp"
#include "callbacks.hpp"
#include "calling.hpp"
#include "gil.hpp"
#include "group.hpp"
#include "kept.hpp"
#include "memory.hpp"
#include "running.hpp"
#include "shown.hpp"
#include "timeout.hpp"
#include "work.hpp"

namespace nb = nanobind;
using namespace nb::literals;

// Reductions by a Python function.
namespace tutti::python {
namespace {

/// A memoryview of a view's bytes, released at the end of this object. Needs the GIL.
class Octets {
 public:
  Octets(const TensorView& view, int flags)
      : object_(nb::steal(PyMemoryView_FromMemory(
            static_cast<char*>(view.data()), static_cast<Py_ssize_t>(view.size_bytes()), flags))) {
    if (!object_.is_valid()) throw nb::python_error();
  }
  Octets(const Octets&) = delete;
  Octets& operator=(const Octets&) = delete;
  ~Octets() {
    PyObject* const released = PyObject_CallMethod(object_.ptr(), "release", nullptr);
    if (released == nullptr) PyErr_WriteUnraisable(object_.ptr());
    Py_XDECREF(released);
  }
  [[nodiscard]] nb::handle get() const noexcept { return object_; }

 private:
  nb::object object_;
};

/// Stores the Python exception for the waiting caller, and throws its text for the library.
[[noreturn]] void throw_text_of(const nb::python_error& problem, nb::object& raised) {
  raised = nb::borrow(problem.value());
  std::string text = "an exception";
  try {
    text = name_of_type(problem.type());
    text += ": " + nb::cast<std::string>(nb::str(problem.value()));
  } catch (const std::exception&) {  // __str__ failed, or its result is not UTF-8
  }
  raise(Outcome(Errc::aborted, std::move(text)));
}

/// The caller's arguments except the arrays.
struct By {
  const std::string& name;
  std::size_t block;
  nb::handle combine;  ///< called with the bytes of the result and of the next input
  nb::handle executor;
};

/// Makes the op. It holds no Python objects, so that any thread may drop it; `memory` holds them.
UserOp op_of(const By& by, Memory& memory) {
  return UserOp(
      by.name,
      [combine = memory.keep(nb::borrow(by.combine)), &calls = memory.calls()](
          const TensorView& result, const TensorView& next) {
        const WithGil locked;
        try {
          const Octets to(result, PyBUF_WRITE);
          const Octets from(next, PyBUF_READ);
          calls.running.store(std::this_thread::get_id());
          (void)call_python(combine, to.get(), from.get());
          calls.running.store(std::thread::id());
        } catch (const nb::python_error& problem) {
          calls.running.store(std::thread::id());
          throw_text_of(problem, calls.raised);
        }
      },
      by.block);
}

/// Makes an Executor that calls `submit` of a Python executor.
Executor executor_of(const By& by, Memory& memory) {
  if (by.executor.is_none()) return {};
  const nb::handle submit = memory.keep(by.executor.attr("submit"));
  return [submit, &raised = memory.raised()](std::function<void()> run) {
    const WithGil locked;
    const auto begun = std::make_shared<std::atomic<bool>>(false);
    try {
      const nb::object its = nb::borrow(submit);  // the operation may end during the call
      const nb::object task = nb::cpp_function([run = std::move(run), begun] {
        if (begun->exchange(true)) return;
        const WithoutGil unlocked;
        run();
      });
      (void)call_python(its, task);
    } catch (nb::python_error& problem) {
      if (!begun->exchange(true)) throw_text_of(problem, raised);
      // The operation may have ended, and `raised` with it.
      report_unraisable(problem, "the executor of a UserOp, which had begun to run it");
    }
  };
}

/// Runs the function on the callback thread, because the progress thread must not wait for the GIL.
void leave_for_callbacks(std::function<void()> run) {
  class Later final : public Task {
   public:
    explicit Later(std::function<void()> action) : action_(std::move(action)) {}
    void run() noexcept override {
      const WithoutGil unlocked;
      action_();
    }

   private:
    std::function<void()> action_;
  };
  Callbacks::leave(std::make_unique<Later>(std::move(run)));
}

/// Runs `reduce(group, op, options)`, which reads and writes what `memory` holds.
template <class Reduce>
nb::object run_reduction(const Group& group, Memory memory, const By& by, int root, const End& end,
                         const Reduce& reduce) {
  const UserOp op = op_of(by, memory);
  UserReduceOptions options{
      .root = root, .timeout = timeout_of(end.timeout), .executor = executor_of(by, memory)};
  if (end.asynchronous || options.executor) {
    Callbacks::start();
    options.unattended = &leave_for_callbacks;
  }
  const auto start = [&](ProcessGroup& to) { return reduce(to, op, options); };
  if (!end.asynchronous && !options.executor) return run(group, std::move(memory), false, start);
  // Not polled here, because a poll would run the function in this call.
  nb::object work = run_asynchronous(group, std::move(memory), start);
  if (end.asynchronous) return work;
  // Ctrl-C ends this wait though the executor never runs the function.
  (void)nb::inst_ptr<RunningWork>(work)->wait(nb::none());
  return nb::none();
}

UserOpOptions rootless(const UserReduceOptions& options) {
  return {
      .timeout = options.timeout, .executor = options.executor, .unattended = options.unattended};
}

nb::object all_reduce_by(const GroupHandle& self, nb::handle array, const std::string& name,
                         std::size_t block, nb::handle combine, nb::handle executor,
                         nb::handle timeout, bool async_op) {
  const Group group = self.open();
  Memory memory("all_reduce");
  const TensorView view = memory.one(array, "array", Use::write);
  return run_reduction(group, std::move(memory), {name, block, combine, executor}, 0,
                       {timeout, async_op},
                       [&](ProcessGroup& to, const UserOp& op, const UserReduceOptions& options) {
                         return to.all_reduce(view, op, rootless(options));
                       });
}

nb::object reduce_by(const GroupHandle& self, nb::handle array, int root, const std::string& name,
                     std::size_t block, nb::handle combine, nb::handle executor, nb::handle timeout,
                     bool async_op) {
  const Group group = self.open();
  Memory memory("reduce");
  const Use use = uses_output(Kind::reduce, group->rank(), root) ? Use::write : Use::shown;
  const TensorView view = memory.one(array, "array", use);
  return run_reduction(group, std::move(memory), {name, block, combine, executor}, root,
                       {timeout, async_op},
                       [&](ProcessGroup& to, const UserOp& op, const UserReduceOptions& options) {
                         return to.reduce(view, op, options);
                       });
}

nb::object reduce_scatter_by(const GroupHandle& self, nb::handle output, nb::handle input,
                             const std::string& name, std::size_t block, nb::handle combine,
                             nb::handle executor, nb::handle timeout, bool async_op) {
  const Group group = self.open();
  Memory memory("reduce_scatter");
  const By by{name, block, combine, executor};
  const End end{timeout, async_op};
  const TensorView to = memory.one(output, "output", Use::write);
  if (PyList_Check(input.ptr()) || PyTuple_Check(input.ptr())) {
    const std::vector<TensorView> from = memory.list(input, "input", Use::read);
    return run_reduction(
        group, std::move(memory), by, 0, end,
        [&](ProcessGroup& its, const UserOp& op, const UserReduceOptions& options) {
          return its.reduce_scatter(to, std::span<const TensorView>(from), op, rootless(options));
        });
  }
  const TensorView from = memory.one(input, "input", Use::read);
  return run_reduction(group, std::move(memory), by, 0, end,
                       [&](ProcessGroup& its, const UserOp& op, const UserReduceOptions& options) {
                         return its.reduce_scatter(to, from, op, rootless(options));
                       });
}

}  // namespace

void bind_user_ops(nb::module_& module, Class<GroupHandle>& group) {
  define(
      module, "know_op",
      [](const std::string& its_name, std::size_t its_block) {
        const UserOp op(
            its_name, [](const TensorView&, const TensorView&) {}, its_block);
      },
      "name"_a, "block"_a,
      "Errors of this process tell such an op by its name from now on, whichever rank uses it.");
  const auto name = "name"_a;
  const auto block = "block"_a;
  const auto combine = "combine"_a;
  const auto executor = "executor"_a = nb::none();
  const auto timeout = "timeout"_a = nb::none();
  const auto async_op = "async_op"_a = false;
  group
      .def("_all_reduce_by", &all_reduce_by, "array"_a, nb::kw_only(), name, block, combine,
           executor, timeout, async_op,
           "all_reduce by `combine(result, next)`, which is called with the bytes of both and\n"
           "writes the first: in the executor, else on a thread that waits for the Work or looks\n"
           "at it, else on the thread of callbacks.")
      .def("_reduce_by", &reduce_by, "array"_a, "root"_a, nb::kw_only(), name, block, combine,
           executor, timeout, async_op, "reduce, as _all_reduce_by.")
      .def("_reduce_scatter_by", &reduce_scatter_by, "output"_a, "input"_a, nb::kw_only(), name,
           block, combine, executor, timeout, async_op,
           "reduce_scatter, as _all_reduce_by; `input` is an array, or a list of one for each "
           "rank.");
}

}  // namespace tutti::python
