#include "plan/builders.hpp"
#include "plan/program.hpp"

namespace tutti::plan {

Schedule region_barrier(const Shape& s) {
  Program p = Program::on_region("region_barrier", Kind::barrier, s);
  p.symmetry(Symmetry::rotation);
  p.meet();
  return p.take();
}

}  // namespace tutti::plan
