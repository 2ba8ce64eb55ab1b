#include "store.hpp"

#include <nanobind/stl/chrono.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "arguments.hpp"
#include "errors.hpp"
#include "gil.hpp"
#include "kept.hpp"
#include "python_store.hpp"
#include "shown.hpp"
#include "timeout.hpp"
#include "waiting.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace tutti::python {
namespace {

using std::chrono::milliseconds;

// Whether a call may wait for another process.
enum class Waits : unsigned char { no, yes };

Store::Timeout store_timeout_of(nb::handle value) {
  const Timeout timeout = timeout_of(value);
  if (!timeout) return std::nullopt;
  return std::chrono::ceil<milliseconds>(*timeout);
}

std::string key_of(nb::handle key) { return text_of(key, "key"); }
std::string value_of(nb::handle value) { return text_of(value, "value"); }

// Calls a method of the store behind `self` without the GIL; Ctrl-C ends the call. `action` must
// own everything that it uses except the store.
template <class Action>
auto run(nb::handle self, const char* method, Waits waits, Action action) {
  Kept::release_done();
  const auto& handle = nb::cast<const StoreHandle&>(self);
  std::shared_ptr<Store> store = handle.inner();
  if (!store) {
    // Methods defined in Python run on this thread, where Python handles Ctrl-C.
    store = std::make_shared<PythonStore>(nb::borrow(self), nullptr, method);
    const WithoutGil unlocked;
    return action(*store);
  }
  if (waits == Waits::no && !handle.remote()) {
    const WithoutGil unlocked;
    return action(*store);
  }
  return run_interruptibly([store, action] { return action(*store); });
}

// Runs `action(store, timeout)`. A timeout of a store is a failure of the store, too.
template <class Action>
auto call(nb::handle self, const char* method, Waits waits, nb::handle timeout, Action action) {
  try {
    return run(self, method, waits,
               [action = std::move(action), limit = store_timeout_of(timeout)](Store& store) {
                 return action(store, limit);
               });
  } catch (const TimeoutError& error) {
    raise_as("StoreTimeoutError", error.status());
  }
}

void set(nb::handle self, nb::handle key, nb::handle value, nb::handle timeout) {
  call(self, "set", Waits::no, timeout,
       [key = key_of(key), value = value_of(value)](Store& store, Store::Timeout limit) {
         store.set(key, value, limit);
       });
}

nb::object get(nb::handle self, nb::handle key, nb::handle timeout) {
  return value_object(call(
      self, "get", Waits::yes, timeout,
      [key = key_of(key)](Store& store, Store::Timeout limit) { return store.get(key, limit); }));
}

std::int64_t add(nb::handle self, nb::handle key, std::int64_t amount, nb::handle timeout) {
  return call(self, "add", Waits::no, timeout,
              [key = key_of(key), amount](Store& store, Store::Timeout limit) {
                return store.add(key, amount, limit);
              });
}

bool check(nb::handle self, nb::handle keys, nb::handle timeout) {
  return call(self, "check", Waits::no, timeout,
              [keys = keys_of(keys)](Store& store, Store::Timeout limit) {
                return store.check(std::span<const std::string>(keys), limit);
              });
}

void wait(nb::handle self, nb::handle keys, nb::handle timeout) {
  call(self, "wait", Waits::yes, timeout,
       [keys = keys_of(keys)](Store& store, Store::Timeout limit) {
         store.wait(std::span<const std::string>(keys), limit);
       });
}

nb::object compare_set(nb::handle self, nb::handle key, nb::handle expected, nb::handle desired,
                       nb::handle timeout) {
  return value_object(call(self, "compare_set", Waits::no, timeout,
                           [key = key_of(key), expected = value_of(expected),
                            desired = value_of(desired)](Store& store, Store::Timeout limit) {
                             return store.compare_set(key, expected, desired, limit);
                           }));
}

bool delete_key(nb::handle self, nb::handle key, nb::handle timeout) {
  return call(self, "delete_key", Waits::no, timeout,
              [key = key_of(key)](Store& store, Store::Timeout limit) {
                return store.delete_key(key, limit);
              });
}

std::int64_t num_keys(nb::handle self, nb::handle timeout) {
  return call(self, "num_keys", Waits::no, timeout,
              [](Store& store, Store::Timeout limit) { return store.num_keys(limit); });
}

nb::list list_keys(nb::handle self, nb::handle timeout) {
  nb::list all;
  for (const std::string& key :
       call(self, "list_keys", Waits::no, timeout,
            [](Store&store, Store::Timeout limit) { return store.list_keys(limit); }))
    all.append(key_object(key));
  return all;
}

void append(nb::handle self, nb::handle key, nb::handle value, nb::handle timeout) {
  call(self, "append", Waits::no, timeout,
       [key = key_of(key), value = value_of(value)](Store& store, Store::Timeout limit) {
         store.append(key, value, limit);
       });
}

nb::list multi_get(nb::handle self, nb::handle keys, nb::handle timeout) {
  nb::list all;
  for (const std::string& value : call(self, "multi_get", Waits::yes, timeout,
                                       [keys = keys_of(keys)](Store&store, Store::Timeout limit) {
                                         return store.multi_get(std::span<const std::string>(keys),
                                                                limit);
                                       }))
    all.append(value_object(value));
  return all;
}

void multi_set(nb::handle self, nb::handle keys, nb::handle values, nb::handle timeout) {
  std::vector<Store::KeyValue> pairs;
  for (std::string& key : keys_of(keys)) pairs.emplace_back(std::move(key), std::string());
  if (nb::len(values) != pairs.size()) {
    raise_as("InvalidStoreArgument",
             Outcome(Errc::invalid_argument, "multi_set: " + std::to_string(pairs.size()) +
                                                 " keys, but " + std::to_string(nb::len(values)) +
                                                 " values"));
  }
  std::size_t at = 0;
  for (const nb::handle value : values) pairs[at++].second = value_of(value);
  call(self, "multi_set", Waits::no, timeout,
       [pairs = std::move(pairs)](Store& store, Store::Timeout limit) {
         store.multi_set(pairs, limit);
       });
}

void queue_push(nb::handle self, nb::handle queue, nb::handle value, nb::handle timeout) {
  call(self, "queue_push", Waits::no, timeout,
       [queue = key_of(queue), value = value_of(value)](Store& store, Store::Timeout limit) {
         store.queue_push(queue, value, limit);
       });
}

nb::object queue_pop(nb::handle self, nb::handle queue, bool block, nb::handle timeout) {
  const std::string name = key_of(queue);
  if (block) {
    return value_object(
        call(self, "queue_pop", Waits::yes, timeout,
             [name](Store& store, Store::Timeout limit) { return store.queue_pop(name, limit); }));
  }
  const auto value =
      call(self, "queue_pop", Waits::no, timeout,
           [name](Store& store, Store::Timeout limit) { return store.queue_try_pop(name, limit); });
  if (!value) {
    raise_as("QueueEmptyError",
             Outcome(Errc::store, "queue_pop: the queue '" + name + "' is empty"));
  }
  return value_object(*value);
}

std::int64_t queue_len(nb::handle self, nb::handle queue, nb::handle timeout) {
  return call(self, "queue_len", Waits::no, timeout,
              [queue = key_of(queue)](Store& store, Store::Timeout limit) {
                return store.queue_len(queue, limit);
              });
}

bool set_will(nb::handle self, nb::handle key, nb::handle value, nb::handle timeout) {
  return call(self, "set_will", Waits::no, timeout,
              [key = key_of(key), value = value_of(value)](Store& store, Store::Timeout limit) {
                return store.set_will(key, value, limit);
              });
}

void drop_will(nb::handle self, nb::handle key, nb::handle timeout) {
  call(self, "drop_will", Waits::no, timeout,
       [key = key_of(key)](Store& store, Store::Timeout limit) { store.drop_will(key, limit); });
}

}  // namespace

