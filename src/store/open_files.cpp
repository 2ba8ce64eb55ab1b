#include "store/open_files.hpp"

#include <pthread.h>

namespace tutti::store {

OpenFiles& OpenFiles::all() {
  static auto* const files = new OpenFiles;  // never destroyed: stores may end after statics
  return *files;
}

OpenFiles::OpenFiles() {
  ::pthread_atfork([] { all().mutex_.lock(); }, [] { all().mutex_.unlock(); },
                   [] {
                     for (os::Fd* const file : all().files_) file->reset();
                     all().mutex_.unlock();
                   });
}

void OpenFiles::add(os::Fd& file) {
  const std::lock_guard lock(mutex_);
  files_.push_back(&file);
}

void OpenFiles::remove(const os::Fd& file) {
  const std::lock_guard lock(mutex_);
  std::erase(files_, &file);
}

}  // namespace tutti::store
