#include "kernels/probes/probes.hpp"

#include "kernels/common/measure.cuh"

namespace plumbline {

std::vector<Record> probe_machine(const ProbeDone& done) {
  constexpr int kHopper = 90;  // wgmma and bulk copies
  std::vector<Record> all;
  const auto add = [&](const char* what, const std::vector<Record>& records) {
    all.insert(all.end(), records.begin(), records.end());
    done(what, records);
  };
  add("DRAM bandwidth", probe_dram());  // first: it brings the clocks up too
  add("latency", probe_latency());
  add("latency under load", probe_loaded_latency());
  add("L2 bandwidth", probe_l2());
  add("link to the host", probe_host_link());
  add("launches", probe_launches());
  add("grid barrier", probe_barrier());
  add("flag", probe_flag());
  if (compute_capability() != kHopper) return all;
  add("instruction rates", probe_instructions());
  add("epilogue", probe_epilogue());
  return all;
}

}  // namespace plumbline