StoreHandle::StoreHandle() : StoreHandle(nullptr, false) {}

StoreHandle::StoreHandle(std::shared_ptr<Store> store, bool remote)
    : store_(std::move(store)), remote_(remote), owner_(getpid()) {}

StoreHandle::~StoreHandle() {
  if (store_ == nullptr) return;
  if (owner_ != getpid()) {
    // The connection and its thread are the parent's, so only the parent may leave.
    (void)new std::shared_ptr<Store>(std::move(store_));
    return;
  }
  const WithoutGil unlocked;  // the server may wait for its users
  store_.reset();
}

const std::shared_ptr<Store>& StoreHandle::inner() const {
  if (store_ != nullptr && owner_ != getpid()) {
    raise(Outcome(Errc::unsupported, store_->describe() +
                                         " was made before this process was forked; make a new one "
                                         "in the child, or start it with \"spawn\""));
  }
  return store_;
}

std::shared_ptr<Store> store_of(nb::handle object) {
  if (!nb::isinstance<StoreHandle>(object)) {
    const std::string type = name_of_type(object.type());
    throw nb::type_error(("a store must be a tutti.Store, not a value of type " + type).c_str());
  }
  const auto& handle = nb::cast<const StoreHandle&>(object);
  // A class of Python's may define some of the methods.
  if (handle.inner() != nullptr && !PythonStore::changes(object)) return handle.inner();
  return std::make_shared<PythonStore>(nb::borrow(object), handle.inner());
}

