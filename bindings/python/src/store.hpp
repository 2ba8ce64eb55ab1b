#pragma once

#include <nanobind/nanobind.h>
#include <sys/types.h>

#include <memory>

#include <tutti/store.hpp>

namespace tutti::python {

/// The object behind Python's Store: one of ours, or the base of a store that is defined in Python.
class StoreHandle {
 public:
  StoreHandle();  ///< of a store that is defined in Python
  explicit StoreHandle(std::shared_ptr<Store> store, bool remote);
  StoreHandle(const StoreHandle&) = delete;
  StoreHandle& operator=(const StoreHandle&) = delete;
  ~StoreHandle();

  /// Null: defined in Python. Throws BackendError in a forked child: the connection, or the thread
  /// that serves, is the parent's.
  [[nodiscard]] const std::shared_ptr<Store>& inner() const;
  /// Even what does not wait may take its time.
  [[nodiscard]] bool remote() const noexcept { return remote_; }

 private:
  std::shared_ptr<Store> store_;
  bool remote_ = false;
  pid_t owner_;
};

/// A store for C++, of whatever class Python has made of it. Needs the GIL; the store does not.
[[nodiscard]] std::shared_ptr<Store> store_of(nanobind::handle object);

/// Python's Store for one of ours that Python has not made; None for null. Needs the GIL.
[[nodiscard]] nanobind::object object_of(std::shared_ptr<Store> store);

void bind_store(nanobind::module_& module);
/// HashStore, FileStore, TCPStore, PrefixStore.
void bind_stores(nanobind::module_& module);

}  // namespace tutti::python
