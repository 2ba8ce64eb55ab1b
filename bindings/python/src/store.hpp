#pragma once

#include <nanobind/nanobind.h>
#include <sys/types.h>

#include <memory>

#include <tutti/store.hpp>

namespace tutti::python {

/// The object behind Python's Store: one of ours, or the base of a store that is defined in Python.
class StoreHandle {
 public:
  StoreHandle();  ///< for a store that is defined in Python
  explicit StoreHandle(std::shared_ptr<Store> store, bool remote);
  StoreHandle(const StoreHandle&) = delete;
  StoreHandle& operator=(const StoreHandle&) = delete;
  ~StoreHandle();

  /// The C++ store; null: it is defined in Python. Throws BackendError in a forked child, because
  /// the connection or the server thread is the parent's.
  [[nodiscard]] const std::shared_ptr<Store>& inner() const;
  /// Even what does not wait may take its time.
  [[nodiscard]] bool remote() const noexcept { return remote_; }

 private:
  std::shared_ptr<Store> store_;
  bool remote_ = false;
  pid_t owner_;
};

/// The C++ store of a Python Store of any class. Needs the GIL; using the result does not.
[[nodiscard]] std::shared_ptr<Store> store_of(nanobind::handle object);

/// A Python Store for a C++ store; None for null. Needs the GIL.
[[nodiscard]] nanobind::object object_of(std::shared_ptr<Store> store);

void bind_store(nanobind::module_& module);
/// HashStore, FileStore, TCPStore, PrefixStore.
void bind_stores(nanobind::module_& module);

}  // namespace tutti::python
