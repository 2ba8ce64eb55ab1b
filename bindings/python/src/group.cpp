#include "group.hpp"

#include <nanobind/ndarray.h>
#include <nanobind/stl/chrono.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <tutti/backend/group_access.hpp>

#include "arguments.hpp"
#include "errors.hpp"
#include "gil.hpp"
#include "kept.hpp"
#include "shown.hpp"
#include "store.hpp"
#include "timeout.hpp"
#include "waiting.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace tutti::python {
namespace {

// None if this rank is not in the group.
nb::object group_or_none(ProcessGroup made) {
  return made ? object_of(share(std::move(made))) : nb::none();
}

// Runs a function that makes a group from `parent`.
template <class Creation>
nb::object make(const Group& parent, Creation creation) {
  Kept::release_done();
  return group_or_none(run_interruptibly(parent, std::move(creation)));
}

nb::object new_group(const GroupHandle& self, std::vector<int> ranks, std::string name,
                     nb::handle timeout) {
  return make(self.open(), [ranks = std::move(ranks),
                            options = NewGroupOptions{std::move(name), timeout_of(timeout)}](
                               ProcessGroup& group) { return group.new_group(ranks, options); });
}

nb::object new_group_among(const GroupHandle& self, const std::vector<int>& ranks,
                           const std::string& tag, std::string name) {
  Kept::release_done();
  const Group parent = self.open();
  Result<Backend*> made = GroupAccess::backend(*parent).make_among(ranks, tag, name);
  raise_if(made.status());
  std::vector<int> globals;
  for (const int rank : ranks) globals.push_back(parent->global_rank(rank));
  return object_of(
      share(GroupAccess::make({*made, std::move(name), std::move(globals), parent->get_timeout(),
                               parent->store(), parent->trust()})));
}

// Gathers the texts of all ranks and the greatest number. Most often only the number is exchanged.
std::pair<std::uint64_t, std::vector<std::string>> exchange_texts(ProcessGroup& group,
                                                                  std::uint64_t number,
                                                                  const std::string& mine) {
  struct Entry {
    std::uint64_t number = 0;
    std::uint64_t bytes = 0;
  };
  const auto size = static_cast<std::size_t>(group.size());
  const auto gather = [&](const TensorView& input, const TensorView& output) {
    Collective call;
    call.kind = Kind::all_gather;
    call.tag = kLibraryTag;  // works on backends without CPU tensors, too
    call.timeout = group.get_timeout();
    call.input = input;
    call.output = output;
    Work(GroupAccess::backend(group).submit(call, false)).wait();
  };
  Entry own{number, mine.size()};
  std::vector<Entry> all(size);
  gather(TensorView(&own, DType::uint8, sizeof(own)),
         TensorView(all.data(), DType::uint8, size * sizeof(Entry)));
  Entry most;
  for (const Entry& one : all) {
    most.number = std::max(most.number, one.number);
    most.bytes = std::max(most.bytes, one.bytes);
  }
  std::vector<std::string> texts(size);
  if (most.bytes == 0) return {most.number, texts};
  constexpr std::uint64_t kMostBytes = std::uint64_t{16} << 20;  // far more than is ever needed
  if (most.bytes > kMostBytes)
    raise(Outcome(Errc::internal, "a rank has announced a text that is too long"));
  std::vector<char> padded(mine.begin(), mine.end());
  padded.resize(most.bytes);
  std::vector<char> together(most.bytes * size);
  gather(padded, together);
  for (std::size_t rank = 0; rank < size; ++rank)
    texts[rank].assign(together.data() + rank * most.bytes, all[rank].bytes);
  return {most.number, texts};
}

// First makes a group as `how` says: [ranks] like new_group, [color, key] like split, [] none. One
// call for both, because each blocking call takes a thread.
nb::tuple exchange_drops(const GroupHandle& self, std::uint64_t live, const nb::bytes& drops,
                         const nb::list& how, std::string name, nb::handle timeout) {
  const NewGroupOptions options{std::move(name), timeout_of(timeout)};
  std::function<ProcessGroup(ProcessGroup&)> creation;
  if (how.size() == 1) {
    creation = [ranks = nb::cast<std::vector<int>>(how[0]), options](ProcessGroup& group) {
      return group.new_group(ranks, options);
    };
  } else if (how.size() == 2) {
    creation = [color = nb::cast<std::optional<int>>(how[0]), key = nb::cast<int>(how[1]),
                options](ProcessGroup& group) { return group.split(color, key, options); };
  } else {
    creation = [](ProcessGroup&) { return ProcessGroup(); };
  }
  Kept::release_done();
  auto [made, told] = run_interruptibly(
      self.open(), [live, creation = std::move(creation),
                    mine = std::string(drops.c_str(), drops.size())](ProcessGroup& group) {
        ProcessGroup child = creation(group);
        return std::pair(std::move(child), exchange_texts(group, live, mine));
      });
  nb::list texts;
  for (const std::string& one : told.second) texts.append(nb::bytes(one.data(), one.size()));
  return nb::make_tuple(group_or_none(std::move(made)), told.first, texts);
}

nb::object split(const GroupHandle& self, std::optional<int> color, int key, std::string name,
                 nb::handle timeout) {
  return make(self.open(),
              [color, key, options = NewGroupOptions{std::move(name), timeout_of(timeout)}](
                  ProcessGroup& group) { return group.split(color, key, options); });
}

nb::object new_subgroups(const GroupHandle& self, int group_size, std::string name,
                         nb::handle timeout) {
  return make(self.open(),
              [group_size, options = NewGroupOptions{std::move(name), timeout_of(timeout)}](
                  ProcessGroup& group) { return group.new_subgroups(group_size, options); });
}

/// For tutti.distributed: the counts that this rank gets, and the seconds that are left for the
/// operation.
nb::tuple learn_counts(const GroupHandle& self, const std::string& kind, nb::handle array,
                       std::vector<std::size_t> sent, int root, nb::handle timeout) {
  Kept::release_done();
  const Kind one = kind == "gather"       ? Kind::gather
                   : kind == "all_gather" ? Kind::all_gather
                                          : Kind::all_to_all;
  const Group group = self.open();
  Memory memory("learn_counts");
  const TensorView view = memory.one(array, "tensor", Use::shown);
  const std::chrono::nanoseconds limit = timeout_of(timeout).value_or(group->get_timeout());
  const auto [counts, rest] =
      run_interruptibly(group, [=, sent = std::move(sent)](ProcessGroup& its) {
        std::chrono::nanoseconds until = limit;
        auto learned = GroupAccess::learn_counts(its, one, view, sent, root, until);
        return std::pair(std::move(learned), until);
      });
  return nb::make_tuple(counts, std::chrono::duration<double>(rest).count());
}

/// For tutti.distributed, whose sendrecv is a batch: refuses two buffers that share memory.
void refuse_shared(nb::handle output, nb::handle input) {
  const Buffer out(output, "sendrecv", "output", Use::write);
  const Buffer in(input, "sendrecv", "input", Use::read);
  const auto first = reinterpret_cast<std::uintptr_t>(out.view().data());
  const auto second = reinterpret_cast<std::uintptr_t>(in.view().data());
  if (out.view().contiguous() && in.view().contiguous() &&
      first < second + in.view().size_bytes() && second < first + out.view().size_bytes())
    raise(Outcome(Errc::invalid_argument, "sendrecv: its two buffers share memory; give two"));
}

void monitored_barrier(const GroupHandle& self, nb::handle timeout, bool wait_all_ranks) {
  Kept::release_done();
  const MonitoredBarrierOptions options{.timeout = timeout_of(timeout),
                                        .wait_all_ranks = wait_all_ranks};
  run_interruptibly(self.open(),
                    [options](ProcessGroup& group) { group.monitored_barrier(options); });
}

nb::object health(const GroupHandle& self) {
  const Outcome status = self.open()->health();
  return status.ok() ? nb::none() : exception_of(status);
}

nb::object alloc(const GroupHandle& self, std::size_t bytes) {
  using Array = SharedArray<std::uint8_t>;
  const auto group = self.open();
  Array* array = nullptr;
  {
    const WithoutGil unlocked;  // much memory takes long
    array = new Array(group->alloc<std::uint8_t>(bytes));
  }
  const nb::capsule owner(array, [](void* kept) noexcept { delete static_cast<Array*>(kept); });
  return nb::cast(
      nb::ndarray<nb::memview, std::uint8_t, nb::ndim<1>>(array->data(), {bytes}, owner));
}

void set_timeout(const GroupHandle& self, nb::handle value) {
  const Timeout timeout = timeout_of(value);
  if (!timeout) throw nb::value_error("set_timeout: None is no timeout");
  self.open()->set_timeout(*timeout);
}

void abort(const GroupHandle& self, const std::string& reason) {
  const Group group = self.open();
  const WithoutGil unlocked;
  group->abort(reason);
}

std::vector<int> ranks(const GroupHandle& self) {
  const Group group = self.open();
  std::vector<int> all;
  for (int rank = 0; rank < group->size(); ++rank) all.push_back(group->global_rank(rank));
  return all;
}

// The end of a `with` block. After an exception this rank skips calls, so the group is aborted.
void leave(GroupHandle& self, nb::handle kind, nb::handle problem, nb::handle) {
  if (!kind.is_none() && Group(self) != nullptr) {
    abort(self, "an exception left its block: " + nb::cast<std::string>(nb::repr(problem)));
  }
  self.close();
}

nb::object repr(const GroupHandle& self) {
  const Group group = self;
  if (group == nullptr) return shown_object("<tutti.ProcessGroup, closed>");
  return shown_object("<tutti.ProcessGroup '" + std::string(group->name()) + "' rank " +
                      std::to_string(group->rank()) + " of " + std::to_string(group->size()) + ">");
}

}  // namespace

