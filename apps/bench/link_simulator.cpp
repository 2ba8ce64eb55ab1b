#include "apps/bench/link_simulator.hpp"

#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <deque>
#include <future>
#include <queue>
#include <stdexcept>

#include "base/format.hpp"

namespace tutti::bench {

namespace {

using Clock = std::chrono::steady_clock;
using Time = Clock::time_point;
using std::chrono::nanoseconds;

/// Before each packet (IFF_VNET_HDR): `virtio_net_hdr`, whose header does not compile as C++.
struct PacketHead {
  std::uint8_t flags;
  std::uint8_t gso_type;  ///< 0: one frame
  std::uint16_t header_bytes;
  std::uint16_t segment_bytes;
  std::uint16_t checksum_start;
  std::uint16_t checksum_offset;
};

constexpr std::size_t kLongestPacket = sizeof(PacketHead) + (1 << 16);
constexpr std::size_t kIpHeader = 20;
/// Of each frame on an Ethernet: preamble, header, checksum and gap.
constexpr std::size_t kFrameBytes = 38;
/// Of a switch's port; what comes on top is dropped.
constexpr double kQueueBytes = 1e6;
/// A host may hand over packets this far ahead of its link, as to a NIC. The rest waits in the
/// kernel, which slows its senders down.
constexpr auto kAhead = std::chrono::microseconds(200);
/// After so long the thread sees that it shall end.
constexpr auto kLongestSleep = std::chrono::milliseconds(100);

struct Packet {
  Time at;  ///< at the switch
  std::size_t to = 0;
  nanoseconds takes{0};  ///< on a link
  std::vector<char> bytes;
};

struct Later {
  bool operator()(const Packet& a, const Packet& b) const { return a.at > b.at; }
};

[[noreturn]] void fail(const std::string& what) {
  throw std::runtime_error(base::format("{}: {}", what, std::strerror(errno)));
}

/// Leaves the calling thread in that namespace.
os::Fd open_tun_in(const std::string& name) {
  const os::Fd space(::open(("/run/netns/" + name).c_str(), O_RDONLY | O_CLOEXEC));
  if (!space.valid() || ::setns(space.get(), CLONE_NEWNET) != 0) fail("network namespace " + name);
  os::Fd device(::open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC));
  ifreq request{};
  std::strcpy(request.ifr_name, "e0");
  request.ifr_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR;
  int head = sizeof(PacketHead);
  // Segmentation is left to us, as to a NIC: a read is up to 64 KiB.
  if (!device.valid() || ::ioctl(device.get(), TUNSETIFF, &request) != 0 ||
      ::ioctl(device.get(), TUNSETVNETHDRSZ, &head) != 0 ||
      ::ioctl(device.get(), TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4) != 0)
    fail("/dev/net/tun, which --network needs");
  return device;
}

class Switch {
 public:
  Switch(const std::vector<os::Fd>& devices, const LinkShape& shape)
      : shape_(shape), sent_(devices.size()), received_(devices.size()), queues_(devices.size()) {
    for (const os::Fd& device : devices) polled_.push_back({device.get(), 0, 0});
  }

  void run(const std::atomic<bool>& ended) {
    // Ranks that spin on all cores must not stop the network.
    sched_param priority{};
    priority.sched_priority = 1;
    (void)::sched_setscheduler(0, SCHED_FIFO, &priority);
    ::prctl(PR_SET_TIMERSLACK, 1000);
    while (!ended) {
      const Time now = Clock::now();
      Time next = now + kLongestSleep;
      pass_on(now, next);
      for (std::size_t host = 0; host < polled_.size(); ++host) {
        const bool reads = sent_[host] < now + kAhead;
        polled_[host].events = reads ? POLLIN : 0;
        if (!reads) next = std::min(next, sent_[host] - kAhead);
      }
      const nanoseconds wait = std::max(nanoseconds(0), nanoseconds(next - Clock::now()));
      const timespec timeout{wait.count() / 1'000'000'000, wait.count() % 1'000'000'000};
      if (::ppoll(polled_.data(), polled_.size(), &timeout, nullptr) <= 0) continue;
      for (std::size_t host = 0; host < polled_.size(); ++host) {
        if (polled_[host].revents != 0) take_from(host);
      }
    }
  }

 private:
  void take_from(std::size_t host) {
    for (Time now = Clock::now(); sent_[host] < now + kAhead; now = Clock::now()) {
      const ssize_t got = ::read(polled_[host].fd, buffer_.data(), buffer_.size());
      if (got < static_cast<ssize_t>(sizeof(PacketHead) + kIpHeader)) return;
      const auto* ip = reinterpret_cast<const unsigned char*>(buffer_.data()) + sizeof(PacketHead);
      constexpr int kLastOfDestination = 19;
      const std::size_t to = ip[kLastOfDestination] - std::size_t{1};
      if (ip[0] >> 4 != 4 || to >= polled_.size()) continue;  // the kernel's own, as multicasts
      Packet packet;
      packet.to = to;
      packet.takes = time_of(static_cast<std::size_t>(got));
      packet.bytes.assign(buffer_.data(), buffer_.data() + got);
      sent_[host] = std::max(sent_[host], now) + packet.takes;
      packet.at = sent_[host] + shape_.delay;
      under_way_.push(std::move(packet));
    }
  }

