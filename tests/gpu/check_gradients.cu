// Products of gradients against fp64: dX = dY W with W as it lies, dW += dY^T X with both. Ragged sizes, all tiles.
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "kernels/gemm/gemm.hpp"
#include "ops/plan/kernel_menu.hpp"
#include "tests/gpu/check_buffers.cuh"
#include "tests/gpu/check_gemm.hpp"

namespace plumbline {
namespace {

using checking::bf16;
using checking::Poisoned;
using checking::Pool;

constexpr std::int64_t kValues = 6 << 20, kMost = 4 << 20, kResults = 4 << 20, kSumBytes = 256 << 20;
constexpr int kLooked = 512;

struct GradientDraw {
  std::mt19937_64 random;
  Pool pool;
  Poisoned out{kResults * 4};
  DeviceBuffer workspace{kSumBytes};
  explicit GradientDraw(unsigned seed) : random(seed), pool(seed, kValues) {}
  std::int64_t below(std::int64_t n) { return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n)); }
  std::int64_t size(std::int64_t most) {
    const double u = static_cast<double>(below(1 << 20)) / (1 << 20);
    return std::max<std::int64_t>(1, std::llround(std::exp(u * std::log(static_cast<double>(most)))));
  }
};

std::int64_t in_units(std::int64_t n) { return (n + 7) / 8 * 8; }

Gemm random_gradient(GradientDraw& draw, bool of_weights) {
  Gemm g;
  g.precision = *parse_precision("bf16");
  g.layout = WeightLayout::kn;
  g.batch = draw.below(5) == 0 ? 1 + draw.below(3) : 1;
  g.k = draw.size(8192);
  if (!of_weights) g.k = in_units(g.k);
  const std::int64_t most = std::min<std::int64_t>(4096, kMost / g.batch / g.k);
  g.m = std::max<std::int64_t>(1, draw.size(std::max<std::int64_t>(8, most)) / 8 * 8);
  if (of_weights) g.m = in_units(g.m);
  else g.m = std::max<std::int64_t>(1, g.m - draw.below(8));
  g.n = in_units(draw.size(std::max<std::int64_t>(8, std::min(most, kResults / g.batch / g.m))) - 7);
  g.n = std::max<std::int64_t>(8, g.n);
  if (of_weights) {
    g.precision.output = DType::fp32;
    g.accumulate = draw.below(3) != 0;
  }
  return g;
}

Check check_gradient(GradientDraw& draw, bool of_weights, const GemmVariant& v) {
  const Gemm g = random_gradient(draw, of_weights);
  GemmPlan plan;
  plan.tile_m = v.rows;
  plan.tile_n = v.cols;
  plan.cluster_m = v.cluster;
  plan.tile_k = v.step_bytes / 2;
  plan.stages = v.stages;
  plan.clipped = draw.below(2) == 0;
  const auto splits = own_gemm_splits();
  plan.splits = splits[static_cast<std::size_t>(draw.below(static_cast<std::int64_t>(splits.size())))];
  if (draw.below(4) == 0) plan.splits = 0;
  plan.splits = std::min(plan.splits, (g.k + plan.tile_k - 1) / plan.tile_k);
  if (gemm_workspace_bytes(g, plan) > static_cast<std::size_t>(kSumBytes)) plan.splits = 1;
  const auto text = [](std::int64_t x) { return std::to_string(x); };
  Check c{of_weights ? "gemm wgrad" : "gemm dgrad",
          "M=" + text(g.m) + ";N=" + text(g.n) + ";K=" + text(g.k) + ";batch=" + text(g.batch) +
              ";tile=" + text(v.rows) + "x" + text(v.cols) + ";cluster=" + text(v.cluster) +
              ";splits=" + text(plan.splits) + (plan.clipped ? ";clipped" : "") + (g.accumulate ? ";accumulate" : ""),
          0, of_weights ? 1.0 / 4096 : 1.0 / 256, ""};
  if (const char* refusal = gemm_refusal(g, plan); *refusal != '\0') {
    c.fault = refusal;
    return c;
  }
  const auto window = [&](std::int64_t n) {
    return static_cast<std::size_t>(draw.below((kValues - n) / 128 + 1)) * 128;
  };
  const std::size_t x0 = window(g.batch * g.m * g.k), w0 = window(g.batch * g.n * g.k);
  const std::int64_t all = g.batch * g.m * g.n;
  const std::size_t each = of_weights ? 4 : 2;
  void* y = draw.out.prepare(static_cast<std::size_t>(all) * each);
  if (g.accumulate) {
    std::vector<float> begin(static_cast<std::size_t>(all));
    for (std::size_t i = 0; i < begin.size(); ++i) begin[i] = static_cast<float>(i % 7);
    PLUMBLINE_CUDA_CHECK(cudaMemcpy(y, begin.data(), begin.size() * 4, cudaMemcpyHostToDevice));
  }
  const float scale = 0.5F + static_cast<float>(draw.below(3));
  launch_gemm(g, plan, {draw.pool.device(x0), draw.pool.device(w0), y, draw.workspace.as(), scale}, nullptr);
  std::vector<double> got;
  if (of_weights) {
    for (const float f : draw.out.read<float>()) got.push_back(static_cast<double>(f));
  } else {
    for (const bf16 f : draw.out.read<bf16>()) got.push_back(static_cast<double>(__bfloat162float(f)));
  }
  checking::Comparison sums;
  if (draw.out.overrun()) sums.fault = "wrote past the end";
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(got[i]) && sums.fault.empty()) sums.fault = "element " + std::to_string(i) + " was not written";
  }
  for (int i = 0; i < std::min<std::int64_t>(all, kLooked); ++i) {
    const std::int64_t at = all <= kLooked ? i : draw.below(all);
    const std::int64_t batch = at / (g.m * g.n), row = at / g.n % g.m, col = at % g.n;
    double want = 0;
    for (std::int64_t k = 0; k < g.k; ++k) {
      const std::int64_t x = of_weights ? (batch * g.k + k) * g.m + row : (batch * g.m + row) * g.k + k;
      want += draw.pool.at(x0 + static_cast<std::size_t>(x)) *
              draw.pool.at(w0 + static_cast<std::size_t>((batch * g.k + k) * g.n + col));
    }
    want *= static_cast<double>(scale);
    const double begin = g.accumulate ? static_cast<double>(at % 7) : 0;
    const double own = std::sqrt(static_cast<double>(g.k)) * static_cast<double>(scale);
    const double bound = of_weights ? own / 2048 + begin / (1 << 20) : std::abs(want) / 256 + own / 256;
    sums.add(got[static_cast<std::size_t>(at)] - begin, want, bound, "element " + std::to_string(at));
  }
  c.error = sums.error();
  c.fault = sums.fault;
  if (!(c.error <= c.allowed) && c.fault.empty()) c.fault = "relative error too large";
  return c;
}

}  // namespace

std::vector<Check> check_gradient_products(unsigned seed, int shapes) {
  GradientDraw draw(seed);
  const auto menu = own_gradient_menu();
  std::vector<Check> out;
  for (int i = 0; i < shapes; ++i) {
    for (const bool of_weights : {false, true}) {
      out.push_back(check_gradient(draw, of_weights, menu[static_cast<std::size_t>(i) % menu.size()]));
    }
  }
  return out;
}

}  // namespace plumbline