Group share(ProcessGroup group) {
  return Group(new SharedGroup(std::move(group)), [](SharedGroup* last) {
    // A thread that Python does not know may drop the last reference of an interrupted call.
    if (PyGILState_GetThisThreadState() == nullptr) {
      delete last;
      return;
    }
    const WithoutGil unlocked;
    delete last;
  });
}

void GroupHandle::raise_closed() {
  raise(Outcome(Errc::invalid_argument, "this ProcessGroup was closed; make a new one"));
}

nb::object object_of(Group group) {
  return nb::cast(new GroupHandle(std::move(group)), nb::rv_policy::take_ownership);
}

void bind_group(nb::module_& module) {
  nb::enum_<ReduceOp>(module, "ReduceOp", "How values of different ranks are combined.")
      .value("SUM", ReduceOp::sum)
      .value("AVG", ReduceOp::avg)
      .value("PRODUCT", ReduceOp::product)
      .value("MIN", ReduceOp::min)
      .value("MAX", ReduceOp::max)
      .value("BAND", ReduceOp::band)
      .value("BOR", ReduceOp::bor)
      .value("BXOR", ReduceOp::bxor)
      .value("PREMUL_SUM", ReduceOp::premul_sum);
  module.attr("ANY_SOURCE") = any_source;
  module.attr("NO_RANK") = no_rank;

  const auto name = "name"_a = "";
  const auto timeout = "timeout"_a = nb::none();
  Class<GroupHandle> group(
      module, "ProcessGroup", nb::is_weak_referenceable(),
      "A group of ranks that call the same operations in the same order. Each collective blocks\n"
      "and returns None, or with async_op=True returns a Work.");
  group
      .def_prop_ro(
          "rank", [](const GroupHandle& self) { return self.open()->rank(); }, "Ours.")
      .def_prop_ro(
          "size", [](const GroupHandle& self) { return self.open()->size(); },
          "How many ranks there are.")
      .def_prop_ro(
          "name", [](const GroupHandle& self) { return std::string(self.open()->name()); },
          "For messages.")
      .def_prop_ro(
          "timeout", [](const GroupHandle& self) { return self.open()->get_timeout(); },
          "Of operations that say none.")
      .def("set_timeout", &set_timeout, "timeout"_a,
           "Of operations that this rank starts from now on and that say none.")
      .def_prop_ro(
          "store", [](const GroupHandle& self) { return object_of(self.open()->store()); },
          "The store in which the world met: a part of it for the program's own keys.")
      .def_prop_ro(
          "backend", [](const GroupHandle& self) { return std::string(self.open()->backend()); },
          "\"native\".")
      .def_prop_ro(
          "communicator",
          [](const GroupHandle& self) -> nb::object {
            const auto word = GroupAccess::backend(*self.open()).capabilities().communicator;
            return word ? nb::object(nb::int_(*word)) : nb::none();
          },
          "The handle of the group's communicator, on \"mpi\"; None elsewhere.")
      .def_prop_ro(
          "authenticated", [](const GroupHandle& self) { return self.open()->authenticated(); },
          "Every rank has proved that it belongs to the job.")
      .def(
          "check_objects",
          [](const GroupHandle& self, const std::string& operation) {
            GroupAccess::check_objects(*self.open(), operation);
          },
          "operation"_a,
          "ValueError, which begins with `operation` and says what to do, where pickles of the\n"
          "other ranks must not be read: where it is not authenticated, unless TUTTI_INSECURE is\n"
          "\"pickle\" on all ranks.")
      .def(
          "derive_secret",
          [](const GroupHandle& self, const std::string& text) {
            const SecretBytes secret = self.open()->derive_secret(text);
            return nb::bytes(secret.data(), secret.size());
          },
          "text"_a,
          "A secret that only ranks of the world can compute; empty if not authenticated.")
      .def("alloc", &alloc, "bytes"_a,
           "Zeroed memory that the other ranks of this host can read, as a memoryview of bytes.")
      .def_prop_ro("ranks", &ranks, "The ranks of the world, in the order of the group's ranks.")
      .def(
          "global_rank",
          [](const GroupHandle& self, int rank) { return self.open()->global_rank(rank); },
          "rank"_a, "Rank of the world for a rank of this group.")
      .def(
          "group_rank",
          [](const GroupHandle& self, int rank) { return self.open()->group_rank(rank); },
          "global_rank"_a, "Rank of this group for a rank of the world; None for a non-member.")
      .def("new_group", &new_group, "ranks"_a, nb::kw_only(), name, timeout,
           "Make a group of some of our ranks, in this order. Every rank of this group calls it\n"
           "with the same list; None for ranks that are not in it.")
      .def("_new_group_among", &new_group_among, "ranks"_a, "tag"_a, nb::kw_only(), name,
           "The group of some of our ranks, of which we are one; only they call it. Never blocks.\n"
           "Once for each tag and list. BackendError (unsupported) on backends that have none.")
      .def("_exchange_drops", &exchange_drops, "live"_a, "drops"_a, "how"_a = nb::list(),
           nb::kw_only(), name, timeout,
           "A new group or None, the greatest `live` of all ranks, and what each has told.\n"
           "Collective. `how`: [ranks] as new_group, [color, key] as split, [] makes none.")
      .def_prop_ro(
          "_is_shared", [](const GroupHandle& self) { return Group(self).use_count() > 2; },
          "A Work of it is left, or an operation that nobody waits for.")
      .def_static("_refuse_shared", &refuse_shared, "output"_a, "input"_a)
      .def("_learn_counts", &learn_counts, "kind"_a, "array"_a, "sent"_a, "root"_a, "timeout"_a)
      .def("split", &split, "color"_a, "key"_a = 0, nb::kw_only(), name, timeout,
           "Divide: ranks of one colour make a group, ordered by key, then by rank.")
      .def("new_subgroups", &new_subgroups, "group_size"_a, nb::kw_only(), name, timeout,
           "Divide into groups of ranks that follow each other; the one that this rank is in.")
      .def("monitored_barrier", &monitored_barrier, nb::kw_only(), timeout,
           "wait_all_ranks"_a = false,
           "A barrier that names the ranks that have not come: rank 0 waits so long for the "
           "others, and names\n"
           "the first (or all) in its TimeoutError; the group is then broken. Slower; for finding\n"
           "out where a program hangs.")
      .def("health", &health, "None, or the error that broke the group.")
      .def("abort", &abort, "reason"_a, "Break the group here and on every other member.")
      .def(
          "close", &GroupHandle::close,
          "Let go of the group, as dropping the last reference does, and end calls in which other\n"
          "threads wait. Local, waits for nobody.")
      .def_prop_ro("closed", [](const GroupHandle& self) { return Group(self) == nullptr; })
      .def("__reduce__",
           [](nb::handle) {
             throw nb::type_error(
                 "a ProcessGroup cannot be pickled: its connections are this process's; send its "
                 "ranks, and call new_group in a process of the same world");
           })
      .def("__enter__", [](nb::handle self) { return nb::borrow(self); })
      .def("__exit__", &leave, "kind"_a, "problem"_a, "trace"_a)
      .def("__repr__", &repr);
  bind_collectives(group);
  bind_multigpu(group);
  bind_transfers(group);
  bind_cart(module, group);
  bind_probes(module, group);
  bind_user_ops(module, group);
}

}  // namespace tutti::python
