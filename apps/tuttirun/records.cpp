#include "records.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/format.hpp"
#include "base/index.hpp"
#include "os/handed_memory.hpp"
#include "os/system_error.hpp"
#include "output.hpp"
#include "record/flight_recorder.hpp"
#include "record/record.hpp"

namespace tutti::launcher {
namespace {

namespace fs = std::filesystem;

/// A new file takes the place of the old one. Another user may have put a link or a pipe there, so
/// what is there is not opened.
Outcome write_file(const std::string& folder, const std::string& name,
                   std::span<const std::byte> bytes) {
  const std::string path = base::format("{}/{}", folder, name);
  std::string made = base::format("{}/.{}.XXXXXX", folder, name);
  const os::Fd file(::mkostemp(made.data(), O_CLOEXEC));
  if (!file.valid()) return os::system_error("cannot make a file in " + folder, errno);
  Outcome status;
  if (!append(file.get(), {reinterpret_cast<const char*>(bytes.data()), bytes.size()}))
    status = os::system_error("cannot write " + path, errno);
  else if (::rename(made.c_str(), path.c_str()) != 0)
    status = os::system_error(
        base::format("cannot replace {}, which may belong to another user", path), errno);
  if (!status.ok()) ::unlink(made.c_str());
  return status;
}

constexpr std::string_view kRecordFolder = "tuttirun_record_";
constexpr std::string_view kRecordEnd = ".record";
constexpr auto kKept = std::chrono::hours(24 * 7);

/// True if a job of this user has made it, long ago.
bool is_old(const fs::path& folder) {
  struct stat info {};
  if (lstat(folder.c_str(), &info) != 0 || !S_ISDIR(info.st_mode) || info.st_uid != geteuid())
    return false;
  const auto made = std::chrono::system_clock::from_time_t(info.st_mtime);
  return std::chrono::system_clock::now() - made > kKept;
}

Result<std::string> folder_for(const std::string& wanted) {
  std::error_code error;
  if (!wanted.empty()) {
    fs::create_directories(wanted, error);
    if (error) return os::system_error("cannot make the folder " + wanted, error.value());
    return wanted;
  }
  const fs::path parent = fs::temp_directory_path(error);
  if (error) return os::system_error("there is no folder for temporary files", error.value());
  std::string name = (parent / (std::string(kRecordFolder) + "XXXXXX")).string();
  if (mkdtemp(name.data()) == nullptr) return os::system_error("cannot make " + name, errno);
  return name;
}

}  // namespace

Outcome prepare_records(const std::string& folder) {
  auto made = folder_for(folder);
  Outcome status = made.status();
  if (made && ::access(folder.c_str(), W_OK | X_OK) != 0)
    status = os::system_error("cannot make files in " + folder, errno);
  if (status.ok()) return status;
  return Outcome(Errc::invalid_argument,
                 std::string(status.message()) + "; give one that can be written as --record");
}

void sweep_records() {
  std::error_code error;
  const fs::path parent = fs::temp_directory_path(error);
  if (error) return;
  std::vector<fs::path> old;
  for (const auto& entry : fs::directory_iterator(parent, error)) {
    if (entry.path().filename().string().starts_with(kRecordFolder) && is_old(entry.path()))
      old.push_back(entry.path());
  }
  for (const fs::path& folder : old) {
    std::vector<fs::path> records;
    for (const auto& entry : fs::directory_iterator(folder, error))
      if (entry.path().filename().string().ends_with(kRecordEnd)) records.push_back(entry.path());
    for (const fs::path& record : records) ::unlink(record.c_str());
    ::rmdir(folder.c_str());  // stays where somebody has put other files there
  }
}

Records Records::make(const Options& options) {
  Records records;
  for (int worker = 0; worker < options.nproc_per_node; ++worker) {
    auto fd = record::FlightRecorder::make_memory();
    if (!fd) break;
    auto mapping = os::map_shared(*fd, record::kRecordBytes, false);
    auto name = os::name_handed(*fd);
    if (!mapping || !name) break;
    records.memories_.push_back({std::move(*fd), std::move(*name), std::move(*mapping)});
  }
  return records;
}

int Records::fd_of(int local_rank) const noexcept {
  const auto index = static_cast<std::size_t>(local_rank);
  return index < memories_.size() ? memories_[index].fd.get() : -1;
}

std::vector<int> Records::joined(int local_rank) const {
  std::vector<int> processes;
  const auto index = static_cast<std::size_t>(local_rank);
  if (index >= memories_.size()) return processes;
  const auto* const memory =
      reinterpret_cast<const record::Memory*>(memories_[index].mapping.data());
  for (const auto& place : memory->header.joined)
    if (const int process = place.load(); process > 0) processes.push_back(process);
  return processes;
}

const std::string& Records::name_of(int local_rank) const {
  return base::at(memories_, local_rank).name;
}

Result<std::optional<std::string>> Records::write(const std::string& folder) const {
  std::optional<std::string> to;
  for (const Memory& memory : memories_) {
    const auto bytes = record::copy_record({memory.mapping.data(), memory.mapping.size()});
    auto record = record::read_record(bytes);
    if (!record || record->starting) continue;  // it has made no world
    if (!to) {
      auto made = folder_for(folder);
      if (!made) return made.status();
      to = std::move(*made);
    }
    const std::string name = base::format("rank-{}{}", record->rank, kRecordEnd);
    if (Outcome status = write_file(*to, name, bytes); !status) return status;
  }
  return to;
}

}  // namespace tutti::launcher
