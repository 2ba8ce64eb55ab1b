#pragma once

#include <dlfcn.h>

#include <string>

#include <tutti/error.hpp>

// OpenSSL is loaded at first use: jobs on one host never need it. For the .cpp files of this room.
namespace tutti::secure {

/// A shared library whose functions are looked up by name. Never closed: OpenSSL registers exit
/// handlers.
class Library {
 public:
  /// `purpose` goes on with "..., which".
  Library(const char* name, const char* purpose)
      : name_(name), purpose_(purpose), handle_(dlopen(name, RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) missing();
  }

  template <class Function>
  void find(Function*& function, const char* name) {
    if (!status_) return;
    function = reinterpret_cast<Function*>(dlsym(handle_, name));
    if (function == nullptr) missing();
  }
  /// unsupported, if the library or a function of it was not found.
  [[nodiscard]] const Outcome& status() const noexcept { return status_; }

 private:
  void missing() {
    const char* reason = dlerror();
    status_ =
        Outcome(Errc::unsupported, std::string("cannot load ") + name_ + ", which " + purpose_ +
                                       ": " + (reason != nullptr ? reason : "unknown reason") +
                                       "; install OpenSSL 3 (Debian: libssl3)");
  }

  const char* name_;
  const char* purpose_;
  void* handle_;
  Outcome status_;
};

}  // namespace tutti::secure