nb::object object_of(std::shared_ptr<Store> store) {
  if (store == nullptr) return nb::none();
  return nb::cast(new StoreHandle(std::move(store), true), nb::rv_policy::take_ownership);
}

void bind_store(nb::module_& module) {
  const auto timeout = "timeout"_a = nb::none();
  Class<StoreHandle>(
      module, "Store", nb::is_weak_referenceable(),
      "A small table that the ranks of a job share: keys and values are bytes (str: UTF-8).\n\n"
      "Derive from it in Python for a store of your own: define set, get, add, check, wait,\n"
      "compare_set, delete_key and list_keys; the others have a correct, slower form built on\n"
      "these. They are called by position and without timeouts, but for `wait(keys, timeout)`,\n"
      "which must raise TimeoutError; keys are given as str, values as bytes.")
      .def(nb::init<>())
      .def("set", &set, "key"_a, "value"_a, nb::kw_only(), timeout,
           "Replace the value, and wake the callers that wait for the key.")
      .def("get", &get, "key"_a, nb::kw_only(), timeout, "Waits until the key is there.")
      .def("add", &add, "key"_a, "amount"_a, nb::kw_only(), timeout,
           "Add to a number (absent: 0); the sum.")
      .def("check", &check, "keys"_a, nb::kw_only(), timeout, "True if all keys are there.")
      .def("wait", &wait, "keys"_a, timeout, "Until all keys are there.")
      .def(
          "compare_set", &compare_set, "key"_a, "expected"_a, "desired"_a, nb::kw_only(), timeout,
          "Set to `desired` if the value is `expected`, or absent and `expected` empty. The value\n"
          "that stands afterwards; `expected` if the key is absent and stays so.")
      .def("delete_key", &delete_key, "key"_a, nb::kw_only(), timeout, "False if it was not there.")
      .def("num_keys", &num_keys, nb::kw_only(), timeout)
      .def("list_keys", &list_keys, nb::kw_only(), timeout)
      .def("append", &append, "key"_a, "value"_a, nb::kw_only(), timeout)
      .def("multi_get", &multi_get, "keys"_a, nb::kw_only(), timeout)
      .def("multi_set", &multi_set, "keys"_a, "values"_a, nb::kw_only(), timeout)
      .def("queue_push", &queue_push, "queue"_a, "value"_a, nb::kw_only(), timeout)
      .def(
          "queue_pop", &queue_pop, "queue"_a, "block"_a = true, nb::kw_only(), timeout,
          "The first value. Waits for one; with block=False an empty queue raises QueueEmptyError.")
      .def("queue_len", &queue_len, "queue"_a, nb::kw_only(), timeout)
      .def("set_will", &set_will, "key"_a, "value"_a, nb::kw_only(), timeout,
           "Set by the store when this process's connection ends unexpectedly. False: it\n"
           "cannot.")
      .def("drop_will", &drop_will, "key"_a, nb::kw_only(), timeout)
      .def_prop_ro("timeout",
                   [](nb::handle self) {
                     return run(self, "timeout", Waits::no,
                                [](Store& store) { return store.get_timeout(); });
                   })
      .def(
          "set_timeout",
          [](nb::handle self, nb::handle value) {
            const Store::Timeout limit = store_timeout_of(value);
            if (!limit) throw nb::value_error("set_timeout: None is no timeout");
            run(self, "set_timeout", Waits::no,
                [limit = *limit](Store& store) { store.set_timeout(limit); });
          },
          "timeout"_a)
      .def("__repr__", [](nb::handle self) {
        const auto& handle = nb::cast<const StoreHandle&>(self);
        const std::string type = name_of_type(self.type());
        return shown_object(handle.inner() ? "<" + type + ": " + handle.inner()->describe() + ">"
                                           : "<" + type + ">");
      });
}

}  // namespace tutti::python
