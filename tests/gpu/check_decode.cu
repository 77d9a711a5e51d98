#include "tests/gpu/check_decode.hpp"

#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <thread>

#include "kernels/attention/attention.hpp"
#include "kernels/common/half.cuh"
#include "kernels/common/measure.cuh"
#include "ops/plan/kernel_menu.hpp"
#include "tests/gpu/stored16.hpp"

namespace plumbline {
namespace {

using checking::Stored16;
using Bits = unsigned short;
using Random = std::mt19937;
constexpr unsigned char kPoison = 0xff;                    // as bf16 and fp32: NaN
constexpr std::size_t kGuard = 4096;                       // bytes behind an output that nobody may write
constexpr std::int64_t kElements = std::int64_t{1} << 22;  // of K at most
constexpr std::size_t kRowsCompared = 16;

__device__ float normal(unsigned long long i) {
  unsigned long long z = (i + 1) * 0x9e3779b97f4a7c15ULL;  // splitmix64, then Box-Muller
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  z ^= z >> 31;
  const float u = (static_cast<float>(z >> 40) + 0.5F) * 0x1p-24F;
  return sqrtf(-2.0F * logf(u)) * cospif(2.0F * static_cast<float>(z & 0xffffffU) * 0x1p-24F);
}

/// Values only where a token lives; `token_size` = Hkv * D. A null table: contiguous. One CTA a token.
template <class E>
__global__ void fill_cache(E* cache, const std::int32_t* table, int context, int page, int token_size,
                           unsigned long long seed) {
  const int sequence = static_cast<int>(blockIdx.x) / context, token = static_cast<int>(blockIdx.x) % context;
  std::int64_t at = blockIdx.x;
  if (table != nullptr) {
    const int width = (context + page - 1) / page;
    at = std::int64_t{table[std::int64_t{sequence} * width + token / page]} * page + token % page;
  }
  for (int i = static_cast<int>(threadIdx.x); i < token_size; i += static_cast<int>(blockDim.x)) {
    const std::int64_t k = at * token_size + i;
    cache[k] = device::rounded<E>(normal(static_cast<unsigned long long>(k) ^ (seed << 40)));
  }
}

template <class E>
__global__ void fill_query(E* q, int n, float size, unsigned long long seed) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) q[i] = device::rounded<E>(size * normal(static_cast<unsigned long long>(i) ^ (seed << 40)));
}

/// Device memory filled with poison, and a guard behind it.
class Guarded {
 public:
  explicit Guarded(std::size_t bytes) : bytes_(bytes), buffer_(bytes + kGuard) {
    PLUMBLINE_CUDA_CHECK(cudaMemset(buffer_.as(), kPoison, buffer_.bytes()));
  }
  template <class T = void>
  T* as() const {
    return buffer_.as<T>();
  }
  template <class T>
  std::vector<T> read() const {
    std::vector<T> out(bytes_ / sizeof(T));
    PLUMBLINE_CUDA_CHECK(
        cudaMemcpy(static_cast<void*>(out.data()), buffer_.as(), out.size() * sizeof(T), cudaMemcpyDeviceToHost));
    return out;
  }
  bool overrun() const {
    std::vector<unsigned char> behind(kGuard);
    PLUMBLINE_CUDA_CHECK(cudaMemcpy(behind.data(), buffer_.as() + bytes_, kGuard, cudaMemcpyDeviceToHost));
    return std::any_of(behind.begin(), behind.end(), [](unsigned char c) { return c != kPoison; });
  }

 private:
  std::size_t bytes_;
  DeviceBuffer buffer_;
};

std::int64_t pick(Random& random, std::int64_t low, std::int64_t high) {
  return std::uniform_int_distribution<std::int64_t>(low, high)(random);
}
std::int64_t choose(Random& random, const std::vector<std::int64_t>& from) {
  return from[static_cast<std::size_t>(pick(random, 0, static_cast<std::int64_t>(from.size()) - 1))];
}

AttentionDecode random_shape(Random& random) {
  AttentionDecode s;
  s.dtype = s.kv_dtype = pick(random, 0, 2) == 0 ? DType::fp16 : DType::bf16;
  s.qk_dim = s.v_dim = choose(random, {64, 128, 128, 256});
  s.kv_heads = choose(random, {1, 2, 3, 4, 8});
  s.q_heads = s.kv_heads * pick(random, 1, 16);
  s.batch = pick(random, 1, 6);
  const std::int64_t most = kElements / (s.batch * s.kv_heads * s.qk_dim);
  s.context = pick(random, 1, std::min(most, choose(random, {20, 200, 1000, 5000, 20000})));
  s.page = choose(random, {0, 16, 32, 64, 128});
  if (pick(random, 0, 7) == 0) s.window = pick(random, 1, s.context + 10);
  return s;
}

