// Misuses of the public face that the compiler must refuse, each with a message that says why.
//
// scalar: tutti: a buffer is a range, not one value: use std::span(&x, 1)
// one_object: tutti: a buffer is a contiguous range, as std::vector, std::span and arrays are
// bits: tutti: std::vector<bool> keeps bits
// pointer: tutti: a buffer is one argument, with its count: use std::span(pointer, count)
// pointer_and_count: tutti: a buffer is one argument, with its count: use std::span(pointer, count)
// sent_pointer_and_count: tutti: a buffer is one argument, with its count: use std::span(pointer,
// gathered_pointers_and_counts: tutti: a buffer is one argument, with its count: use
// const_target: tutti: the operation writes to this buffer, and its elements are const
// const_elements: tutti: the operation writes to this buffer, and its elements are const
// const_output: tutti: the operation writes to this buffer, and its elements are const
// temporary_vector: tutti: a temporary ends before the operation does: give it a name first
// const_received: tutti: the operation writes to this buffer, and its elements are const
// temporary_sent: tutti: a temporary ends before the operation does: give it a name first
// temporary_in_batch: tutti: a temporary ends before the operation does: give it a name first
// dropped_isend: nodiscard
// no_number: tutti: only numbers can be combined
// not_trivial: tutti: elements are moved as bytes, and these are not trivially copyable
// not_contiguous: tutti: a buffer is a contiguous range
// misspelt_option: tiemout
// option_of_another_operation: root
// dropped_work: nodiscard
// copied_work: deleted
// op_on_an_aligned_type: aligned to more than 64 bytes
// root_by_place: tutti: the root is an option: write {.root = 0}
// root_and_options: tutti: the root is an option: write {.root = 0}
// root_and_op_by_place: tutti: the root is an option: write {.root = 0}
// op_by_place: tutti: the op is an option: write {.op = tutti::ReduceOp::max}
// tag_by_place: tutti: the tag is an option: write {.tag = 7}
// received_tag_by_place: tutti: the tag is an option: write {.tag = 7}
// timeout_by_place: tutti: the timeout is an option
// root_of_a_gather_by_place: tutti: the root is an option: write {.root = 0}
// counts_by_place: tutti: the counts of blocks are options
// counts_of_ints: tutti: counts are of type std::size_t: use std::vector<std::size_t>
// timeout_without_unit: tutti: a timeout has a unit: write .timeout = std::chrono::seconds(5)
// barrier_without_unit: tutti: a timeout has a unit: write .timeout = std::chrono::seconds(5)
// pointers_as_elements: tutti: the elements have pointers (or views, spans), which mean nothing
// pointers_in_structs: tutti: the elements have pointers (or views, spans), which mean nothing
// pointers_of_optionals: tutti: the elements have pointers (or views, spans), which mean nothing
// views_as_elements: tutti: the elements have pointers (or views, spans), which mean nothing
// spans_in_nested_structs: tutti: the elements have pointers (or views, spans), which mean nothing
// references_in_structs: tutti: the elements have references or const members
// structs_in_two_buffers: tutti: only numbers can be combined
// const_view: tutti: the operation writes to this buffer, and its elements are const
// received_strings: tutti: elements are moved as bytes, and these are not trivially copyable
// object_without_bytes: tutti: no bytes can be made of this type: specialise tutti::serialise
// objects_with_pointers: tutti: no bytes can be made of this type: specialise tutti::serialise
// sent_literal: tutti: no bytes can be made of this type: specialise tutti::serialise
// scattered_without_bytes: tutti: no bytes can be made of this type: specialise tutti::serialise
// const_object: tutti: the operation writes to this object: give it a name, and take its const off
// temporary_object: tutti: the operation writes to this object: give it a name, and take its const

#include <array>
#include <chrono>
#include <list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <tutti/message.hpp>
#include <tutti/objects.hpp>
#include <tutti/process_group.hpp>

using tutti::ProcessGroup;
using Floats = std::vector<float>;

struct Point {
  int x;
  int y;
};

struct Named {
  int number;
  const char* name;
};

struct Nested {
  float values[3];
  struct {
    int first;
    std::span<int> all;
  } inner;
};

struct Referring {
  int& number;
};

/// Its author vouches for it: the same address on all ranks.
struct Mapped {
  const char* address;
};
template <>
inline constexpr bool tutti::moves_as_bytes<Mapped> = true;

struct alignas(64) Line {
  float values[16];
};

