#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tutti/backend/backend.hpp>
#include <tutti/backend/group_access.hpp>
#include <tutti/backend/kinds.hpp>
#include <tutti/process_group.hpp>

#include "base/deadline.hpp"
#include "base/format.hpp"
#include "base/index.hpp"
#include "call/views_check.hpp"
#include "group/gpu_tensors.hpp"
#include "group/on_stream.hpp"
#include "group/overlap.hpp"
#include "group/two_step_call.hpp"

// Operations on a list of tensors of each rank. The list is combined into one tensor, an ordinary
// operation runs on it, and its elements are copied back to the list.
namespace tutti {
inline namespace v0 {
namespace {

bool on_gpu(const TensorView& view) noexcept { return view.device().type == DeviceType::cuda; }

/// One operation on lists of this rank.
class MultigpuCall final : public TwoStepCall {
 public:
  /// `inputs`, `outputs`: the lists. Throws InvalidArgument if they are wrong.
  MultigpuCall(ProcessGroup& group, Kind kind, const char* name,
               std::span<const TensorView> outputs, std::span<const TensorView> inputs,
               const MultigpuOptions& options)
      : name_(name),
        group_(group.name()),
        rank_(group.rank()),
        size_(group.size()),
        outputs_(outputs.begin(), outputs.end()),
        inputs_(inputs.begin(), inputs.end()),
        root_tensor_(options.root_tensor) {
    movement_.kind = kind;
    movement_.op = options.op;
    movement_.root = options.root;
    movement_.timeout = options.timeout.value_or(group.get_timeout());
    gathers_ = kind == Kind::all_gather;
    if (movement_.timeout <= std::chrono::nanoseconds(0)) refuse("the timeout must be positive");
    check_lists(options);
    if (on_gpu(inputs_.front())) check_streams(options);
    // Refuses what the backend cannot do, before any copy begins.
    movement_.input = inputs_.front();
    movement_.output = outputs_.front();
    if (std::string why = GroupAccess::backend(group).unsupported(movement_); !why.empty())
      refuse(why);
  }

  /// Combines the tensors, in the order of the caller's streams.
  void begin(Backend& backend, const MultigpuOptions& options) {
    const TensorView& first = inputs_.front();
    const std::size_t count = first.count();
    if (on_gpu(first)) {
      auto gpus = std::make_unique<GpuTensors>(local_gpus(), first.device().index);
      for (const auto& [index, stream] : streams_of(options)) gpus->follow(index, stream);
      const auto begun = std::chrono::steady_clock::now();
      gpus->set_may_go_on([&backend, begun, timeout = movement_.timeout] {
        if (std::chrono::steady_clock::now() - begun < timeout) return backend.health();
        return Outcome(Errc::timeout,
                       "a stream of its tensors still does what it was given before, after " +
                           base::seconds_text(timeout));
      });
      local_ = std::move(gpus);
    } else {
      local_ = std::make_unique<CpuTensors>();
    }
    input_ = local_->make(first.dtype(), gathers_ ? count * inputs_.size() : count);
    output_ =
        gathers_ ? local_->make(first.dtype(), input_.count() * base::as_size(size_)) : input_;
    if (gathers_) {
      for (std::size_t j = 0; j < inputs_.size(); ++j) {
        pieces_.push_back({input_, j * count, count});
        local_->copy_in(part_of(input_, j * count, count), inputs_[j]);
      }
      out_pieces_.push_back({output_, 0, output_.count()});
    } else {
      // The ranks compare the counts of all pieces. An empty piece for each further tensor lets
      // them compare the lengths of the lists.
      pieces_.assign(inputs_.size(), {TensorView(nullptr, first.dtype(), 0, first.device()), 0, 0});
      pieces_.front() = {input_, 0, count};
      if (movement_.kind != Kind::broadcast)
        local_->combine(input_, inputs_, local_op(movement_.op));
      else if (is_root())
        local_->copy_in(input_, inputs_[base::as_size(root_tensor_)]);
    }
    details_.input_pieces = pieces_;
    details_.output_pieces = gathers_ ? out_pieces_ : pieces_;
    details_.stream = local_->stream();
    movement_.input = TensorView(nullptr, first.dtype(), input_.count(), first.device());
    movement_.output = TensorView(nullptr, first.dtype(), output_.count(), first.device());
    movement_.details = &details_;
  }

  [[nodiscard]] const Collective& movement() const noexcept override { return movement_; }
  // Every rank must free its memory after the operation.
  [[nodiscard]] bool has_second_step() const noexcept override { return true; }
  [[nodiscard]] bool finish(bool may_wait) override {
    if (!std::exchange(copying_, true)) write_outputs();
    return local_->finished(may_wait);
  }
  void keep_memory() noexcept override { local_->keep_memory(); }
  [[nodiscard]] std::string text() const override {
    const TensorView& first = inputs_.front();
    return base::format("{}({} x {} in each of {} tensors) in group '{}'", name_,
                        to_string(first.dtype()), first.count(), inputs_.size(), group_);
  }
  [[nodiscard]] std::string_view second_step() const noexcept override {
    return "copying the result";
  }
  [[nodiscard]] int rank() const noexcept override { return rank_; }

  /// Throws, with the text of the call.
  [[noreturn]] void refuse(const std::string& why) const {
    const std::string call =
        inputs_.empty() ? base::format("{} in group '{}'", name_, group_) : text();
    raise(Outcome(Errc::invalid_argument, call + ": " + why));
  }

 private:
  void write_outputs() {
    const bool gets = uses_output(movement_.kind, rank_, movement_.root);
    if (traits_of(movement_.kind).reduces && movement_.op == ReduceOp::avg && gets)
      local_->divide(output_, static_cast<std::int64_t>(inputs_.size()));
    const std::size_t count = inputs_.front().count();
    const std::size_t blocks = inputs_.size() * base::as_size(size_);
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      const std::size_t first = gathers_ ? i % blocks * count : 0;
      if (writes(i)) local_->copy_out(outputs_[i], part_of(output_, first, count));
    }
  }
  [[nodiscard]] bool is_root() const noexcept { return rank_ == movement_.root; }
  /// The ops by which tensors of one rank are combined.
  [[nodiscard]] static ReduceOp local_op(ReduceOp op) noexcept {
    return op == ReduceOp::avg ? ReduceOp::sum : op;
  }
  void check_lists(const MultigpuOptions& options) const {
    if (inputs_.empty()) refuse("the list of tensors is empty");
    const KindTraits& traits = traits_of(movement_.kind);
    if (traits.reduces && inputs_.size() > LocalTensors::kMostSources)
      refuse(base::format("a list has at most {} tensors", LocalTensors::kMostSources));
    if (traits.reduces && options.op == ReduceOp::premul_sum)
      refuse("it takes no pre-multiplied sum (PREMUL_SUM)");
    if (traits.rooted && (options.root < 0 || options.root >= size_))
      refuse(base::format("root {} is not in the group of size {}", options.root, size_));
    if (traits.rooted && (root_tensor_ < 0 || base::as_size(root_tensor_) >= inputs_.size()))
      refuse(
          base::format("root_tensor is {}; the list has {} tensors", root_tensor_, inputs_.size()));
    const std::size_t blocks = inputs_.size() * inputs_.size() * base::as_size(size_);
    if (gathers_ && outputs_.size() != blocks)
      refuse(
          base::format("{} outputs; it must have {} x {} x {} = {}: a row for each input, with the "
                       "tensors of all ranks",
                       outputs_.size(), inputs_.size(), size_, inputs_.size(), blocks));
    check_list(inputs_, gathers_ ? "input" : "tensor");
    if (gathers_) check_list(outputs_, "output");
    check_apart();
  }
  /// Contiguous tensors that are written must not overlap.
  void check_apart() const {
    std::vector<Piece> written;
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      if (writes(i)) written.push_back({outputs_[i], 0, outputs_[i].count()});
    }
    Details details;
    details.output_pieces = written;
    Collective call;
    call.kind = Kind::all_reduce;  // of which each rank writes all
    call.details = &details;
    if (overlap_of(call, rank_) != Overlap::none) refuse(std::string(to_string(Overlap::output)));
  }
  /// True if the result goes to this tensor of `outputs_`.
  [[nodiscard]] bool writes(std::size_t i) const noexcept {
    const bool is_root_tensor = is_root() && i == base::as_size(root_tensor_);
    if (movement_.kind == Kind::reduce) return is_root_tensor;
    return movement_.kind != Kind::broadcast || !is_root_tensor;  // the source is not written
  }
  void check_list(std::span<const TensorView> views, std::string_view name) const {
    const TensorView& first = inputs_.front();
    for (std::size_t i = 0; i < views.size(); ++i) {
      const TensorView& view = views[i];
      const std::string which = base::format("{} {}", name, i);
      if (on_gpu(view) != on_gpu(first))
        refuse(
            base::format("the {} is in the memory of {}, the first one in that of {}; all must be "
                         "on GPUs, or all on the CPU",
                         which, to_string(view.device()), to_string(first.device())));
      const TensorView like(nullptr, first.dtype(), 0, view.device());  // several GPUs are allowed
      if (const std::string wrong = call::check_alike(view, which, like); !wrong.empty())
        refuse(wrong);
      if (view.count() != first.count())
        refuse(base::format("the {} has {} elements, not {}; all must have one size", which,
                            view.count(), first.count()));
      // A tensor that is only read may have strides with which elements share memory.
      const std::string wrong = call::check_memory(view, which, name != "input" && writes(i));
      if (!wrong.empty()) refuse(wrong);
    }
  }

  void check_streams(const MultigpuOptions& options) const {
    const std::vector<TensorView> all = tensors();
    if (!options.streams.empty() && options.streams.size() != all.size())
      refuse(base::format("{} streams for {} tensors; give one for each", options.streams.size(),
                          all.size()));
    if (!options.streams.empty() || stream_of_thread() == 0) return;
    for (const TensorView& view : all) {
      if (view.device() != inputs_.front().device())
        refuse(
            "the tensors are on several GPUs, and the stream of a StreamGuard is on one: give a "
            "stream for each tensor (MultigpuOptions::streams)");
    }
  }
  /// All tensors that the call reads or writes.
  [[nodiscard]] std::vector<TensorView> tensors() const {
    std::vector<TensorView> all = inputs_;
    if (movement_.kind == Kind::all_gather) all.insert(all.end(), outputs_.begin(), outputs_.end());
    return all;
  }
  /// The caller's streams that our work follows, with their GPUs.
  [[nodiscard]] std::set<std::pair<int, std::uintptr_t>> streams_of(
      const MultigpuOptions& options) const {
    const std::vector<TensorView> all = tensors();
    std::set<std::pair<int, std::uintptr_t>> streams;
    for (std::size_t i = 0; i < all.size(); ++i)
      streams.emplace(all[i].device().index,
                      options.streams.empty() ? stream_of_thread() : options.streams[i]);
    return streams;
  }

  const char* name_;
  std::string group_;
  int rank_;
  int size_;
  std::vector<TensorView> outputs_;
  std::vector<TensorView> inputs_;
  int root_tensor_;
  std::unique_ptr<LocalTensors> local_;
  TensorView input_;   ///< of the movement
  TensorView output_;  ///< of the movement
  std::vector<Piece> pieces_;
  std::vector<Piece> out_pieces_;
  Details details_;
  Collective movement_;
  bool gathers_ = false;
  bool copying_ = false;  ///< outputs are being written
};

/// Handles a call that could not begin: breaks the group, because the other ranks would wait for
/// this one, unless only the arguments are wrong.
[[noreturn]] void fail(ProcessGroup& group, const MultigpuCall& call, Errc code,
                       std::string_view why) {
  Outcome status(code, base::format("{}: {}", call.text(), why));
  if (code != Errc::unsupported && code != Errc::invalid_argument) {
    GroupAccess::backend(group).abort(status.with_culprit(group.rank()));
  }
  raise(status);
}

Work start(ProcessGroup& group, Kind kind, const char* name, std::span<const TensorView> outputs,
           std::span<const TensorView> inputs, const MultigpuOptions& options) {
  auto call = std::make_unique<MultigpuCall>(group, kind, name, outputs, inputs, options);
  try {
    call->begin(GroupAccess::backend(group), options);
  } catch (const Error& error) {
    fail(group, *call, error.code(), error.what());
  } catch (const std::bad_alloc&) {
    fail(group, *call, Errc::resource, "no memory for the tensors of a list");
  }
  return submit_in_two_steps(GroupAccess::backend(group), std::move(call), {});
}

}  // namespace

Work ProcessGroup::all_reduce_multigpu(std::span<const TensorView> tensors,
                                       const MultigpuOptions& options) {
  return start(*this, Kind::all_reduce, "all_reduce_multigpu", tensors, tensors, options);
}

Work ProcessGroup::broadcast_multigpu(std::span<const TensorView> tensors,
                                      const MultigpuOptions& options) {
  return start(*this, Kind::broadcast, "broadcast_multigpu", tensors, tensors, options);
}

Work ProcessGroup::reduce_multigpu(std::span<const TensorView> tensors,
                                   const MultigpuOptions& options) {
  return start(*this, Kind::reduce, "reduce_multigpu", tensors, tensors, options);
}

Work ProcessGroup::all_gather_multigpu(std::span<const TensorView> outputs,
                                       std::span<const TensorView> inputs,
                                       const MultigpuOptions& options) {
  return start(*this, Kind::all_gather, "all_gather_multigpu", outputs, inputs, options);
}

}  // namespace v0
}  // namespace tutti
