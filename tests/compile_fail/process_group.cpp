// Misuses of the public face that the compiler must refuse, each with a message that says why.
//
// const_target: NumberRange
// const_elements: NumberRange
// temporary_vector: NumberRange
// const_received: MovableRange
// temporary_sent: ReadableRange
// dropped_isend: nodiscard
// no_number: NumberRange
// not_trivial: MovableRange
// not_contiguous: MovableRange
// misspelt_option: tiemout
// option_of_another_operation: root
// dropped_work: nodiscard
// copied_work: deleted

#include <chrono>
#include <list>
#include <span>
#include <string>
#include <vector>

#include <tutti/process_group.hpp>

struct Point {
  int x;
  int y;
};

// What is right, in all the forms that a user may write.
void allowed(tutti::ProcessGroup& world, std::vector<float>& values, std::vector<Point>& points) {
  using namespace std::chrono_literals;
  double array[4] = {};
  world.all_reduce(values).wait();
  world.all_reduce(array, {.op = tutti::ReduceOp::max, .timeout = 1s}).wait();
  world.all_reduce(std::span(values).first(1)).wait();  // a temporary, but it owns nothing
  world.broadcast(points, {.root = 1}).wait();
  const std::vector<float>& constant = values;
  world.send(constant, 1, {.tag = 3});
  world.isend(std::span<const Point>(points), 1).wait();
  world.recv(points, tutti::any_source, {.tag = 3});
  const tutti::P2POp batch[] = {tutti::P2POp::isend(constant, 1), tutti::P2POp::irecv(values, 1)};
  std::vector<tutti::Work> works = world.batch_isend_irecv(batch);
  tutti::Work work = world.barrier();
  work.wait();
}

#ifdef TUTTI_CASE_const_target
void misuse(tutti::ProcessGroup& world, const std::vector<float>& values) {
  world.all_reduce(values).wait();
}
#endif

#ifdef TUTTI_CASE_const_elements
void misuse(tutti::ProcessGroup& world, std::span<const float> values) {
  world.all_reduce(values).wait();
}
#endif

#ifdef TUTTI_CASE_temporary_vector
void misuse(tutti::ProcessGroup& world) { world.all_reduce(std::vector<float>(4)).wait(); }
#endif

#ifdef TUTTI_CASE_const_received
void misuse(tutti::ProcessGroup& world, const std::vector<float>& values) { world.recv(values, 0); }
#endif

#ifdef TUTTI_CASE_temporary_sent
void misuse(tutti::ProcessGroup& world) { world.isend(std::vector<float>(4), 0).wait(); }
#endif

#ifdef TUTTI_CASE_dropped_isend
void misuse(tutti::ProcessGroup& world, const std::vector<float>& values) {
  world.isend(values, 0);
}
#endif

#ifdef TUTTI_CASE_no_number
void misuse(tutti::ProcessGroup& world, std::vector<Point>& points) {
  world.all_reduce(points).wait();
}
#endif

#ifdef TUTTI_CASE_not_trivial
void misuse(tutti::ProcessGroup& world, std::vector<std::string>& words) {
  world.broadcast(words).wait();
}
#endif

#ifdef TUTTI_CASE_not_contiguous
void misuse(tutti::ProcessGroup& world, std::list<float>& values) {
  world.broadcast(values).wait();
}
#endif

#ifdef TUTTI_CASE_misspelt_option
void misuse(tutti::ProcessGroup& world, std::vector<float>& values) {
  world.all_reduce(values, {.tiemout = std::chrono::seconds(1)}).wait();
}
#endif

#ifdef TUTTI_CASE_option_of_another_operation
void misuse(tutti::ProcessGroup& world, std::vector<float>& values) {
  world.all_reduce(values, {.root = 1}).wait();
}
#endif

#ifdef TUTTI_CASE_dropped_work
void misuse(tutti::ProcessGroup& world, std::vector<float>& values) { world.all_reduce(values); }
#endif

#ifdef TUTTI_CASE_copied_work
void misuse(tutti::Work& work) { const tutti::Work second = work; }
#endif
