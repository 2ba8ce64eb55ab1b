#include "logs.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <system_error>

#include "base/format.hpp"
#include "os/host.hpp"
#include "os/system_error.hpp"

namespace tutti::launcher {
namespace {

namespace fs = std::filesystem;

Outcome folder_error(const fs::path& folder, int error_number) {
  const Outcome status =
      os::system_error("cannot make the folder of logs " + folder.string(), error_number);
  return Outcome(Errc::invalid_argument,
                 std::string(status.message()) + "; give one that can be written as --log-dir");
}

/// A run id may hold anything; a name of a file may not.
std::string as_file_name(std::string text) {
  for (char& letter : text) {
    if (std::isalnum(static_cast<unsigned char>(letter)) == 0 && letter != '-' && letter != '_')
      letter = '_';
  }
  constexpr std::size_t kLongest = 100;
  return text.substr(0, kLongest);
}

}  // namespace

Result<Logs> Logs::make(const Options& options, const std::string& run_id) {
  std::error_code error;
  fs::path parent = options.log_dir;
  if (parent.empty()) {
    parent = fs::temp_directory_path(error);
    if (error) return folder_error("for temporary files", error.value());
  } else {
    // Workers may change their directory; the table of failures names files.
    parent = fs::absolute(parent, error);
    if (!error) fs::create_directories(parent, error);
    if (error) return folder_error(parent, error.value());
  }
  // The nodes may share a disk.
  const int first = options.node_rank * options.nproc_per_node;
  const int last = first + options.nproc_per_node - 1;
  std::string name =
      (parent / (options.log_dir.empty() ? "tuttirun_" : "")).string() + as_file_name(run_id) +
      base::format("_{}_node{}_rank{}{}_XXXXXX", as_file_name(os::host_name()), options.node_rank,
                   first, last > first ? base::format("-{}", last) : "");
  if (mkdtemp(name.data()) == nullptr) return folder_error(name, errno);
  return Logs(name);
}

std::string tail_of(const std::string& path) {
  constexpr std::size_t kMost = std::size_t{64} << 10;
  const os::Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  const off_t size = file.valid() ? lseek(file.get(), 0, SEEK_END) : 0;
  std::string text(std::min(kMost, static_cast<std::size_t>(std::max<off_t>(size, 0))), '\0');
  const ssize_t got = text.empty() ? 0
                                   : pread(file.get(), text.data(), text.size(),
                                           size - static_cast<off_t>(text.size()));
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  return text;
}

Result<Logs::File> Logs::open(int restart, int local_rank, int stream) const {
  const fs::path folder =
      folder_ / base::format("attempt_{}", restart) / std::to_string(local_rank);
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return folder_error(folder, error.value());
  File file;
  file.path = (folder / (stream == STDOUT_FILENO ? "stdout.log" : "stderr.log")).string();
  // Appending: a worker's children may write to it as well.
  file.fd = os::Fd(::open(file.path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!file.fd.valid()) return os::system_error("cannot make " + file.path, errno);
  return file;
}

}  // namespace tutti::launcher
