#include "plan/block_slots.hpp"
#include "plan/two_level.hpp"

namespace tutti::plan {
namespace {

constexpr int kAhead = 2;   // rounds between a message and its use
constexpr int kLanded = 0;  // counts rounds: a chunk of all blocks of the lane is staged

}  // namespace

// Every rank sends its block to the ranks of its lane, so that the block goes to each host once. It
// stages the blocks that it gets, together with its own. In round i the chunks i of all lanes are
// copied out. A rank that has staged the lane's chunk i - 1 has copied out everything up to chunk
// i - 2, and in round i - 1 all were seen to have staged it. So in round i chunk i + kAhead may
// arrive in the slots of chunk i + kAhead - kBlockSlots.
Schedule two_level_all_gather(const Shape& s) {
  const Expr i = Expr::loop();
  static_assert(kAhead + 2 <= kBlockSlots);
  const Lanes lanes(s);
  if (!lanes.even || lanes.each == 1) return direct_all_gather(s);
  Program p = Program::two_level("two_level", Kind::all_gather, s);
  set_block_slots(p, s.chunk_bytes, lanes.hosts);
  const auto slot = [&](int host, int ahead) { return block_slot(host, ahead, lanes.hosts); };
  const auto each_host = [&](auto body) {
    for (int k = 1; k < lanes.hosts; ++k) {
      const int host = (lanes.host + k) % lanes.hosts;
      body(host, lanes.rank_at(host, lanes.lane));
    }
  };
  const auto each_other_lane = [&](auto body) {
    for (int k = 1; k < lanes.each; ++k) {
      const int lane = (lanes.lane + k) % lanes.each;
      body(lane, lanes.rank_at(lanes.host, lane));
    }
  };
  const Expr me = s.rank;
  const auto bring = [&](int ahead) {
    const Slice own = block_chunk(me, i + ahead);
    p.copy(p.stage(slot(lanes.host, ahead), own), input(own));
    each_host([&](int host, Expr peer) {
      p.recv(peer, p.stage(slot(host, ahead), block_chunk(peer, i + ahead)));
      p.send(peer, input(own));
    });
  };
  p.publish();
  each_other_lane([&](int, Expr peer) { p.await_line(only(peer)); });
  p.agree();
  p.loop(times(kAhead));
  bring(0);
  p.end_loop();
  p.loop(block_chunks());
  bring(kAhead);
  each_host([&](int, Expr peer) { p.await_recv(only(peer), kAhead); });
  p.signal(kLanded, i + 1);
  // Before the output is written: the other lanes stage blocks only after they have compared calls.
  each_other_lane([&](int, Expr peer) { p.await(kLanded, only(peer), i + 1); });
  p.copy(output(block_chunk(me, i)), input(block_chunk(me, i)));
  each_host([&](int host, Expr peer) {
    const Slice theirs = block_chunk(peer, i);
    p.copy(output(theirs), p.stage(slot(host, 0), theirs));
  });
  each_other_lane([&](int lane, Expr peer) {
    for (int host = 0; host < lanes.hosts; ++host) {
      const Slice theirs = block_chunk(lanes.rank_at(host, lane), i);
      p.copy(output(theirs), Program::stage_of(peer, slot(host, 0), theirs));
    }
  });
  p.end_loop();
  return p.take();
}

}  // namespace tutti::plan
