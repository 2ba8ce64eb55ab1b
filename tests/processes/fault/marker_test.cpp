#include <set>

#include "network.hpp"
#include "os/host.hpp"
#include "support/packet_capture.hpp"

// What can be read on the wire: each operation sends a marker of its own over loopback TCP, in a
// network namespace where nothing else goes over any interface.
namespace tutti::fault {
namespace {

constexpr int kRanks = 3;

struct Seen {
  std::set<std::string> sent;     ///< markers that the ranks say they have sent
  std::set<std::string> on_wire;  ///< ... that were found in a packet
  bool worker_addresses = false;  ///< what ranks tell each other of themselves, by the store
};

/// Runs every operation of ranks that talk so, and looks at all packets.
void run_markers(const std::string& talk, Seen& seen) {
  if (!in_network_namespace()) GTEST_SKIP() << kNoNamespaces;
  const auto capture = test::PacketCapture::start();
  if (capture == nullptr) GTEST_SKIP() << "packets cannot be captured here";
  auto workers = start_job(job_of(talk, {"markers"}, "20", kRanks));
  for (Worker& worker : workers) {
    ASSERT_NO_FATAL_FAILURE(expect_success(worker));
    for (const Said& said : worker.said())
      if (said.word == "marker") seen.sent.insert(said.text);
  }
  capture->stop();
  for (const std::string& marker : seen.sent)
    if (capture->holds(marker)) seen.on_wire.insert(marker);
  Result<std::string> boot = os::boot_id();
  ASSERT_TRUE(boot);
  seen.worker_addresses = capture->holds(*boot);
  std::printf("%zu markers sent, %zu of them seen in %llu packets, %llu bytes\n", seen.sent.size(),
              seen.on_wire.size(), static_cast<unsigned long long>(capture->packets()),
              static_cast<unsigned long long>(capture->bytes()));
  EXPECT_EQ(capture->dropped(), 0U);
  // Whatever is protected, each operation has sent more than 100 KB.
  EXPECT_GE(seen.sent.size(), 21U);
  EXPECT_GT(capture->bytes(), seen.sent.size() * 100'000);
}

TEST(Markers, AreSeenOnTheWireOfEveryOperationWithoutEncryption) {
  Seen seen;
  run_markers("tcp", seen);
  EXPECT_EQ(seen.on_wire, seen.sent);
  EXPECT_TRUE(seen.worker_addresses);
}

TEST(Markers, AreNeverSeenWithEncryption) {
  Seen seen;
  run_markers("tls", seen);
  EXPECT_EQ(seen.on_wire, std::set<std::string>());
  EXPECT_FALSE(seen.worker_addresses);
}

}  // namespace
}  // namespace tutti::fault