// `requires` sees what compiles and what does not.
template <class T>
concept Reducible = requires(ProcessGroup& world, T&& x) {
  world.all_reduce(std::forward<T>(x));
};
template <class T>
concept Sendable = requires(ProcessGroup& world, T&& x) {
  world.isend(std::forward<T>(x), 1);
};
template <class... Args>
concept Broadcast = requires(ProcessGroup& world, Args&&... args) {
  world.broadcast(std::forward<Args>(args)...).wait();
};
static_assert(Reducible<Floats&> && Reducible<float (&)[4]> && Reducible<tutti::TensorView&>);
static_assert(Reducible<std::span<float>> && !Reducible<std::span<const float>>);
static_assert(!Reducible<const Floats&> && !Reducible<const Floats> && !Reducible<float&>);
// A vector may be given to the Work; the elements of others would move with the object.
static_assert(Reducible<Floats> && Broadcast<Floats> && Broadcast<std::vector<Point>>);
static_assert(!Reducible<std::array<float, 4>> && !Reducible<std::vector<bool>>);
static_assert(!Reducible<std::vector<Point>> && !Broadcast<std::string> && !Broadcast<float[4]>);
static_assert(!Reducible<float*> && !Reducible<std::vector<bool>&> && !Reducible<Point&>);
static_assert(!Reducible<std::vector<Point>&> && Broadcast<std::vector<Point>&>);
static_assert(!Broadcast<Floats&, int> && !Broadcast<float*&, int>);
static_assert(Sendable<const Floats&> && !Sendable<Floats> && Sendable<std::vector<Mapped>&>);
static_assert(!Sendable<std::vector<Named>&> && !Sendable<std::vector<std::string>&>);
static_assert(Sendable<tutti::ConstTensorView&> && !Broadcast<tutti::ConstTensorView&>);
template <class T>
concept BroadcastObject = requires(ProcessGroup& world, T&& x) {
  world.broadcast_object(std::forward<T>(x), {.root = 1});
};
template <class T>
concept GatheredObject = requires(ProcessGroup& world, T&& x) {
  world.gather_object(std::forward<T>(x)).at(0);
};
using Words = std::vector<std::string>;
static_assert(BroadcastObject<std::string&> && BroadcastObject<Floats&> && BroadcastObject<int&>);
static_assert(!BroadcastObject<const std::string&> && !BroadcastObject<std::string>);
static_assert(!BroadcastObject<Words&> && !BroadcastObject<Named&> && BroadcastObject<Mapped&>);
static_assert(!BroadcastObject<std::string_view&> && !BroadcastObject<std::vector<bool>&>);
static_assert(GatheredObject<const Point&> && GatheredObject<std::string> &&
              !GatheredObject<Words>);
