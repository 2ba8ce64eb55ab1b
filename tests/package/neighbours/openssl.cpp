// The functions of make_openssl.py have OpenSSL's names. They stand in the program, or in a library
// that is loaded for all before tutti takes the system's OpenSSL.

#include <dlfcn.h>

#include <cstdlib>

bool use_neighbour() {
  if (const char* const library = std::getenv("LOADED_BEFORE"); library != nullptr)
    return ::dlopen(library, RTLD_NOW | RTLD_GLOBAL) != nullptr;
  return ::dlsym(RTLD_DEFAULT, "EVP_MD_fetch") != nullptr;
}