std::string in_words(const AttentionDecode& s, const AttentionPlan& plan) {
  return std::string(name(s.dtype)) + " B=" + std::to_string(s.batch) + ";Hq=" + std::to_string(s.q_heads) +
         ";Hkv=" + std::to_string(s.kv_heads) + ";D=" + std::to_string(s.qk_dim) + ";S=" + std::to_string(s.context) +
         ";page=" + std::to_string(s.page) + ";window=" + std::to_string(s.window) +
         ";splits=" + std::to_string(plan.splits);
}

/// Host copies of what a launch read.
struct Inputs {
  Stored16 as;
  std::vector<Bits> q, k, v;
  std::vector<std::int32_t> table;
};

/// The definition (ops/shape/shapes.hpp) for one query row, in fp64.
std::vector<double> reference_row(const AttentionDecode& s, const Inputs& in, std::int64_t row) {
  const std::int64_t d = s.qk_dim, sequence = row / s.q_heads;
  const std::int64_t head = row % s.q_heads / (s.q_heads / s.kv_heads);
  const std::int64_t first = s.window > 0 ? std::max<std::int64_t>(0, s.context - s.window) : 0;
  const auto value = [&in](const std::vector<Bits>& from, std::int64_t i) {
    return in.as.value(from[static_cast<std::size_t>(i)]);
  };
  const auto start = [&](std::int64_t key) {
    std::int64_t token = sequence * s.context + key;
    if (s.page > 0) {
      const std::int64_t width = (s.context + s.page - 1) / s.page;
      const auto at = static_cast<std::size_t>(sequence * width + key / s.page);
      token = std::int64_t{in.table[at]} * s.page + key % s.page;
    }
    return (token * s.kv_heads + head) * d;
  };
  std::vector<double> query, scores, out(static_cast<std::size_t>(d));
  for (std::int64_t i = 0; i < d; ++i) query.push_back(value(in.q, row * d + i));
  for (std::int64_t key = first; key < s.context; ++key) {
    double score = 0;
    const std::int64_t k = start(key);
    for (std::int64_t i = 0; i < d; ++i) score += query[static_cast<std::size_t>(i)] * value(in.k, k + i);
    scores.push_back(score / std::sqrt(static_cast<double>(d)));
  }
  const double largest = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (std::int64_t key = first; key < s.context; ++key) {
    const double weight = std::exp(scores[static_cast<std::size_t>(key - first)] - largest);
    const std::int64_t v = start(key);
    sum += weight;
    for (std::int64_t i = 0; i < d; ++i) out[static_cast<std::size_t>(i)] += weight * value(in.v, v + i);
  }
  for (double& x : out) x /= sum;
  return out;
}

/// What two roundings to bf16 (of the weights before they meet V, and of the result) do to ||out - ref|| / ||ref||:
/// each has a root mean square of at most 2^-7 / sqrt(12), of which the mean over `rows` rows may stray by three of its
/// own spreads; never above two halves of a unit in the last place.
double rounding(std::size_t rows) {
  const double typical = std::sqrt(2.0) * std::ldexp(1.0, -7) / std::sqrt(12.0);
  return std::min(std::ldexp(1.0, -7), typical * (1.0 + 3.0 / std::sqrt(static_cast<double>(rows))));
}

void compare(Check& c, const AttentionDecode& s, const Inputs& in, const std::vector<Bits>& out, Random& random) {
  const auto n = static_cast<std::size_t>(s.v_dim);
  for (std::size_t i = 0; i < out.size() && c.fault.empty(); ++i) {
    if (!std::isfinite(in.as.value(out[i]))) c.fault = "element " + std::to_string(i) + " is not a number";
  }
  const auto rows = static_cast<std::size_t>(s.batch * s.q_heads);
  std::vector<std::size_t> chosen(rows);
  std::iota(chosen.begin(), chosen.end(), std::size_t{0});
  std::shuffle(chosen.begin(), chosen.end(), random);
  chosen.resize(std::min(rows, kRowsCompared));
  std::vector<std::vector<double>> want(chosen.size());
  std::vector<std::thread> threads;
  const std::size_t workers = std::min<std::size_t>(8, chosen.size());
  for (std::size_t w = 0; w < workers; ++w) {
    threads.emplace_back([&, w] {
      for (std::size_t i = w; i < chosen.size(); i += workers) {
        want[i] = reference_row(s, in, static_cast<std::int64_t>(chosen[i]));
      }
    });
  }
  for (std::thread& t : threads) t.join();
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    double largest = 0;
    for (const double w : want[i]) largest = std::max(largest, std::abs(w));
    for (std::size_t j = 0; j < n; ++j) {
      const double got = in.as.value(out[chosen[i] * n + j]), d = got - want[i][j];
      difference += d * d;
      size += want[i][j] * want[i][j];
      if (!(std::abs(d) <= in.as.finer() * (std::abs(want[i][j]) / 128 + largest / 64)) && c.fault.empty()) {
        c.fault = "row " + std::to_string(chosen[i]) + ", element " + std::to_string(j) + ": " + std::to_string(got) +
                  " for " + std::to_string(want[i][j]);
      }
    }
  }
  c.allowed = in.as.finer() * rounding(chosen.size());
  c.error = std::sqrt(difference / size);
  if (!(c.error <= c.allowed) && c.fault.empty()) c.fault = "relative error too large";
}

