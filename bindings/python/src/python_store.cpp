#include "python_store.hpp"

#include <nanobind/stl/chrono.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <chrono>
#include <iterator>

#include "gil.hpp"
#include "shown.hpp"
#include "store.hpp"

namespace nb = nanobind;

namespace tutti::python {
namespace {

using std::chrono::milliseconds;

Store::Timeout left_of(Store::Clock::time_point deadline) {
  return std::max(std::chrono::ceil<milliseconds>(deadline - Store::Clock::now()), milliseconds(0));
}

nb::list key_list(std::span<const std::string> keys) {
  nb::list all;
  for (const std::string& key : keys) all.append(key_object(key));
  return all;
}

std::vector<std::string> values_of(nb::handle values) {
  std::vector<std::string> all;
  for (const nb::handle value : values) all.push_back(text_of(value, "value"));
  return all;
}

// True if the class, or a base below ours, defines this method.
bool defines(nb::handle self, const char* method) {
  const nb::object found = nb::getattr(self.type(), method, nb::none());
  return !found.is_none() && !found.is(nb::type<StoreHandle>().attr(method));
}

}  // namespace

nb::object key_object(std::string_view key) {
  return nb::steal(
      PyUnicode_DecodeUTF8(key.data(), static_cast<Py_ssize_t>(key.size()), "surrogateescape"));
}

nb::object value_object(std::string_view value) {
  return nb::steal(PyBytes_FromStringAndSize(value.data(), static_cast<Py_ssize_t>(value.size())));
}

std::string text_of(nb::handle object, const char* what) {
  if (PyUnicode_Check(object.ptr())) {
    const nb::object encoded =
        nb::steal(PyUnicode_AsEncodedString(object.ptr(), "utf-8", "surrogateescape"));
    if (!encoded.is_valid()) throw nb::python_error();
    return text_of(encoded, what);
  }
  Py_buffer view;
  if (PyObject_GetBuffer(object.ptr(), &view, PyBUF_SIMPLE) != 0) {
    PyErr_Clear();
    const std::string type = name_of_type(object.type());
    throw nb::type_error(
        ("a store's " + std::string(what) + " must be str or bytes, not " + type).c_str());
  }
  std::string text(static_cast<const char*>(view.buf), static_cast<std::size_t>(view.len));
  PyBuffer_Release(&view);
  return text;
}

std::vector<std::string> keys_of(nb::handle keys) {
  if (PyUnicode_Check(keys.ptr()) || PyBytes_Check(keys.ptr())) return {text_of(keys, "key")};
  std::vector<std::string> all;
  if (!nb::hasattr(keys, "__iter__")) {
    const std::string type = name_of_type(keys.type());
    throw nb::type_error(("a store's keys must be a list of str or bytes, not " + type).c_str());
  }
  for (const nb::handle key : keys) all.push_back(text_of(key, "key"));
  return all;
}

PythonStore::PythonStore(nb::object self, std::shared_ptr<Store> inner, std::string skipped)
    : inner_(std::move(inner)), skipped_(std::move(skipped)) {
  class_ = name_of_type(self.type());
  self_ = owned(std::move(self));
}

bool PythonStore::changes(nb::handle self) {
  constexpr const char* kMethods[] = {"set",        "get",         "add",        "check",
                                      "wait",       "compare_set", "delete_key", "num_keys",
                                      "list_keys",  "append",      "multi_get",  "multi_set",
                                      "queue_push", "queue_pop",   "queue_len"};
  return std::any_of(std::begin(kMethods), std::end(kMethods),
                     [&](const char* method) { return defines(self, method); });
}

std::string PythonStore::describe() const { return "the " + class_; }

template <class Python, class Inner, class Base>
auto PythonStore::ask(const char* method, const Python& python, const Inner& inner,
                      const Base& base) {
  {
    const WithGil locked;
    try {
      if (method != skipped_ && defines(*self_, method)) return python(self_->attr(method));
    } catch (const nb::python_error& problem) {
      if (!problem.matches(PyExc_Exception)) throw;  // Ctrl-C
      const std::string text = describe() + ": " + method + " raised " +
                               nb::cast<std::string>(nb::repr(problem.value()));
      const bool late = problem.matches(PyExc_TimeoutError);
      raise(Outcome(late ? Errc::timeout : Errc::store, text));
    } catch (const nb::cast_error&) {
      raise(
          Outcome(Errc::store, describe() + ": " + method + " returned something else than asked"));
    } catch (const nb::builtin_exception& problem) {
      raise(Outcome(Errc::store, describe() + ": " + method + ": " + problem.what()));
    }
  }
  if (inner_) return inner(*inner_);
  return base();
}

template <class Python, class Inner>
auto PythonStore::ask(const char* method, const Python& python, const Inner& inner) {
  return ask(method, python, inner, [&]() -> decltype(inner(*inner_)) {
    raise(Outcome(Errc::unsupported,
                  describe() + " does not define " + method + ", which a store of one's own must"));
  });
}

void PythonStore::do_set(std::string_view key, std::string_view value, Deadline deadline) {
  ask(
      "set", [&](nb::handle set) { set(key_object(key), value_object(value)); },
      [&](Store& store) { store.set(key, value, left_of(deadline)); });
}

std::string PythonStore::do_get(std::string_view key, Deadline deadline) {
  if (!inner_) {  // Python's `get` takes no timeout
    const std::string keys[] = {std::string(key)};
    do_wait(keys, deadline);
  }
  return ask(
      "get", [&](nb::handle get) { return text_of(get(key_object(key)), "value"); },
      [&](Store& store) { return store.get(key, left_of(deadline)); });
}

std::int64_t PythonStore::do_add(std::string_view key, std::int64_t amount, Deadline deadline) {
  return ask(
      "add", [&](nb::handle add) { return nb::cast<std::int64_t>(add(key_object(key), amount)); },
      [&](Store& store) { return store.add(key, amount, left_of(deadline)); });
}

bool PythonStore::do_check(std::span<const std::string> keys, Deadline deadline) {
  return ask(
      "check", [&](nb::handle check) { return nb::cast<bool>(check(key_list(keys))); },
      [&](Store& store) { return store.check(keys, left_of(deadline)); });
}

void PythonStore::do_wait(std::span<const std::string> keys, Deadline deadline) {
  ask(
      "wait", [&](nb::handle wait) { wait(key_list(keys), *left_of(deadline)); },
      [&](Store& store) { store.wait(keys, left_of(deadline)); });
}

std::string PythonStore::do_compare_set(std::string_view key, std::string_view expected,
                                        std::string_view desired, Deadline deadline) {
  return ask(
      "compare_set",
      [&](nb::handle compare_set) {
        return text_of(compare_set(key_object(key), value_object(expected), value_object(desired)),
                       "value");
      },
      [&](Store& store) { return store.compare_set(key, expected, desired, left_of(deadline)); });
}

bool PythonStore::do_delete_key(std::string_view key, Deadline deadline) {
  return ask(
      "delete_key",
      [&](nb::handle delete_key) { return nb::cast<bool>(delete_key(key_object(key))); },
      [&](Store& store) { return store.delete_key(key, left_of(deadline)); });
}

std::vector<std::string> PythonStore::do_list_keys(Deadline deadline) {
  return ask(
      "list_keys", [&](nb::handle list_keys) { return keys_of(list_keys()); },
      [&](Store& store) { return store.list_keys(left_of(deadline)); });
}

std::int64_t PythonStore::do_num_keys(Deadline deadline) {
  return ask(
      "num_keys", [&](nb::handle num_keys) { return nb::cast<std::int64_t>(num_keys()); },
      [&](Store& store) { return store.num_keys(left_of(deadline)); },
      [&] { return Store::do_num_keys(deadline); });
}

void PythonStore::do_append(std::string_view key, std::string_view value, Deadline deadline) {
  ask(
      "append", [&](nb::handle append) { append(key_object(key), value_object(value)); },
      [&](Store& store) { store.append(key, value, left_of(deadline)); },
      [&] { Store::do_append(key, value, deadline); });
}

std::vector<std::string> PythonStore::do_multi_get(std::span<const std::string> keys,
                                                   Deadline deadline) {
  return ask(
      "multi_get", [&](nb::handle multi_get) { return values_of(multi_get(key_list(keys))); },
      [&](Store& store) { return store.multi_get(keys, left_of(deadline)); },
      [&] { return Store::do_multi_get(keys, deadline); });
}

void PythonStore::do_multi_set(std::span<const KeyValue> pairs, Deadline deadline) {
  ask(
      "multi_set",
      [&](nb::handle multi_set) {
        nb::list keys;
        nb::list values;
        for (const KeyValue& pair : pairs) {
          keys.append(key_object(pair.first));
          values.append(value_object(pair.second));
        }
        multi_set(keys, values);
      },
      [&](Store& store) { store.multi_set(pairs, left_of(deadline)); },
      [&] { Store::do_multi_set(pairs, deadline); });
}

void PythonStore::do_queue_push(std::string_view queue, std::string_view value, Deadline deadline) {
  ask(
      "queue_push", [&](nb::handle push) { push(key_object(queue), value_object(value)); },
      [&](Store& store) { store.queue_push(queue, value, left_of(deadline)); },
      [&] { Store::do_queue_push(queue, value, deadline); });
}

std::string PythonStore::do_queue_pop(std::string_view queue, Deadline deadline) {
  return ask(
      "queue_pop", [&](nb::handle pop) { return text_of(pop(key_object(queue)), "value"); },
      [&](Store& store) { return store.queue_pop(queue, left_of(deadline)); },
      [&] { return Store::do_queue_pop(queue, deadline); });
}

std::optional<std::string> PythonStore::do_queue_try_pop(std::string_view queue,
                                                         Deadline deadline) {
  return ask(
      "queue_pop",
      [&](nb::handle pop) -> std::optional<std::string> {
        try {
          return text_of(pop(key_object(queue), false), "value");
        } catch (const nb::python_error& problem) {
          if (!problem.matches(PyExc_IndexError)) throw;
          return std::nullopt;
        }
      },
      [&](Store& store) { return store.queue_try_pop(queue, left_of(deadline)); },
      [&] { return Store::do_queue_try_pop(queue, deadline); });
}

std::int64_t PythonStore::do_queue_len(std::string_view queue, Deadline deadline) {
  return ask(
      "queue_len", [&](nb::handle len) { return nb::cast<std::int64_t>(len(key_object(queue))); },
      [&](Store& store) { return store.queue_len(queue, left_of(deadline)); },
      [&] { return Store::do_queue_len(queue, deadline); });
}

}  // namespace tutti::python
