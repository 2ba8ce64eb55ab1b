#include "secure/openssl.hpp"

#include <dlfcn.h>
#include <gnu/lib-names.h>

namespace tutti::secure {
namespace {

// libssl calls libcrypto by names that the program may have, too: it exports another OpenSSL, or
// has loaded one for all. With RTLD_DEEPBIND a library looks among its own dependencies first. The
// sanitizers' dlopen ends the process then, because the library calls malloc of the C library and
// not theirs. To AddressSanitizer that is harmless, since libssl and libcrypto free what they
// allocate: so the C library's own dlopen is called. ThreadSanitizer must see the malloc, or it
// takes memory that one thread frees and another gets for a race.
void* load(const char* name) {
  constexpr int kFlags = RTLD_NOW | RTLD_LOCAL;
  if (::dlsym(RTLD_DEFAULT, "__tsan_init") != nullptr) return ::dlopen(name, kFlags);
  for (const char* const file : {LIBC_SO, LIBDL_SO}) {  // libdl: before glibc 2.34
    void* const library = ::dlopen(file, RTLD_LAZY | RTLD_NOLOAD);
    if (library == nullptr) continue;
    const auto open = reinterpret_cast<decltype(&::dlopen)>(::dlsym(library, "dlopen"));
    if (open != nullptr) return open(name, kFlags | RTLD_DEEPBIND);
  }
  return ::dlopen(name, kFlags | RTLD_DEEPBIND);
}

/// True if one that was loaded before calls another OpenSSL, which the program exports.
bool is_mixed(void* library) noexcept {
  constexpr const char* kAny = "CRYPTO_zalloc";  // of libcrypto, which libssl brings, too
  void* const of_all = ::dlsym(RTLD_DEFAULT, kAny);
  return of_all != nullptr && of_all != ::dlsym(library, kAny);
}

}  // namespace

Library::Library(const char* name, const char* purpose) : name_(name), purpose_(purpose) {
  // By others: before the first library that we load.
  static const bool is_loaded = ::dlopen("libcrypto.so.3", RTLD_LAZY | RTLD_NOLOAD) != nullptr;
  handle_ = load(name);
  if (handle_ == nullptr) {
    missing();
  } else if (is_loaded && is_mixed(handle_)) {
    status_ = Outcome(
        Errc::unsupported,
        std::string("cannot use ") + name_ + ", which " + purpose_ +
            ": it was loaded before tutti needed it, and calls another OpenSSL, which this program "
            "exports; export none (-Wl,--exclude-libs,ALL), or connect before it is loaded");
  }
}

void* Library::symbol(const char* name) {
  void* const found = ::dlsym(handle_, name);
  if (found == nullptr) missing();
  return found;
}

void Library::missing() {
  const char* reason = ::dlerror();
  status_ = Outcome(Errc::unsupported, std::string("cannot load ") + name_ + ", which " + purpose_ +
                                           ": " + (reason != nullptr ? reason : "unknown reason") +
                                           "; install OpenSSL 3 (Debian: libssl3)");
}

}  // namespace tutti::secure
