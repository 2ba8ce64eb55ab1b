// Misuses of the public face that the compiler must refuse, each with a message that says why.
//
// scalar: use std::span(&x, 1)
// one_object: use std::span(&x, 1)
// bits: std::vector<bool> keeps bits
// pointer: use std::span(pointer, count)
// pointer_and_count: use std::span(pointer, count)
// sent_pointer_and_count: use std::span(pointer, count)
// gathered_pointers_and_counts: use std::span(pointer, count)
// const_target: its elements are const
// const_elements: its elements are const
// const_output: its elements are const
// temporary_vector: give it a name first
// const_received: its elements are const
// temporary_sent: give it a name first
// temporary_in_batch: give it a name first
// dropped_isend: nodiscard
// no_number: only numbers can be combined
// not_trivial: not trivially copyable
// not_contiguous: contiguous range
// misspelt_option: tiemout
// option_of_another_operation: root
// dropped_work: nodiscard
// copied_work: deleted
// op_on_an_aligned_type: aligned to more than 64 bytes

#include <chrono>
#include <list>
#include <span>
#include <string>
#include <vector>

#include <tutti/process_group.hpp>

using tutti::ProcessGroup;
using Floats = std::vector<float>;

struct Point {
  int x;
  int y;
};

struct alignas(64) Line {
  float values[16];
};

// What is right, in all the forms that a user may write.
void allowed(ProcessGroup& world, Floats& values, std::vector<Point>& points) {
  using namespace std::chrono_literals;
  double array[4] = {};
  world.all_reduce(values).wait();
  world.all_reduce(array, {.op = tutti::ReduceOp::max, .timeout = 1s}).wait();
  world.all_reduce(std::span(values).first(1)).wait();  // a temporary, but it owns nothing
  world.broadcast(points, {.root = 1}).wait();
  float one = 0;
  world.all_reduce(std::span(&one, 1)).wait();
  world.send(array, 1);  // to rank 1, and no pointer and count
  std::vector<Line> lines(1);
  world.all_reduce(lines, tutti::UserOp::of<Line>("first", [](Line a, Line) { return a; })).wait();
  tutti::TensorView view = tutti::view_of(values);
  world.all_reduce(view).wait();
  std::vector<tutti::TensorView> blocks(4, view);
  world.all_gather(blocks, view).wait();
  world.broadcast({values.data(), tutti::DType::float32, values.size()}).wait();
  const Floats& constant = values;
  world.send(constant, 1, {.tag = 3});
  world.isend(std::span<const Point>(points), 1).wait();
  world.recv(points, tutti::any_source, {.tag = 3});
  const tutti::P2POp batch[] = {tutti::P2POp::isend(constant, 1), tutti::P2POp::irecv(values, 1)};
  std::vector<tutti::Work> works = world.batch_isend_irecv(batch);
  tutti::Work work = world.barrier();
  work.wait();
}

#if defined(TUTTI_CASE_scalar)
void misuse(ProcessGroup& world, float loss) { world.all_reduce(loss).wait(); }
#elif defined(TUTTI_CASE_one_object)
void misuse(ProcessGroup& world, Point& point) { world.broadcast(point).wait(); }
#elif defined(TUTTI_CASE_bits)
void misuse(ProcessGroup& world, std::vector<bool>& flags) { world.broadcast(flags).wait(); }
#elif defined(TUTTI_CASE_pointer)
void misuse(ProcessGroup& world, float* values) { world.all_reduce(values).wait(); }
#elif defined(TUTTI_CASE_pointer_and_count)
void misuse(ProcessGroup& world, float* values) { world.all_reduce(values, 4).wait(); }
#elif defined(TUTTI_CASE_sent_pointer_and_count)
void misuse(ProcessGroup& world, const float* values) { world.send(values, 4, 1); }
#elif defined(TUTTI_CASE_gathered_pointers_and_counts)
void misuse(ProcessGroup& world, float* all, const float* own) {
  world.all_gather(all, 4, own, 1).wait();
}
#elif defined(TUTTI_CASE_const_output)
void misuse(ProcessGroup& world, const Floats& all, Floats& own) {
  world.all_gather(all, own).wait();
}
#elif defined(TUTTI_CASE_temporary_in_batch)
void misuse() { (void)tutti::P2POp::isend(Floats(4), 0); }
#elif defined(TUTTI_CASE_const_target)
void misuse(ProcessGroup& world, const Floats& values) { world.all_reduce(values).wait(); }
#elif defined(TUTTI_CASE_const_elements)
void misuse(ProcessGroup& world, std::span<const float> values) { world.all_reduce(values).wait(); }
#elif defined(TUTTI_CASE_temporary_vector)
void misuse(ProcessGroup& world) { world.all_reduce(Floats(4)).wait(); }
#elif defined(TUTTI_CASE_const_received)
void misuse(ProcessGroup& world, const Floats& values) { world.recv(values, 0); }
#elif defined(TUTTI_CASE_temporary_sent)
void misuse(ProcessGroup& world) { world.isend(Floats(4), 0).wait(); }
#elif defined(TUTTI_CASE_dropped_isend)
void misuse(ProcessGroup& world, const Floats& values) { world.isend(values, 0); }
#elif defined(TUTTI_CASE_no_number)
void misuse(ProcessGroup& world, std::vector<Point>& points) { world.all_reduce(points).wait(); }
#elif defined(TUTTI_CASE_not_trivial)
void misuse(ProcessGroup& world, std::vector<std::string>& words) { world.broadcast(words).wait(); }
#elif defined(TUTTI_CASE_not_contiguous)
void misuse(ProcessGroup& world, std::list<float>& values) { world.broadcast(values).wait(); }
#elif defined(TUTTI_CASE_misspelt_option)
void misuse(ProcessGroup& world, Floats& values) {
  world.all_reduce(values, {.tiemout = std::chrono::seconds(1)}).wait();
}
#elif defined(TUTTI_CASE_option_of_another_operation)
void misuse(ProcessGroup& world, Floats& values) { world.all_reduce(values, {.root = 1}).wait(); }
#elif defined(TUTTI_CASE_dropped_work)
void misuse(ProcessGroup& world, Floats& values) { world.all_reduce(values); }
#elif defined(TUTTI_CASE_copied_work)
void misuse(tutti::Work& work) { const tutti::Work second = work; }
#elif defined(TUTTI_CASE_op_on_an_aligned_type)
struct alignas(128) Wide {
  float values[32];
};
void misuse(ProcessGroup& world, std::vector<Wide>& wide) {
  world.all_reduce(wide, tutti::UserOp::of<Wide>("first", [](Wide a, Wide) { return a; })).wait();
}
#endif
