// Cross entropy, the gradients' norm and AdamW on fp32 gradients against fp64 on the CPU.
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "kernels/training/training.hpp"
#include "tests/gpu/check_training.cuh"

namespace plumbline::checking {

Check check_loss(Draw& draw) {
  const Rows s = draw.rows(60000, 1 << 17);
  const std::int64_t n = s.rows * s.cols;
  const std::size_t x = draw.from(n);
  const Pool& p = draw.pool();
  std::vector<std::int32_t> targets = draw.ids(s.rows, s.cols);
  if (draw.below(2) == 0) targets[static_cast<std::size_t>(draw.below(s.rows))] = -1;
  const Upload<std::int32_t> where(targets);
  const auto rows = static_cast<std::size_t>(s.rows), cols = static_cast<std::size_t>(s.cols);
  Poisoned loss(rows * 4), lse(rows * 4), dx(static_cast<std::size_t>(n) * 2);
  loss.prepare(rows * 4);
  lse.prepare(rows * 4);
  dx.prepare(static_cast<std::size_t>(n) * 2);
  const float scale = 0.125F;
  launch_cross_entropy(s, p.device(x), where.get(), static_cast<float*>(loss.get()), static_cast<float*>(lse.get()),
                       nullptr);
  launch_cross_entropy_backward(s, p.device(x), where.get(), static_cast<const float*>(lse.get()), scale, dx.get(),
                                nullptr);
  std::vector<double> want(rows * cols), slack(rows * cols);
  Comparison all, losses;
  const std::vector<float> got_loss = loss.read<float>(), got_lse = lse.read<float>();
  for (std::size_t r = 0; r < rows; ++r) {
    double sum = 0;
    for (std::size_t c = 0; c < cols; ++c) sum += std::exp(p.at(x + r * cols + c));
    const double whole = std::log(sum), bound = 3e-6 * (1 + std::abs(whole));
    const std::int32_t target = targets[r];
    losses.add(static_cast<double>(got_lse[r]), whole, bound, "log-sum-exp " + std::to_string(r));
    const double want_loss = target < 0 ? 0 : whole - p.at(x + r * cols + static_cast<std::size_t>(target));
    losses.add(static_cast<double>(got_loss[r]), want_loss, bound, "loss " + std::to_string(r));
    for (std::size_t c = 0; c < cols && target >= 0; ++c) {
      const double q = std::exp(p.at(x + r * cols + c)) / sum;
      const double d = static_cast<std::int32_t>(c) == target ? q - 1 : q;
      want[r * cols + c] = static_cast<double>(scale) * d;
      slack[r * cols + c] = 1e-5 * static_cast<double>(scale) * q;
    }
  }
  judge_values(dx, want, slack, all);
  if (all.fault.empty()) all.fault = losses.fault;
  if (loss.overrun() || lse.overrun()) all.fault = "wrote past the end";
  return finish("cross_entropy", sizes(s), all);
}

namespace {

std::vector<float> normal_floats(std::int64_t n, double sigma, std::int64_t seed) {
  std::mt19937 random(static_cast<unsigned>(seed));
  std::normal_distribution<float> normal(0.0F, static_cast<float>(sigma));
  std::vector<float> out(static_cast<std::size_t>(n));
  for (float& v : out) v = normal(random);
  return out;
}

}  // namespace

/// Two steps: norm and clipping of a gradient, then AdamW with it.
Check check_update(Draw& draw) {
  const std::int64_t n = 1 + draw.below(draw.below(2) == 0 ? 20 : 100000);
  AdamwSettings settings;
  settings.rate = 1e-3;
  const double most = draw.below(2) == 0 ? 1e9 : 0.5;
  const std::vector<float> begin = normal_floats(n, 0.02, draw.below(1 << 30));
  const auto count = static_cast<std::size_t>(n);
  Poisoned out[4] = {Poisoned(count * 4), Poisoned(count * 4), Poisoned(count * 4), Poisoned(count * 2)};
  float* arrays[3];
  for (int i = 0; i < 3; ++i) {
    arrays[i] = static_cast<float*>(out[i].prepare(count * 4));
    PLUMBLINE_CUDA_CHECK(cudaMemset(arrays[i], 0, count * 4));
  }
  PLUMBLINE_CUDA_CHECK(cudaMemcpy(arrays[2], begin.data(), count * 4, cudaMemcpyHostToDevice));
  out[3].prepare(count * 2);
  const Upload<std::int32_t> step({0});
  const Upload<float> corrections({0, 0}), norm({0, 0});
  const Upload<char> scratch(std::vector<char>(gradient_norm_scratch_bytes(), 0));
  std::vector<double> first(count), second(count), master(begin.begin(), begin.end());
  Comparison all, sums;
  for (int t = 1; t <= 2; ++t) {
    const std::vector<float> g = normal_floats(n, 1, draw.below(1 << 30));
    const Upload<float> gradient(g);
    launch_gradient_norm(gradient.get(), n, most, norm.get(), scratch.get(), nullptr);
    launch_adamw_step(settings, step.get(), corrections.get(), nullptr);
    launch_adamw_floats(
        n, settings, {gradient.get(), arrays[0], arrays[1], arrays[2], out[3].get(), norm.get() + 1, corrections.get()},
        nullptr);
    double square = 0;
    for (const float v : g) square += static_cast<double>(v) * static_cast<double>(v);
    const double root = std::sqrt(square), clip = std::min(1.0, most / (root + 1e-6));
    float got[2];
    PLUMBLINE_CUDA_CHECK(cudaMemcpy(got, norm.get(), sizeof got, cudaMemcpyDeviceToHost));
    sums.add(static_cast<double>(got[0]), root, 1e-6 * root, "norm");
    sums.add(static_cast<double>(got[1]), clip, 1e-6 * clip, "clipping");
    for (std::size_t i = 0; i < count; ++i) {
      const double d = static_cast<double>(g[i]) * clip;
      first[i] = settings.beta1 * first[i] + (1 - settings.beta1) * d;
      second[i] = settings.beta2 * second[i] + (1 - settings.beta2) * d * d;
      const double m = first[i] / (1 - std::pow(settings.beta1, t)), v = second[i] / (1 - std::pow(settings.beta2, t));
      master[i] =
          master[i] * (1 - settings.rate * settings.decay) - settings.rate * m / (std::sqrt(v) + settings.epsilon);
    }
  }
  const std::vector<float> got = out[2].read<float>();
  const std::vector<bf16> copy = out[3].read<bf16>();
  constexpr double kFp32 = 1.0 / (1 << 20);
  for (std::size_t i = 0; i < count; ++i) {
    const double bound = kFp32 * (std::abs(master[i]) + 64 * settings.rate);
    all.add(static_cast<double>(got[i]), master[i], bound, "weight " + std::to_string(i));
    sums.add(static_cast<double>(__bfloat162float(copy[i])), master[i], kBf16Rounding * std::abs(master[i]) + bound,
             "copy " + std::to_string(i));
  }
  for (Poisoned& x : out) {
    x.read<char>();
    if (x.overrun()) all.fault = "wrote past the end";
  }
  if (all.fault.empty()) all.fault = sums.fault;
  return finish("gradient_norm, adamw", "n=" + std::to_string(n) + (most < 1 ? ";clipped" : ""), all);
}

}  // namespace plumbline::checking
