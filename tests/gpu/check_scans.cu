// Sums and scans of whole arrays against their references.
#include "kernels/common/launch.hpp"
#include "tests/gpu/cases.hpp"
#include "tests/gpu/check_tools.cuh"

namespace plumbline {
namespace {

std::string size_and_type(const Scan& s) { return "n=" + std::to_string(s.n) + ";dtype=" + std::string(name(s.dtype)); }

/// Twice with one scratch: the first launch must leave it ready for the second, and both must agree to the last bit.
void check_sum_all(const Scan& s, Inputs& random, std::vector<Check>& out) {
  const Values x = random.values(s.n);
  const bool wide = s.dtype == DType::fp32;
  const OnDevice in = wide ? OnDevice(Floats(x.begin(), x.end())) : OnDevice(x);
  const DeviceBuffer scratch(sum_all_scratch_bytes());
  PLUMBLINE_CUDA_CHECK(cudaMemset(scratch.as(), 0, scratch.bytes()));
  Output first(sizeof(float)), second(sizeof(float));
  for (Output* y : {&first, &second}) {
    launch_sum_all(s, in.get(), static_cast<float*>(y->get()), scratch.as<void>(), nullptr);
  }
  const float a = first.read<float>()[0], b = second.read<float>()[0];
  const double want = reference_sum_all(x);
  // fp32 partial sums of n normal values: their errors grow like the sum itself, sqrt(n), which may cancel
  const double scale = std::sqrt(static_cast<double>(s.n));
  Check c{"sum_all", size_and_type(s), std::abs(static_cast<double>(a) - want) / scale, 1e-4, ""};
  if (!(c.error <= c.allowed)) c.fault = std::to_string(a) + " for " + std::to_string(want);
  if (a != b) c.fault = "two runs differ";
  if (first.overrun() || second.overrun()) c.fault = "wrote past the end";
  out.push_back(c);
}

/// Twice with one workspace. Partial sums of normal values wander like sqrt(n), and so do fp32's errors; bf16 also
/// rounds the result.
void check_cumsum(const Scan& s, Inputs& random, std::vector<Check>& out) {
  const Values x = random.values(s.n);
  const bool wide = s.dtype == DType::fp32;
  const OnDevice in = wide ? OnDevice(Floats(x.begin(), x.end())) : OnDevice(x);
  const DeviceBuffer workspace(cumsum_workspace_bytes(s));
  PLUMBLINE_CUDA_CHECK(cudaMemset(workspace.as(), 0, workspace.bytes()));
  const Values want = reference_cumsum(x);
  Check c{"cumsum", size_and_type(s), 0, 1e-5, ""};
  for (int run = 0; run < 2; ++run) {
    Output y(x.size() * (wide ? 4 : 2));
    launch_cumsum(s, in.get(), y.get(), workspace.as<void>(), nullptr);
    const Values got = wide ? to_values(y.read<float>()) : to_values(y.read<__nv_bfloat16>());
    for (std::size_t i = 0; i < want.size(); ++i) {
      const double rounding = wide ? 0 : std::abs(want[i]) / 256;
      const double off = (std::abs(got[i] - want[i]) - rounding) / std::sqrt(static_cast<double>(i + 1));
      if (!(off <= c.allowed) && c.fault.empty()) {
        c.fault = "element " + std::to_string(i) + ": " + std::to_string(got[i]) + " for " + std::to_string(want[i]);
      }
      c.error = std::max(c.error, off);
    }
    if (y.overrun()) c.fault = "wrote past the end";
  }
  out.push_back(c);
}

}  // namespace

std::vector<Check> check_scans(unsigned seed, int shapes) {
  Inputs random(seed);
  std::vector<Check> out;
  for (const DType type : {DType::bf16, DType::fp32}) {
    std::vector<std::int64_t> sizes = {1, 7, 8, 9, 1000, 4096, 4097, 8192, 65537, 1000003, 6000001, 8388608};
    while (static_cast<int>(sizes.size()) < shapes) sizes.push_back(random.size(300000));
    for (const std::int64_t n : sizes) {
      check_sum_all({ScanKind::sum_all, n, type}, random, out);
      check_cumsum({ScanKind::cumsum, n, type}, random, out);
    }
  }
  return out;
}

}  // namespace plumbline
