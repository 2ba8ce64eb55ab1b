#include "plan/builders.hpp"
#include "plan/program.hpp"

namespace tutti::plan {

Schedule region_barrier(const Shape& s) {
  Program p("region_barrier", Kind::barrier, s);
  p.schedule().region = true;
  p.schedule().symmetry = Symmetry::rotation;
  p.publish();
  p.await_line(p.others());
  p.agree();
  return p.take();
}

}  // namespace tutti::plan
