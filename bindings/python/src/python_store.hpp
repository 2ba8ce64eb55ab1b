#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tutti/store.hpp>

#include "owned.hpp"

namespace tutti::python {

/// A store with methods defined in Python. `inner` runs the methods that Python does not define;
/// without `inner` the base class builds them on the others.
///
/// Threads: any, with or without the GIL.
/// Errors:  a Python exception becomes TimeoutError or StoreError with its text.
class PythonStore : public Store {
 public:
  /// `skipped`: a method whose Python definition is ignored, because it is the caller.
  PythonStore(nanobind::object self, std::shared_ptr<Store> inner, std::string skipped = {});

  /// True if the class of this Store, or a base below ours, defines any of the methods.
  [[nodiscard]] static bool changes(nanobind::handle self);
  [[nodiscard]] std::string describe() const override;
  /// Python code may send a drawn secret anywhere, so only the secret of a TCP store below counts.
  [[nodiscard]] SecretBytes derive_secret(std::string_view drawn) const override {
    if (inner_ == nullptr || !inner_->served()) return {};
    return inner_->derive_secret(drawn);
  }

 protected:
  void do_set(std::string_view key, std::string_view value, Deadline deadline) override;
  std::string do_get(std::string_view key, Deadline deadline) override;
  std::int64_t do_add(std::string_view key, std::int64_t amount, Deadline deadline) override;
  bool do_check(std::span<const std::string> keys, Deadline deadline) override;
  void do_wait(std::span<const std::string> keys, Deadline deadline) override;
  std::string do_compare_set(std::string_view key, std::string_view expected,
                             std::string_view desired, Deadline deadline) override;
  bool do_delete_key(std::string_view key, Deadline deadline) override;
  std::vector<std::string> do_list_keys(Deadline deadline) override;
  std::int64_t do_num_keys(Deadline deadline) override;
  void do_append(std::string_view key, std::string_view value, Deadline deadline) override;
  std::vector<std::string> do_multi_get(std::span<const std::string> keys,
                                        Deadline deadline) override;
  void do_multi_set(std::span<const KeyValue> pairs, Deadline deadline) override;
  void do_queue_push(std::string_view queue, std::string_view value, Deadline deadline) override;
  std::string do_queue_pop(std::string_view queue, Deadline deadline) override;
  std::optional<std::string> do_queue_try_pop(std::string_view queue, Deadline deadline) override;
  std::int64_t do_queue_len(std::string_view queue, Deadline deadline) override;

 private:
  template <class Python, class Inner, class Base>
  auto ask(const char* method, const Python& python, const Inner& inner, const Base& base);
  template <class Python, class Inner>
  auto ask(const char* method, const Python& python, const Inner& inner);

  Owned self_;
  std::shared_ptr<Store> inner_;
  std::string skipped_;
  std::string class_;
};

/// Keys are text in Python; bytes that are not UTF-8 become surrogates.
[[nodiscard]] nanobind::object key_object(std::string_view key);
[[nodiscard]] nanobind::object value_object(std::string_view value);
/// str, bytes or another buffer. Throws TypeError; `what` is "key" or "value".
[[nodiscard]] std::string text_of(nanobind::handle object, const char* what);
/// A sequence of keys, or one.
[[nodiscard]] std::vector<std::string> keys_of(nanobind::handle keys);

}  // namespace tutti::python