/// A pool with pages to spare, the sequences' pages scattered over it.
std::vector<std::int32_t> scattered_pages(std::int64_t pages, std::int64_t pool, Random& random) {
  std::vector<std::int32_t> all(static_cast<std::size_t>(pool));
  std::iota(all.begin(), all.end(), 0);
  std::shuffle(all.begin(), all.end(), random);
  all.resize(static_cast<std::size_t>(pages));
  return all;
}

template <class E>
void fill_all(const AttentionDecode& s, const std::array<const Guarded*, 2>& caches, const Guarded& q,
              const std::int32_t* pages, float size, Random& random) {
  for (const Guarded* cache : caches) {
    fill_cache<<<static_cast<unsigned>(s.batch * s.context), 128>>>(cache->as<E>(), pages, static_cast<int>(s.context),
                                                                    static_cast<int>(s.page),
                                                                    static_cast<int>(s.kv_heads * s.qk_dim), random());
  }
  const int n = static_cast<int>(s.batch * s.q_heads * s.qk_dim);
  fill_query<<<static_cast<unsigned>(n + 255) / 256, 256>>>(q.as<E>(), n, size, random());
  PLUMBLINE_CUDA_CHECK(cudaGetLastError());
}

Check check_one(const AttentionDecode& s, const AttentionPlan& plan, Random& random) {
  Check c{"attention_decode", in_words(s, plan), 0, 0, ""};
  const std::int64_t width = s.page > 0 ? (s.context + s.page - 1) / s.page : 0;
  const std::int64_t pool = s.page > 0 ? s.batch * width + 1 + s.batch * width / 4 : 0;
  const std::int64_t tokens = s.page > 0 ? pool * s.page : s.batch * s.context;
  const auto cache_bytes = static_cast<std::size_t>(tokens * s.kv_heads * s.qk_dim) * 2;
  const auto query_elements = static_cast<std::size_t>(s.batch * s.q_heads * s.qk_dim);
  Inputs in;
  in.as = {s.dtype};
  in.table = scattered_pages(s.batch * width, pool, random);
  const Guarded q(query_elements * 2), k(cache_bytes), v(cache_bytes), o(query_elements * 2);
  const Guarded table(in.table.size() * 4), workspace(decode_workspace_bytes(s, plan));
  PLUMBLINE_CUDA_CHECK(cudaMemcpy(table.as(), in.table.data(), in.table.size() * 4, cudaMemcpyHostToDevice));
  const auto* pages = s.page > 0 ? table.as<std::int32_t>() : nullptr;
  const float size = pick(random, 0, 1) == 0 ? 1.0F : 3.0F;  // flat and sharp softmax
  if (s.dtype == DType::fp16) fill_all<__half>(s, {&k, &v}, q, pages, size, random);
  else fill_all<__nv_bfloat16>(s, {&k, &v}, q, pages, size, random);
  launch_attention_decode(s, plan, {q.as(), k.as(), v.as(), pages, o.as(), workspace.as()}, nullptr);
  PLUMBLINE_CUDA_CHECK(cudaDeviceSynchronize());
  in.q = q.read<Bits>();
  in.k = k.read<Bits>();
  in.v = v.read<Bits>();
  compare(c, s, in, o.read<Bits>(), random);
  if (o.overrun() || workspace.overrun()) c.fault = "wrote past the end";
  return c;
}

}  // namespace

std::vector<Check> check_decode(unsigned seed, int shapes) {
  Random random(seed);
  std::vector<Check> out;
  for (int i = 0; i < shapes; ++i) {
    const AttentionDecode s = random_shape(random);
    AttentionPlan plan;
    plan.q_tile = 16;
    plan.packed_heads = s.q_heads / s.kv_heads;
    plan.kv_tile = own_decode_variant(s.qk_dim, plan.packed_heads)->kv_tile;
    plan.splits = choose(random, {1, 1, 2, 3, 4, 5, 7, 16, 33, 64});
    out.push_back(check_one(s, plan, random));
  }
  return out;
}

}  // namespace plumbline
