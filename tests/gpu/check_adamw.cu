// Two steps of AdamW against fp64 on the CPU.
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "kernels/rows/adamw.hpp"
#include "tests/gpu/cases.hpp"
#include "tests/gpu/check_buffers.cuh"

namespace plumbline {
namespace {

using checking::bf16;

struct State {
  double first = 0, second = 0, master = 0;
};

void step_of(State& x, double gradient, const AdamwSettings& s) {
  const double g = gradient * s.gradient_scale;
  x.first = s.beta1 * x.first + (1 - s.beta1) * g;
  x.second = s.beta2 * x.second + (1 - s.beta2) * g * g;
  const double first = x.first / (1 - std::pow(s.beta1, s.step)), second = x.second / (1 - std::pow(s.beta2, s.step));
  x.master = x.master * (1 - s.rate * s.decay) - s.rate * first / (std::sqrt(second) + s.epsilon);
}

/// fp32 results of a few operations: within 2^-20 of themselves, and weights within 2^-18 of a step more.
void judge_update(Check& c, std::vector<State>& want, const AdamwSettings& s, checking::Poisoned (&got)[4]) {
  const std::vector<float> first = got[0].read<float>(), second = got[1].read<float>(), master = got[2].read<float>();
  const std::vector<bf16> weights = got[3].read<bf16>();
  checking::Comparison all;
  for (std::size_t i = 0; i < want.size(); ++i) {
    const std::string where = "element " + std::to_string(i);
    const auto add = [&](double value, double expected, double bound, const char* name) {
      all.add(value, expected, bound, name + (" of " + where));
    };
    constexpr double kFp32 = 1.0 / (1 << 20);
    add(first[i], want[i].first, kFp32 * (std::abs(want[i].first) + 0.25), "first moment");
    add(second[i], want[i].second, kFp32 * (std::abs(want[i].second) + 1e-6), "second moment");
    add(master[i], want[i].master, kFp32 * (std::abs(want[i].master) + 16 * s.rate), "weight");
    add(static_cast<double>(__bfloat162float(weights[i])), want[i].master,
        checking::kBf16Rounding * std::abs(want[i].master) + kFp32 * 16 * s.rate, "copy");
  }
  c.error = all.error();
  c.fault = all.fault;
  for (const checking::Poisoned& x : got) {
    if (x.overrun()) c.fault = "wrote past the end";
  }
}

Check check_one(std::int64_t rows, std::int64_t cols, const checking::Pool& pool, std::mt19937& random) {
  Rowwise s;
  s.kind = RowwiseKind::adamw;
  s.rows = rows;
  s.cols = cols;
  const auto n = static_cast<std::size_t>(rows * cols);
  Check c{"adamw", "rows=" + std::to_string(rows) + ";cols=" + std::to_string(cols), 0, 1.0 / 256, ""};
  AdamwSettings settings;
  settings.rate = 1e-3;
  settings.gradient_scale = random() % 2 == 0 ? 1.0 : 0.125;
  std::vector<float> master(n);
  std::vector<State> want(n);
  std::normal_distribution<float> normal(0.0F, 0.02F);
  for (std::size_t i = 0; i < n; ++i) want[i].master = static_cast<double>(master[i] = normal(random));
  checking::Poisoned got[4] = {checking::Poisoned(n * 4), checking::Poisoned(n * 4), checking::Poisoned(n * 4),
                               checking::Poisoned(n * 2)};
  float* arrays[3];
  for (int i = 0; i < 3; ++i) {
    arrays[i] = static_cast<float*>(got[i].prepare(n * 4));
    PLUMBLINE_CUDA_CHECK(cudaMemset(arrays[i], 0, n * 4));
  }
  PLUMBLINE_CUDA_CHECK(cudaMemcpy(arrays[2], master.data(), n * 4, cudaMemcpyHostToDevice));
  void* weights = got[3].prepare(n * 2);
  for (settings.step = 1; settings.step <= 2; ++settings.step) {
    // operands begin at whole vectors
    const std::size_t from = random() % (pool.size() - n) / 8 * 8;
    launch_adamw(s, settings, {pool.device(from), arrays[0], arrays[1], arrays[2], weights}, nullptr);
    for (std::size_t i = 0; i < n; ++i) step_of(want[i], pool.at(from + i), settings);
  }
  judge_update(c, want, settings, got);
  if (!(c.error <= c.allowed) && c.fault.empty()) c.fault = "relative error too large";
  return c;
}

}  // namespace

std::vector<Check> check_adamw(unsigned seed, int shapes) {
  std::mt19937 random(seed);
  const checking::Pool pool(seed, 1 << 20);
  std::vector<Check> out;
  const auto below = [&](int n) { return static_cast<std::int64_t>(random() % static_cast<unsigned>(n)); };
  for (int n = 0; n < shapes; ++n)
    out.push_back(check_one(1 + below(n == 0 ? 1 : 40), 1 + below(n < 4 ? 4 : 3000), pool, random));
  return out;
}

}  // namespace plumbline
