// <tutti/c.h>: reduce ops that the program makes.
#include <map>
#include <mutex>
#include <string>

#include "face.hpp"

namespace tutti::c {
namespace {

/// The ops that the program has made, by their numbers: its own, and PREMUL_SUM with a factor. A
/// number is never given again.
class MadeOps {
 public:
  int add(AnyOp op) {
    const std::lock_guard lock(mutex_);
    ops_.emplace(next_, std::move(op));
    return next_++;
  }
  AnyOp get(int number) {
    const std::lock_guard lock(mutex_);
    const auto found = ops_.find(number);
    if (found == ops_.end())
      refuse("op " + std::to_string(number) + " is none of tutti_op, and none that was made");
    return found->second;
  }
  void remove(int number) {
    const std::lock_guard lock(mutex_);
    if (ops_.erase(number) == 0) refuse("op " + std::to_string(number) + " is none that was made");
  }

 private:
  std::mutex mutex_;
  std::map<int, AnyOp> ops_;
  int next_ = 1024;  // behind those of tutti_op, which may grow
};

MadeOps& made_ops() {
  static auto* const ops = new MadeOps;  // never destroyed: threads may call at the end
  return *ops;
}

}  // namespace

AnyOp made_op_of(int op) { return made_ops().get(op); }

LibraryOp library_op_of(int op) {
  const AnyOp any = op_of(op);
  if (const auto* const own = std::get_if<UserOp>(&any))
    refuse("op " + std::to_string(op) + " ('" + std::string(own->name()) +
           "') was made by tutti_op_create: this call takes only tutti_op and premul_sum");
  return std::get<LibraryOp>(any);
}

}  // namespace tutti::c

using namespace tutti::c;  // NOLINT: the functions are C's

int tutti_op_create(const char* name, tutti_op_function function, void* context, size_t block,
                    int* op) {
  return result_of([&] {
    (void)at(op, "op");
    if (function == nullptr) refuse("tutti_op_create: function is NULL");
    const std::string named(&at(name, "name"));
    tutti::UserOp own(
        named,
        [named, function, context](const tutti::TensorView& result, const tutti::TensorView& next) {
          const int failure = function(context, result.data(), next.data(), result.count(),
                                       static_cast<int>(result.dtype()));
          if (failure != 0)
            tutti::raise(tutti::Outcome(
                tutti::Errc::aborted,
                "the function of op '" + named + "' returned " + std::to_string(failure)));
        },
        block);
    *op = made_ops().add(std::move(own));
  });
}

int tutti_op_premul_sum(double factor, int* op) {
  return result_of([&] {
    (void)at(op, "op");
    *op = made_ops().add(LibraryOp{tutti::ReduceOp::premul_sum, factor});
  });
}

int tutti_op_free(int op) {
  return result_of([&] { made_ops().remove(op); });
}
