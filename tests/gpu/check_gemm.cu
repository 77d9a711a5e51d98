// Operands are windows at random places of two pools of random normal values, so that hundreds of shapes take seconds.
// One pool for both would let windows overlap, and a row of x times itself is a sum of squares, which no bound here holds.
// Every element of y must have been written and none behind it; a random sample of them is held against fp64.
#include "tests/gpu/check_gemm.hpp"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>

#include "kernels/common/measure.cuh"
#include "kernels/gemm/gemm.hpp"
#include "ops/plan/kernel_menu.hpp"
#include "tests/gpu/stored16.hpp"

namespace plumbline {
namespace {

constexpr std::int64_t kPool = 6 << 20;         // values
constexpr std::int64_t kLargest = 4 << 20;      // elements of an operand
constexpr std::int64_t kResult = 8 << 20;       // elements of the result
constexpr std::int64_t kWindow = 128;           // windows begin at multiples: 16 bytes and more in both types
constexpr std::int64_t kGuard = 4096;           // elements behind the result that nobody may write
constexpr unsigned short kPoison = 0xffff;      // a NaN that no conversion produces
constexpr std::int64_t kWorkspace = 256 << 20;  // bytes
constexpr int kSamples = 512;

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  std::int64_t below(std::int64_t n) { return static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(n)); }
  /// 1 to `most`: every order of magnitude as likely, or (one in three) every size.
  std::int64_t size(std::int64_t most) {
    if (below(3) == 0) return 1 + below(most);
    return static_cast<std::int64_t>(std::exp(uniform_(engine_) * std::log(static_cast<double>(most))) + 0.5);
  }
  std::mt19937_64& engine() { return engine_; }

 private:
  std::mt19937_64 engine_;
  std::uniform_real_distribution<double> uniform_;
};

/// Random normal values as bf16 or fp8, on host (what they became) and device.
template <class T>
class Pool {
 public:
  explicit Pool(Random& random) : host_(kPool), device_(kPool * sizeof(T)) {
    std::vector<T> stored;
    stored.reserve(kPool);
    std::normal_distribution<float> normal;
    for (float& v : host_) {
      stored.push_back(T(normal(random.engine())));
      v = static_cast<float>(stored.back());
    }
    PLUMBLINE_CUDA_CHECK(cudaMemcpy(device_.as(), stored.data(), device_.bytes(), cudaMemcpyHostToDevice));
  }
  const void* device(std::int64_t from) const { return device_.as<T>() + from; }
  const float* host(std::int64_t from) const { return host_.data() + from; }

 private:
  std::vector<float> host_;
  DeviceBuffer device_;
};

template <class T>
struct Operands {
  explicit Operands(Random& random) : x(random), w(random) {}
  Pool<T> x, w;
};

struct Outputs {
  DeviceBuffer y{(kResult + kGuard) * sizeof(__nv_bfloat16)}, workspace{kWorkspace};
  std::vector<unsigned short> raw = std::vector<unsigned short>(kResult + kGuard);
};

std::int64_t up_to_multiple(std::int64_t n, std::int64_t of) { return (n + of - 1) / of * of; }

Gemm random_shape(Random& random, DType math) {
  const bool fp8 = math == DType::fp8;
  Gemm g;
  g.precision = *parse_precision(name(math));
  g.batch = random.below(4) == 0 ? 1 + random.below(4) : 1;
  g.k = up_to_multiple(random.size(random.below(2) == 0 ? 16384 : 1024), fp8 ? 16 : 8);
  const std::int64_t most = std::min<std::int64_t>(6144, kLargest / g.batch / g.k);
  g.m = random.size(most);
  g.n = up_to_multiple(random.size(std::min(most, kResult / g.batch / g.m)) - 7, 8);
  g.n = std::max<std::int64_t>(g.n, 8);
  return g;
}

GemmPlan random_plan(Random& random, const Gemm& g, const GemmVariant& v) {
  GemmPlan p;
  p.swapped = v.cols < 64 || random.below(2) == 0;
  (p.swapped ? p.tile_n : p.tile_m) = v.rows;
  (p.swapped ? p.tile_m : p.tile_n) = v.cols;
  (p.swapped ? p.cluster_n : p.cluster_m) = v.cluster;
  p.tile_k = v.step_bytes / (g.precision.math == DType::fp8 ? 1 : 2);
  p.stages = v.stages;
  p.clipped = random.below(2) == 0;
  const auto splits = own_gemm_splits();
  p.splits = splits[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(splits.size())))];
  return p;
}

std::string words(const Gemm& g, const GemmPlan& p) {
  const auto n = [](std::int64_t v) { return std::to_string(v); };
  return "M=" + n(g.m) + ";N=" + n(g.n) + ";K=" + n(g.k) + ";batch=" + n(g.batch) +
         ";dtype=" + std::string(name(g.precision)) + ";tile=" + n(p.tile_m) + "x" + n(p.tile_n) +
         ";splits=" + n(p.splits) + ";swapped=" + n(p.swapped ? 1 : 0) + ";clipped=" + n(p.clipped ? 1 : 0);
}

