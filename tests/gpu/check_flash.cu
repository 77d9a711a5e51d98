// Flash attention forward against an fp64 reference on the CPU: ragged shapes, every output written, none behind.
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "kernels/attention/attention.hpp"
#include "kernels/common/measure.cuh"
#include "ops/plan/kernel_menu.hpp"
#include "ops/plan/text.hpp"
#include "tests/gpu/check_flash.hpp"
#include "tests/gpu/stored16.hpp"

namespace plumbline {
namespace {

constexpr unsigned char kPoison = 0xff;  // as bf16: NaN
constexpr std::size_t kGuard = 4096;     // bytes behind the output that nobody may write
constexpr std::size_t kSampledRows = 32;

/// Runs f(0) .. f(n - 1) on all cores.
template <class F>
void in_parallel(std::size_t n, F f) {
  const std::size_t workers = std::min<std::size_t>(n, std::max(1U, std::thread::hardware_concurrency()));
  std::vector<std::thread> threads;
  for (std::size_t w = 0; w < workers; ++w) {
    threads.emplace_back([=] {
      for (std::size_t i = w; i < n; i += workers) f(i);
    });
  }
  for (std::thread& t : threads) t.join();
}

using Stored = std::vector<unsigned short>;

Stored normal_values(std::size_t n, double deviation, checking::Stored16 as, std::mt19937& random) {
  std::normal_distribution<float> normal(0.0F, static_cast<float>(deviation));
  Stored out(n);
  for (unsigned short& v : out) v = as.of(normal(random));
  return out;
}

struct Tensors {
  checking::Stored16 as;
  Stored q, k, v, o;
  double value(const Stored& x, std::size_t i) const { return as.value(x[i]); }
};

/// One output row (b, i, h) in fp64, and the norm of sum |p v|, which the error scales with.
struct Row {
  std::vector<double> o;
  double scale = 0;
};
Row reference_row(const AttentionPrefill& s, const Tensors& t, std::int64_t b, std::int64_t i, std::int64_t h) {
  const auto dim = static_cast<std::size_t>(s.qk_dim);
  const std::int64_t kv_head = h / (s.q_heads / s.kv_heads);
  const auto q_at = static_cast<std::size_t>((b * s.q_len + i) * s.q_heads + h) * dim;
  const auto kv_at = [&](std::int64_t key) {
    return static_cast<std::size_t>((b * s.kv_len + key) * s.kv_heads + kv_head) * dim;
  };
  const std::int64_t keys = s.causal ? s.kv_len - s.q_len + i + 1 : s.kv_len;
  std::vector<double> p(static_cast<std::size_t>(keys));
  double largest = -std::numeric_limits<double>::infinity(), sum = 0;
  for (std::int64_t key = 0; key < keys; ++key) {
    double dot = 0;
    for (std::size_t d = 0; d < dim; ++d) dot += t.value(t.q, q_at + d) * t.value(t.k, kv_at(key) + d);
    p[static_cast<std::size_t>(key)] = dot / std::sqrt(static_cast<double>(dim));
    largest = std::max(largest, p[static_cast<std::size_t>(key)]);
  }
  for (double& x : p) sum += x = std::exp(x - largest);
  Row row{std::vector<double>(dim, 0.0)};
  std::vector<double> absolute(dim, 0.0);
  for (std::int64_t key = 0; key < keys; ++key) {
    for (std::size_t d = 0; d < dim; ++d) {
      const double part = p[static_cast<std::size_t>(key)] / sum * t.value(t.v, kv_at(key) + d);
      row.o[d] += part;
      absolute[d] += std::abs(part);
    }
  }
  for (const double a : absolute) row.scale += a * a / static_cast<double>(dim);
  row.scale = std::sqrt(row.scale);
  return row;
}

/// Where tiles begin and end, and rows at random.
std::vector<std::int64_t> sampled_rows(const AttentionPrefill& s, std::mt19937& random) {
  std::vector<std::int64_t> rows{0, s.q_len - 1};
  while (rows.size() < kSampledRows) {
    const auto any = static_cast<std::int64_t>(random()) % s.q_len;
    rows.push_back(rows.size() % 2 ? any : std::min(s.q_len - 1, any / 64 * 64 + (rows.size() % 4 ? 63 : 0)));
  }
  return rows;
}

/// ||out - ref|| / ||ref|| over the sampled rows, and each element. In bf16 (fp16: an eighth): the rounding of P (2^-9 each, of which the
/// sum of many errors cancels mostly) and of O (2^-9): an element may err by one part in 128 of itself and one in 128
/// of the root mean square of sum |p v| in its row, all together by 2^-7.
void judge(const AttentionPrefill& s, const Tensors& t, std::mt19937& random, Check& c) {
  for (std::size_t i = 0; i < t.o.size() && c.fault.empty(); ++i) {
    if (!std::isfinite(t.value(t.o, i))) c.fault = "element " + std::to_string(i) + " was not written or not finite";
  }
  struct Sample {
    std::int64_t b, i, h;
    double error = 0, size = 0;
    bool wrong = false;
  };
  std::vector<Sample> samples;
  for (const std::int64_t i : sampled_rows(s, random)) {
    samples.push_back(
        {static_cast<std::int64_t>(random()) % s.batch, i, static_cast<std::int64_t>(random()) % s.q_heads});
  }
  Sample* const all = samples.data();
  in_parallel(samples.size(), [&s, &t, all](std::size_t n) {
    Sample& x = all[n];
    const Row row = reference_row(s, t, x.b, x.i, x.h);
    const auto at = static_cast<std::size_t>((x.b * s.q_len + x.i) * s.q_heads + x.h) * row.o.size();
    for (std::size_t d = 0; d < row.o.size(); ++d) {
      const double difference = std::abs(t.value(t.o, at + d) - row.o[d]);
      x.error += difference * difference;
      x.size += row.o[d] * row.o[d];
      x.wrong = x.wrong || !(difference <= (std::abs(row.o[d]) + row.scale) / 128 * t.as.finer());
    }
  });
  double error = 0, size = 0;
  for (const Sample& x : samples) {
    error += x.error;
    size += x.size;
    if (x.wrong && c.fault.empty()) {
      c.fault =
          "row b=" + std::to_string(x.b) + " i=" + std::to_string(x.i) + " h=" + std::to_string(x.h) + " is wrong";
    }
  }
  c.error = size > 0 ? std::sqrt(error / size) : std::sqrt(error);
  if (!(c.error <= c.allowed) && c.fault.empty()) c.fault = "relative error too large";
}

void upload(const DeviceBuffer& to, const Stored& from) {
  PLUMBLINE_CUDA_CHECK(cudaMemcpy(to.as(), from.data(), from.size() * 2, cudaMemcpyHostToDevice));
}

}  // namespace

Check check_prefill(const AttentionPrefill& s, const AttentionPlan& plan, unsigned seed) {
  std::mt19937 random(seed);
  const auto q_size = static_cast<std::size_t>(s.batch * s.q_len * s.q_heads * s.qk_dim);
  const auto kv_size = static_cast<std::size_t>(s.batch * s.kv_len * s.kv_heads * s.qk_dim);
  // Wider scores now and then, so that the largest one moves.
  const double deviation = seed % 3 == 0 ? 3.0 : 1.0;
  const checking::Stored16 as{s.dtype};
  Tensors t{as, normal_values(q_size, deviation, as, random), normal_values(kv_size, 1, as, random),
            normal_values(kv_size, 1, as, random), Stored(q_size)};
  const DeviceBuffer q(q_size * 2), k(kv_size * 2), v(kv_size * 2), o(q_size * 2 + kGuard);
  upload(q, t.q);
  upload(k, t.k);
  upload(v, t.v);
  PLUMBLINE_CUDA_CHECK(cudaMemset(o.as(), kPoison, o.bytes()));
  Check c{plan.stages > 0 ? "attention_prefill mma_sync" : "attention_prefill",
          plan_text(plan) + " " + std::string(name(s.dtype)) + " B=" + std::to_string(s.batch) +
              ";Hq=" + std::to_string(s.q_heads) + ";Hkv=" + std::to_string(s.kv_heads) +
              ";D=" + std::to_string(s.qk_dim) + ";S=" + std::to_string(s.q_len) + ";Skv=" + std::to_string(s.kv_len) +
              ";causal=" + std::to_string(s.causal),
          0, std::ldexp(1.0, -7) * as.finer(), ""};
  launch_attention_prefill(s, plan, {q.as(), k.as(), v.as(), o.as()}, nullptr);
  PLUMBLINE_CUDA_CHECK(cudaDeviceSynchronize());
  PLUMBLINE_CUDA_CHECK(cudaMemcpy(t.o.data(), o.as(), q_size * 2, cudaMemcpyDeviceToHost));
  std::vector<unsigned char> guard(kGuard);
  PLUMBLINE_CUDA_CHECK(cudaMemcpy(guard.data(), o.as() + q_size * 2, kGuard, cudaMemcpyDeviceToHost));
  judge(s, t, random, c);
  for (const unsigned char byte : guard) {
    if (byte != kPoison) c.fault = "wrote past the end";
  }
  return c;
}

namespace {

/// Few long sequences, or so many short ones that a CTA has several tiles; lengths around multiples of tiles, or any.
AttentionPrefill random_prefill(int n, std::mt19937& random) {
  const auto below = [&](int most) { return static_cast<std::int64_t>(random() % static_cast<unsigned>(most)); };
  AttentionPrefill s;
  s.dtype = s.kv_dtype = below(3) == 0 ? DType::fp16 : DType::bf16;
  s.causal = n / 3 % 2 == 0;
  s.append = 0;
  s.kv_heads = 1 + below(3);
  s.q_heads = s.kv_heads * (1 + below(4));
  const bool many = below(4) == 0;
  s.batch = 1 + below(many ? 16 : 3);
  const int longest = many ? 250 : n % 10 == 0 ? 1200 : 400;
  const auto length = [&] { return below(2) ? 1 + below(longest) : 64 * (1 + below(longest / 64)) - 1 + below(3); };
  s.q_len = n == 0 ? 1 : length();
  s.kv_len = n == 0 ? 1 : length();
  if (s.causal && s.kv_len < s.q_len) std::swap(s.kv_len, s.q_len);
  return s;
}

}  // namespace

std::vector<Check> check_flash(unsigned seed, int shapes) {
  std::mt19937 random(seed);
  std::vector<Check> out;
  for (int n = 0; n < shapes; ++n) {
    AttentionPrefill s = random_prefill(n, random);
    s.qk_dim = s.v_dim = std::int64_t{64} << (n % 3);
    const PrefillVariant* variant = own_prefill_variant(s.qk_dim, s.causal);
    out.push_back(check_prefill(s, {variant->q_tile, variant->kv_tile, 1, 1}, seed + static_cast<unsigned>(n)));
  }
  return out;
}

std::vector<Check> check_flash_portable(unsigned seed, int shapes) {
  std::mt19937 random(seed);
  std::vector<Check> out;
  const auto menu = own_portable_prefill_menu();
  for (int n = 0; n < shapes; ++n) {
    AttentionPrefill s = random_prefill(n, random);
    const PortablePrefillVariant& v = menu[static_cast<std::size_t>(n) % menu.size()];
    s.qk_dim = s.v_dim = v.head_dim;
    out.push_back(check_prefill(s, {v.q_tile, v.kv_tile, 1, 1, v.stages}, seed + static_cast<unsigned>(n)));
  }
  return out;
}

}  // namespace plumbline