  /// Of the packet in the buffer, with the headers of all frames that a NIC makes of it.
  [[nodiscard]] nanoseconds time_of(std::size_t got) const {
    PacketHead head;
    std::memcpy(&head, buffer_.data(), sizeof head);
    const std::size_t bytes = got - sizeof head;
    std::size_t frames = 1;
    if (head.gso_type != 0 && head.segment_bytes > 0)
      frames = (bytes - head.header_bytes + head.segment_bytes - 1) / head.segment_bytes;
    const std::size_t wire = bytes + (frames - 1) * head.header_bytes + frames * kFrameBytes;
    return nanoseconds(
        static_cast<long>(static_cast<double>(wire) * 1e9 / shape_.bytes_per_second));
  }

  /// Packets at the switch go to the links of the receivers, and packets at an end of these to the
  /// receivers. The links overlap: without others a packet pays for its bytes once.
  void pass_on(Time now, Time& next) {
    for (; !under_way_.empty() && under_way_.top().at <= now; under_way_.pop()) {
      const Packet& packet = under_way_.top();
      Time& received = received_[packet.to];
      const Time end = std::max(packet.at, received + packet.takes);
      const std::chrono::duration<double> waits = end - packet.at;
      if (waits.count() * shape_.bytes_per_second > kQueueBytes) continue;
      received = end;
      queues_[packet.to].push_back(packet);
      queues_[packet.to].back().at = end;
    }
    if (!under_way_.empty()) next = std::min(next, under_way_.top().at);
    for (std::size_t host = 0; host < queues_.size(); ++host) {
      auto& queue = queues_[host];
      for (; !queue.empty() && queue.front().at <= now; queue.pop_front()) {
        const auto& bytes = queue.front().bytes;
        // A host that takes no more drops it.
        if (::write(polled_[host].fd, bytes.data(), bytes.size()) < 0) continue;
      }
      if (!queue.empty()) next = std::min(next, queue.front().at);
    }
  }

  const LinkShape shape_;
  std::vector<pollfd> polled_;
  std::vector<Time> sent_;      ///< per host: when its link has sent all that was taken from it
  std::vector<Time> received_;  ///< per host: when its link has brought it all
  std::priority_queue<Packet, std::vector<Packet>, Later> under_way_;
  std::vector<std::deque<Packet>> queues_;
  std::vector<char> buffer_ = std::vector<char>(kLongestPacket);
};

/// The number before a unit, times that of the unit; 0: it is not understood.
double parsed(const std::string& text,
              std::initializer_list<std::pair<const char*, double>> units) {
  std::size_t end = 0;
  double value = 0;
  try {
    value = std::stod(text, &end);
  } catch (const std::exception&) {
    value = 0;
  }
  for (const auto& [unit, factor] : units) {
    if (value > 0 && text.substr(end) == unit) return value * factor;
  }
  return 0;
}

}  // namespace

LinkShape parse_link_shape(const std::string& text) {
  const std::size_t comma = text.find(',');
  constexpr double kBitsPerByte = 8;
  LinkShape shape;
  shape.text = text;
  shape.bytes_per_second =
      parsed(text.substr(0, comma), {{"Kbit", 1e3}, {"Mbit", 1e6}, {"Gbit", 1e9}}) / kBitsPerByte;
  const double delay = parsed(comma == std::string::npos ? "" : text.substr(comma + 1),
                              {{"us", 1e3}, {"ms", 1e6}, {"s", 1e9}});
  if (shape.bytes_per_second <= 0 || delay <= 0)
    throw std::invalid_argument("--network: '" + text + "' is no rate and delay, as 1Gbit,1ms is");
  shape.delay = nanoseconds(static_cast<long>(delay));
  return shape;
}

LinkSimulator::LinkSimulator(const std::vector<std::string>& namespaces, const LinkShape& shape) {
  // A thread of its own, since it stays where it has been last.
  devices_ = std::async(std::launch::async, [&] {
               std::vector<os::Fd> devices;
               for (const auto& name : namespaces) devices.push_back(open_tun_in(name));
               return devices;
             }).get();
  thread_ = std::thread([this, shape] { Switch(devices_, shape).run(ended_); });
}

LinkSimulator::~LinkSimulator() {
  ended_ = true;
  thread_.join();
}

}  // namespace tutti::bench