/// ||error|| / ||result|| that one rounding to bf16 allows a sample of n (as in check_cases.cu), and as much again as
/// the sums in the tensor cores may add: they are not rounded but cut off, in fp8 to 14 significant bits.
double allowed_error(int n, bool fp8) {
  const double typical = std::ldexp(1.0, -7) / std::sqrt(12.0);
  const double rounding = std::min(std::ldexp(1.0, -8), typical * (1 + 3 / std::sqrt(static_cast<double>(n))));
  return rounding + std::ldexp(1.0, fp8 ? -10 : -13);
}

/// Sampled elements of y against scale * x W^T in fp64.
template <class T>
void compare(const Gemm& g, const Operands<T>& operands, std::int64_t x0, std::int64_t w0, double scale, Random& random,
             const std::vector<unsigned short>& raw, Check& check) {
  const checking::Stored16 as{g.precision.output};
  double difference = 0, size = 0;
  const std::int64_t all = g.batch * g.m * g.n;
  const int samples = static_cast<int>(std::min<std::int64_t>(all, kSamples));
  for (int i = 0; i < samples; ++i) {
    const std::int64_t at = all <= kSamples ? i : random.below(all);
    const float* x = operands.x.host(x0 + at / g.n * g.k);
    const float* w = operands.w.host(w0 + (at / (g.m * g.n) * g.n + at % g.n) * g.k);
    double want = 0;
    for (std::int64_t k = 0; k < g.k; ++k) want += static_cast<double>(x[k]) * static_cast<double>(w[k]);
    want *= scale;
    const double got = as.value(raw[static_cast<std::size_t>(at)]);
    // half a unit in the last place, and the sums' own error: relative to the terms' sizes, sqrt(K)
    const double bound = std::abs(want) / 256 + scale * std::sqrt(static_cast<double>(g.k)) / 256;
    if (!(std::abs(got - want) <= bound) && check.fault.empty()) {
      check.fault = "element " + std::to_string(at) + ": " + std::to_string(got) + " for " + std::to_string(want);
    }
    difference += (got - want) * (got - want);
    size += want * want;
  }
  check.error = std::sqrt(difference / size);
  check.allowed = allowed_error(samples, g.precision.math == DType::fp8);
  if (!(check.error <= check.allowed) && check.fault.empty()) check.fault = "relative error too large";
}

template <class T>
Check check_one(const Gemm& g, const GemmPlan& plan, const Operands<T>& operands, Random& random, Outputs& out) {
  Check check{"gemm", words(g, plan), 0, 0, ""};
  const auto window = [&](std::int64_t elements) { return random.below((kPool - elements) / kWindow) * kWindow; };
  const std::int64_t x0 = window(g.batch * g.m * g.k), w0 = window(g.batch * g.n * g.k), all = g.batch * g.m * g.n;
  const float scale = 0.25F + static_cast<float>(random.below(8));
  // the workspace is poisoned too; twice, as the first launch must leave the counters of a split ready for the second
  PLUMBLINE_CUDA_CHECK(cudaMemset(out.workspace.as(), 0xff, std::max<std::size_t>(gemm_workspace_bytes(g, plan), 16)));
  for (int launch = 0; launch < 2; ++launch) {
    PLUMBLINE_CUDA_CHECK(cudaMemset(out.y.as(), 0xff, static_cast<std::size_t>(all + kGuard) * 2));
    launch_gemm(g, plan, {operands.x.device(x0), operands.w.device(w0), out.y.as(), out.workspace.as(), scale},
                nullptr);
  }
  PLUMBLINE_CUDA_CHECK(
      cudaMemcpy(out.raw.data(), out.y.as(), static_cast<std::size_t>(all + kGuard) * 2, cudaMemcpyDeviceToHost));
  const auto end = out.raw.begin() + all;
  if (std::find(out.raw.begin(), end, kPoison) != end) check.fault = "an element was not written";
  if (std::any_of(end, end + kGuard, [](unsigned short v) { return v != kPoison; })) {
    check.fault = "wrote past the end";
  }
  compare(g, operands, x0, w0, static_cast<double>(scale), random, out.raw, check);
  return check;
}

template <class T>
void check_type(DType math, Random& random, int shapes, Outputs& outputs, std::vector<Check>& checks) {
  const Operands<T> operands(random);
  const auto menu = own_gemm_menu(GemmEngine::wgmma, math);
  for (int done = 0, turn = 0; done < shapes; ++turn) {
    const Gemm g = random_shape(random, math);
    const GemmPlan plan = random_plan(random, g, menu[static_cast<std::size_t>(turn) % menu.size()]);
    if (*gemm_refusal(g, plan) != '\0') continue;  // more splits than steps
    if (gemm_workspace_bytes(g, plan) > static_cast<std::size_t>(kWorkspace))
      continue;  // no planner splits so large a result
    checks.push_back(check_one(g, plan, operands, random, outputs));
    ++done;
  }
}

}  // namespace

std::vector<Check> check_gemm(unsigned seed, int shapes) {
  Random random(seed);
  Outputs outputs;
  std::vector<Check> checks;
  check_type<__nv_bfloat16>(DType::bf16, random, shapes, outputs, checks);
  check_type<__half>(DType::fp16, random, shapes, outputs, checks);
  check_type<__nv_fp8_e4m3>(DType::fp8, random, shapes, outputs, checks);
  return checks;
}

}  // namespace plumbline
