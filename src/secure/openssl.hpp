#pragma once

#include <string>

#include <tutti/error.hpp>

// OpenSSL is loaded at first use: jobs on one host never need it. For the .cpp files of this room.
namespace tutti::secure {

/// A shared library whose functions are looked up by name. Never closed: OpenSSL registers exit
/// handlers.
class Library {
 public:
  /// `purpose` goes on with "..., which".
  Library(const char* name, const char* purpose);

  template <class Function>
  void find(Function*& function, const char* name) {
    if (status_) function = reinterpret_cast<Function*>(symbol(name));
  }
  /// unsupported, if the library or a function of it was not found.
  [[nodiscard]] const Outcome& status() const noexcept { return status_; }

 private:
  void* symbol(const char* name);
  void missing();

  const char* name_;
  const char* purpose_;
  void* handle_;
  Outcome status_;
};

}  // namespace tutti::secure
