#include "apps/tutti/trace_command.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "base/format.hpp"
#include "base/index.hpp"
#include "base/shown.hpp"
#include "os/fd.hpp"
#include "os/system_error.hpp"
#include "record/record.hpp"
#include "record/trace.hpp"
#include "record/waits.hpp"

namespace tutti::cli {
namespace {

namespace fs = std::filesystem;

/// A name for the terminal: others may have put files into the folder.
std::string shown(const std::string& name) { return base::shown_on_line(name); }

Result<record::Record> read_file(const fs::path& path) {
  // A pipe that nobody writes to would block.
  const os::Fd file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  struct stat info {};
  if (!file.valid() || ::fstat(file.get(), &info) != 0)
    return os::system_error("cannot be read", errno);
  if (!S_ISREG(info.st_mode)) return Outcome(Errc::invalid_argument, "is not a regular file");
  // One byte more than a record has tells a longer file.
  std::vector<std::byte> bytes(record::kRecordBytes + 1);
  const ssize_t got = os::read_at(file.get(), bytes, 0);
  if (got < 0) return os::system_error("cannot be read", errno);
  return record::read_record(std::span<const std::byte>(bytes).first(base::as_size(got)));
}

/// The ranks' records in a folder, in the order of ranks. A file that cannot be read is told.
std::vector<record::Record> read_folder(const std::string& folder) {
  std::vector<fs::path> paths;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".record") paths.push_back(entry.path());
  }
  if (error) fmt::print(stderr, "tutti trace: {}: {}\n", shown(folder), error.message());
  std::sort(paths.begin(), paths.end());
  std::vector<record::Record> records;
  for (const fs::path& path : paths) {
    auto record = read_file(path);
    if (record)
      records.push_back(std::move(*record));
    else
      fmt::print(stderr, "tutti trace: {}: {}\n", shown(path.string()), record.status().message());
  }
  std::ranges::sort(records, {}, &record::Record::rank);
  return records;
}

/// Leaves those that an earlier job of another size has left in the folder.
void keep_newest_job(std::vector<record::Record>& records) {
  if (records.empty()) return;
  const int size = std::ranges::max_element(records, {}, &record::Record::read)->size;
  const std::size_t all = records.size();
  std::erase_if(records, [&](const auto& record) { return record.size != size; });
  if (records.size() < all)
    fmt::print(stderr,
               "tutti trace: {} of the {} records are of an older job of another size: left out\n",
               all - records.size(), all);
}

/// The ranks that others waited for, the latest first.
void print_waits(const std::vector<record::Record>& records) {
  constexpr std::size_t kMost = 4;
  const std::vector<std::int64_t> waited = record::waited_for(records);
  std::vector<std::size_t> order(records.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater(), [&](std::size_t i) { return waited[i]; });
  std::vector<std::string> ranks;
  for (const std::size_t i : order) {
    if (ranks.size() == kMost || waited[i] < record::kShownWait) break;
    ranks.push_back(base::format("{} for rank {} on {}", record::waited_text(waited[i]),
                                 records[i].rank, records[i].host));
  }
  if (!ranks.empty()) fmt::print("others waited {}\n", fmt::join(ranks, ", "));
}

int run(const std::string& folder, const std::string& output) {
  std::vector<record::Record> records = read_folder(folder);
  keep_newest_job(records);
  if (records.empty()) {
    fmt::print(stderr,
               "tutti trace: no record of a rank in {}; `tuttirun --record FOLDER` writes some\n",
               shown(folder));
    return 1;
  }
  const std::string text = record::trace_json(records);
  if (output == "-") return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() ? 0 : 1;
  std::ofstream file(output, std::ios::binary | std::ios::trunc);
  file << text << std::flush;
  if (!file) {
    fmt::print(stderr, "tutti trace: {} cannot be written\n", shown(output));
    return 1;
  }
  std::size_t operations = 0;
  for (const record::Record& record : records) operations += record.operations.size();
  fmt::print(
      "{}: {} operations of {} of {} ranks; open it in https://ui.perfetto.dev or "
      "chrome://tracing\n",
      shown(output), operations, records.size(), records.front().size);
  print_waits(records);
  return 0;
}

}  // namespace

void add_trace_command(CLI::App& app, int& exit_code) {
  auto folder = std::make_shared<std::string>();
  auto output = std::make_shared<std::string>("trace.json");
  auto* command = app.add_subcommand(
      "trace", "Merges what tuttirun --record has written into one trace for Perfetto");
  command->add_option("folder", *folder, "With the files of the ranks")->required();
  command->add_option("-o,--output", *output, "The file that is written; - for standard output")
      ->capture_default_str();
  command->callback([=, &exit_code] { exit_code = run(*folder, *output); });
}

}  // namespace tutti::cli