static_assert(!std::is_convertible_v<int, tutti::TensorView> &&
              std::is_convertible_v<Floats&, tutti::TensorView>);

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
  tutti::TensorView view = tutti::TensorView(values);
  world.all_reduce(view).wait();
  std::vector<tutti::TensorView> blocks(4, view);
  world.all_gather(blocks, view).wait();
  world.broadcast({values.data(), tutti::DType::float32, values.size()}).wait();
  std::vector<Floats> rows(4);
  world.all_reduce_coalesced(rows).wait();
  world.all_reduce_coalesced({values, rows[0]}, {.op = tutti::ReduceOp::max}).wait();
  values = world.scan(world.all_reduce(std::move(values)).wait(), {.exclusive = true}).wait();
  const Floats& constant = values;
  world.send(constant, 1, {.tag = 3});
  world.send(std::to_string(3), 1);  // it returns when the temporary may end
  world.all_reduce(values, constant, {.op = tutti::ReduceOp::max}).wait();
  world.all_reduce(values, {}).wait();
  world.reduce(values, {1}).wait();
  world.gather(blocks, values).wait();
  world.all_gather(values, view).wait();
  const tutti::ConstTensorView column(constant.data(), tutti::DType::float32, {4, 2}, {8, 1});
  world.isend(column, 1).wait();
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
void misuse(ProcessGroup& world, Floats& all) { world.all_gather(all, Floats(4)).wait(); }
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
#elif defined(TUTTI_CASE_root_by_place)
void misuse(ProcessGroup& world, Floats& values) { world.broadcast(values, 0).wait(); }
#elif defined(TUTTI_CASE_root_and_options)
void misuse(ProcessGroup& world, Floats& values) {
  world.broadcast(values, 0, {.timeout = std::chrono::seconds(1)}).wait();
}
#elif defined(TUTTI_CASE_root_and_op_by_place)
void misuse(ProcessGroup& world, Floats& values) {
  world.reduce(values, 0, tutti::ReduceOp::max).wait();
}
#elif defined(TUTTI_CASE_op_by_place)
void misuse(ProcessGroup& world, Floats& values) {
  world.all_reduce(values, tutti::ReduceOp::max).wait();
}
#elif defined(TUTTI_CASE_tag_by_place)
void misuse(ProcessGroup& world, Floats& values) { world.send(values, 1, 7); }
#elif defined(TUTTI_CASE_received_tag_by_place)
void misuse(ProcessGroup& world, Floats& values) { world.recv(values, 1, 7); }
#elif defined(TUTTI_CASE_timeout_by_place)
void misuse(ProcessGroup& world, Floats& values) {
  world.broadcast(values, std::chrono::seconds(5)).wait();
}
#elif defined(TUTTI_CASE_root_of_a_gather_by_place)
void misuse(ProcessGroup& world, Floats& all, Floats& own) { world.gather(all, own, 0).wait(); }
#elif defined(TUTTI_CASE_counts_by_place)
void misuse(ProcessGroup& world, Floats& all, std::vector<int>& counts) {
  world.all_to_all(all, all, counts, counts).wait();
}
#elif defined(TUTTI_CASE_counts_of_ints)
void misuse(ProcessGroup& world, Floats& all, std::vector<int>& counts) {
  world.all_gather(all, all, {.output_counts = counts}).wait();
}
#elif defined(TUTTI_CASE_timeout_without_unit)
void misuse(ProcessGroup& world, Floats& values) {
  world.all_reduce(values, {.timeout = 5}).wait();
}
#elif defined(TUTTI_CASE_barrier_without_unit)
void misuse(ProcessGroup& world) { world.barrier({.timeout = 5}).wait(); }
#elif defined(TUTTI_CASE_pointers_as_elements)
void misuse(ProcessGroup& world, const char* (&names)[3]) { world.broadcast(names).wait(); }
#elif defined(TUTTI_CASE_pointers_in_structs)
void misuse(ProcessGroup& world, std::vector<Named>& named) { world.broadcast(named).wait(); }
#elif defined(TUTTI_CASE_pointers_of_optionals)
void misuse(ProcessGroup& world, std::vector<std::optional<int*>>& some) { world.send(some, 1); }
#elif defined(TUTTI_CASE_views_as_elements)
void misuse(ProcessGroup& world, std::vector<std::string_view>& words) {
  world.isend(words, 1).wait();
}
#elif defined(TUTTI_CASE_spans_in_nested_structs)
void misuse(ProcessGroup& world, std::vector<Nested>& nested) { world.recv(nested, 1); }
#elif defined(TUTTI_CASE_references_in_structs)
void misuse(ProcessGroup& world, std::vector<Referring>& referring) { world.send(referring, 1); }
#elif defined(TUTTI_CASE_structs_in_two_buffers)
void misuse(ProcessGroup& world, std::vector<Point>& points) {
  world.all_reduce(points, points, {.op = tutti::ReduceOp::max}).wait();
}
#elif defined(TUTTI_CASE_const_view)
void misuse(ProcessGroup& world, const tutti::ConstTensorView& view) {
  world.broadcast(view).wait();
}
#elif defined(TUTTI_CASE_object_without_bytes)
void misuse(ProcessGroup& world, Words& words) { world.broadcast_object(words, {.root = 1}); }
#elif defined(TUTTI_CASE_objects_with_pointers)
void misuse(ProcessGroup& world, Named& one) { (void)world.all_gather_object(one); }
#elif defined(TUTTI_CASE_sent_literal)
void misuse(ProcessGroup& world) { world.send_object("text", 1); }
#elif defined(TUTTI_CASE_scattered_without_bytes)
void misuse(ProcessGroup& world) { (void)world.scatter_object<Words>({}); }
#elif defined(TUTTI_CASE_const_object)
void misuse(ProcessGroup& world, const std::string& text) { world.broadcast_object(text); }
#elif defined(TUTTI_CASE_temporary_object)
void misuse(ProcessGroup& world) { world.recv_object(std::string(), 1); }
#elif defined(TUTTI_CASE_received_strings)
void misuse(tutti::Message& message) { (void)message.recv<std::string>(); }
#endif
