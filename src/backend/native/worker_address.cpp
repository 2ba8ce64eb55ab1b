#include "backend/native/worker_address.hpp"

#include <array>
#include <limits>
#include <optional>
#include <span>

#include "base/format.hpp"
#include "base/little_endian.hpp"
#include "base/shown.hpp"
#include "os/address.hpp"
#include "transport/shm/layout.hpp"

namespace tutti::native {
namespace {

constexpr std::size_t kMostHostName = 255;
constexpr std::uint64_t kAbsent = 0;  // no quota, no given CPUs
constexpr auto kMostInt = static_cast<std::uint64_t>(std::numeric_limits<int>::max());
constexpr auto kAny = std::numeric_limits<std::uint64_t>::max();
constexpr std::size_t kNumberBytes = 8;
/// Of this format, and of the shared memory: ranks with another one cannot join.
constexpr std::uint64_t kFormat = std::uint64_t{transport::shm::kLayoutVersion} << 32 | 1;

class Writer {
 public:
  void number(std::uint64_t value) {
    std::array<std::byte, kNumberBytes> bytes{};
    base::put_number(bytes, value);
    out.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  void text(std::string_view value) {
    number(value.size());
    out.append(value);
  }
  std::string out;
};

/// Reads the fields of a worker's address in order, and reports the first that is wrong.
class Reader {
 public:
  explicit Reader(std::string_view rest) : rest_(rest) {}

  std::string text(const char* name, std::size_t most = kMostWorkerAddressText) {
    const std::uint64_t size = number(name, 0, kAny);
    if (size > most || size > rest_.size()) {
      fail(name, base::format("no text of at most {} bytes", most));
      return {};
    }
    std::string found(rest_.substr(0, size));
    rest_.remove_prefix(size);
    return found;
  }
  std::uint64_t number(const char* name, std::uint64_t least, std::uint64_t most) {
    std::optional<std::uint64_t> found;
    if (rest_.size() >= kNumberBytes && trouble_.empty()) {
      found = base::take_number(std::as_bytes(std::span(rest_)).first(kNumberBytes));
      rest_.remove_prefix(kNumberBytes);
    }
    if (found && *found >= least && *found <= most) return *found;
    fail(name, base::format("no number from {} to {}", least, most));
    return least;
  }
  int integer(const char* name, std::uint64_t least = 1) {
    return static_cast<int>(number(name, least, kMostInt));
  }
  os::CpuSet cpus(const char* name) {
    std::optional<os::CpuSet> set = os::CpuSet::parse(text(name));
    if (!set)
      fail(name, base::format("no set of CPUs below {}, in hexadecimal", os::CpuSet::kMostCpus));
    return set.value_or(os::CpuSet{});
  }
  void end() {
    if (!rest_.empty() && trouble_.empty())
      trouble_ = base::format("it is followed by {} bytes", rest_.size());
  }
  void fail(const char* name, const std::string& what) {
    if (trouble_.empty()) trouble_ = base::format("its '{}' is {}", name, what);
  }
  [[nodiscard]] const std::string& trouble() const noexcept { return trouble_; }

 private:
  std::string_view rest_;
  std::string trouble_;
};

Outcome refusal(const std::string& why) {
  return Outcome(Errc::store, "the address worker_address is not understood: " + why);
}

}  // namespace

std::string encode(const WorkerAddress& worker_address) {
  const transport::shm::HostAddress& host = worker_address.host;
  Writer common;
  common.number(kFormat);
  for (const std::string* const text : {&host.boot, &host.host_key, &host.host_name, &host.folder,
                                        &worker_address.store_host, &worker_address.settings})
    common.text(*text);
  common.number(host.network);
  common.number(host.pid_namespace);
  common.text(host.cpus.to_text());
  common.number(host.given_cpus ? static_cast<std::uint64_t>(*host.given_cpus) : kAbsent);
  common.number(host.quota ? static_cast<std::uint64_t>(host.quota->cpus) : kAbsent);
  common.number(host.quota ? host.quota->group : kAbsent);
  common.number(host.fence ? 1 : 0);
  Writer all;
  all.text(common.out);
  all.text(worker_address.address);
  all.text(host.listener);
  all.number(host.nonce);
  all.number(static_cast<std::uint64_t>(host.pid));
  return std::move(all.out);
}

Result<WorkerAddress> WorkerAddressReader::read(std::string_view text) {
  if (text.size() > kMostWorkerAddressBytes)
    return refusal(base::format("it has {} bytes, at most {} are allowed", text.size(),
                                kMostWorkerAddressBytes));
  Reader reader(text);
  const std::string common = reader.text("beginning", kMostWorkerAddressBytes);
  if (reader.trouble().empty() && (common != common_ || common.empty())) {
    if (Outcome s = read_common(common); !s.ok()) return s;
    common_ = common;
  }
  WorkerAddress worker_address = of_common_;
  transport::shm::HostAddress& host = worker_address.host;
  worker_address.address = reader.text("address");
  host.listener = reader.text("listener");
  if (host.listener.find('/') != std::string::npos) reader.fail("listener", "no name of a socket");
  host.nonce = reader.number("nonce", 0, kAny);
  host.pid = reader.integer("pid");
  reader.end();
  if (!worker_address.address.empty() && !os::Address::parse_endpoint(worker_address.address))
    reader.fail("address", "no numeric address with a port");
  if (!reader.trouble().empty()) return refusal(reader.trouble());
  return worker_address;
}

Outcome WorkerAddressReader::read_common(std::string_view text) {
  common_.clear();
  of_common_ = WorkerAddress();
  Reader reader(text);
  transport::shm::HostAddress& host = of_common_.host;
  reader.number("format", kFormat, kFormat);
  host.boot = reader.text("boot");
  host.host_key = reader.text("host_key");
  host.host_name = base::shown_on_line(reader.text("host_name"), kMostHostName);
  host.folder = reader.text("folder");
  std::string& store = of_common_.store_host;
  store = reader.text("store_host");
  of_common_.settings = reader.text("settings");
  host.network = reader.number("network", 0, kAny);
  host.pid_namespace = reader.number("pid_namespace", 0, kAny);
  host.cpus = reader.cpus("cpus");
  if (const int given = reader.integer("given_cpus", kAbsent); given > 0) host.given_cpus = given;
  const int quota = reader.integer("quota", kAbsent);
  const std::uint64_t quota_group = reader.number("quota_group", 0, kAny);
  if (quota > 0) host.quota = os::CpuQuota{quota, quota_group};
  host.fence = reader.number("fence", 0, 1) == 1;
  reader.end();
  // It may end with %interface, which is valid on its own host only.
  if (!store.empty() && !os::Address::parse(store.substr(0, store.find('%')), 0))
    reader.fail("store_host", "no numeric address");
  return reader.trouble().empty() ? Outcome() : refusal(reader.trouble());
}

Result<WorkerAddress> decode(std::string_view text) { return WorkerAddressReader().read(text); }

}  // namespace tutti::native
