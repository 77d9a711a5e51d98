// Attention's backward pass, with the statistics of the forward pass that it starts from, against an fp64 reference on
// the device that holds all scores: ragged shapes, every output written, none behind.
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "kernels/attention/attention.hpp"
#include "ops/plan/kernel_menu.hpp"
#include "tests/gpu/check_buffers.cuh"
#include "tests/gpu/check_flash.hpp"

namespace plumbline {
namespace {

using checking::bf16;

constexpr int kReferenceThreads = 128;

/// The tensors of a shape, as BackwardBuffers has them, and what the reference fills: [B, Hq, S, Skv] of weights and of
/// their gradients, and results in the order of the tensors.
struct Reference {
  int q_len, kv_len, q_heads, kv_heads, dim;
  bool causal;
  const bf16 *q, *k, *v, *d_o, *stored_o;
  double *weights, *slopes, *lse, *o, *dq, *dk, *dv;

  __device__ std::int64_t query_at(int batch, int query, int head) const {
    return ((std::int64_t{batch} * q_len + query) * q_heads + head) * dim;
  }
  __device__ std::int64_t key_at(int batch, int key, int head) const {
    return ((std::int64_t{batch} * kv_len + key) * kv_heads + head) * dim;
  }
};

__device__ double dot(const bf16* a, const bf16* b, int n) {
  double sum = 0;
  for (int i = 0; i < n; ++i) sum += static_cast<double>(__bfloat162float(a[i])) * __bfloat162float(b[i]);
  return sum;
}

/// The sum (or, with kLargest, the largest) over the CTA, for all of its threads.
template <bool kLargest>
__device__ double over_all(double mine) {
  __shared__ double held[kReferenceThreads];
  __syncthreads();
  held[threadIdx.x] = mine;
  __syncthreads();
  double result = held[0];
  for (int i = 1; i < kReferenceThreads; ++i) result = kLargest ? fmax(result, held[i]) : result + held[i];
  return result;
}

/// CTA (query, batch and query head): its rows of weights and slopes, O, log-sum-exp and dQ. `delta` is of O as it is
/// stored, as backward passes have it: in a row of few keys where one has nearly all the weight, O's rounding to bf16 moves
/// dP - delta by more than an element of dQ may err (three keys of weights 0.02, 0.85 and 0.13: dQ 0.00885 for -0.00456).
__global__ void reference_rows(const Reference t) {
  const int query = blockIdx.x, batch = blockIdx.y / t.q_heads, head = blockIdx.y % t.q_heads;
  const int kv_head = head / (t.q_heads / t.kv_heads), seen = t.causal ? query + t.kv_len - t.q_len + 1 : t.kv_len;
  const std::int64_t row = std::int64_t{blockIdx.y} * t.q_len + query, at = t.query_at(batch, query, head);
  double *weights = t.weights + row * t.kv_len, *slopes = t.slopes + row * t.kv_len;
  const double scale = 1 / sqrt(static_cast<double>(t.dim));
  double largest = -INFINITY, sum = 0;
  const double delta = dot(t.d_o + at, t.stored_o + at, t.dim);
  for (int key = threadIdx.x; key < t.kv_len; key += kReferenceThreads) {
    weights[key] = key < seen ? scale * dot(t.q + at, t.k + t.key_at(batch, key, kv_head), t.dim) : -INFINITY;
    slopes[key] = dot(t.d_o + at, t.v + t.key_at(batch, key, kv_head), t.dim);
    largest = fmax(largest, weights[key]);
  }
  largest = over_all<true>(largest);
  for (int key = threadIdx.x; key < t.kv_len; key += kReferenceThreads) sum += exp(weights[key] - largest);
  sum = over_all<false>(sum);
  for (int key = threadIdx.x; key < t.kv_len; key += kReferenceThreads) {
    weights[key] = exp(weights[key] - largest) / sum;
    slopes[key] = weights[key] * (slopes[key] - delta) * scale;
  }
  if (threadIdx.x == 0) t.lse[row] = largest + log(sum);
  __syncthreads();
  for (int d = threadIdx.x; d < t.dim; d += kReferenceThreads) {
    double dq = 0, o = 0;
    for (int key = 0; key < seen; ++key) {
      const std::int64_t there = t.key_at(batch, key, kv_head) + d;
      dq += slopes[key] * __bfloat162float(t.k[there]);
      o += weights[key] * __bfloat162float(t.v[there]);
    }
    t.dq[at + d] = dq;
    t.o[at + d] = o;
  }
}

/// CTA (key, batch and KV head): dK and dV.
__global__ void reference_columns(const Reference t) {
  const int key = blockIdx.x, batch = blockIdx.y / t.kv_heads, kv_head = blockIdx.y % t.kv_heads;
  const int group = t.q_heads / t.kv_heads;
  for (int d = threadIdx.x; d < t.dim; d += kReferenceThreads) {
    double dk = 0, dv = 0;
    for (int head = kv_head * group; head < (kv_head + 1) * group; ++head) {
      for (int query = 0; query < t.q_len; ++query) {
        const std::int64_t pair = ((std::int64_t{batch} * t.q_heads + head) * t.q_len + query) * t.kv_len + key;
        const std::int64_t there = t.query_at(batch, query, head) + d;
        dk += t.slopes[pair] * __bfloat162float(t.q[there]);
        dv += t.weights[pair] * __bfloat162float(t.d_o[there]);
      }
    }
    t.dk[t.key_at(batch, key, kv_head) + d] = dk;
    t.dv[t.key_at(batch, key, kv_head) + d] = dv;
  }
}

double value_of(bf16 x) { return static_cast<double>(__bfloat162float(x)); }
double value_of(float x) { return static_cast<double>(x); }

/// All elements together and each one. P and dS are rounded to bf16, 2^-9 of each, and so is the result: all together
/// may err by 2^-7. An element may err by one part in 64 of itself, and of the root mean square of its tensor as much
/// again, since its terms may cancel where others' don't; `least` is what stands in for that root mean square where
/// everything cancels (one key alone: dQ and dK are 0).
template <class T>
void judge_backward(Check& c, const char* name, checking::Poisoned& got, const DeviceBuffer& want, double least) {
  const std::vector<T> out = got.read<T>();
  std::vector<double> ref(out.size());
  PLUMBLINE_CUDA_CHECK(cudaMemcpy(ref.data(), want.as(), ref.size() * sizeof(double), cudaMemcpyDeviceToHost));
  double size = 0;
  for (const double x : ref) size += x * x;
  const double typical = std::max(std::sqrt(size / static_cast<double>(ref.size())), least);
  checking::Comparison all;
  for (std::size_t i = 0; i < out.size(); ++i) {
    all.add(value_of(out[i]), ref[i], (std::abs(ref[i]) + 4 * typical) / 64, name + (" " + std::to_string(i)));
  }
  const double floor = least * std::sqrt(static_cast<double>(ref.size()));
  c.error = std::max(c.error, std::sqrt(all.difference) / std::max(std::sqrt(size), floor));
  if (c.fault.empty()) c.fault = all.fault;
  if (c.fault.empty() && got.overrun()) c.fault = std::string(name) + ": wrote past the end";
}

Check check_one(const AttentionBackward& s, unsigned seed) {
  const auto queries = static_cast<std::size_t>(s.batch * s.q_len * s.q_heads * s.qk_dim);
  const auto keys = static_cast<std::size_t>(s.batch * s.kv_len * s.kv_heads * s.qk_dim);
  const auto rows = static_cast<std::size_t>(s.batch * s.q_heads * s.q_len);
  const std::size_t pairs = rows * static_cast<std::size_t>(s.kv_len);
  const checking::Pool q(seed, queries), k(seed + 1, keys), v(seed + 2, keys), d_o(seed + 3, queries);
  Check c{"attention_backward",
          "B=" + std::to_string(s.batch) + ";Hq=" + std::to_string(s.q_heads) + ";Hkv=" + std::to_string(s.kv_heads) +
              ";D=" + std::to_string(s.qk_dim) + ";S=" + std::to_string(s.q_len) + ";Skv=" + std::to_string(s.kv_len) +
              ";causal=" + std::to_string(static_cast<int>(s.causal)),
          0, std::ldexp(1.0, -7), ""};
  checking::Poisoned o(queries * 2), lse(rows * 4), dq(queries * 2), dk(keys * 2), dv(keys * 2),
      workspace(backward_workspace_bytes(s));
  BackwardBuffers b;
  b.q = q.device(0);
  b.k = k.device(0);
  b.v = v.device(0);
  b.d_o = d_o.device(0);
  b.o = o.prepare(queries * 2);
  b.lse = static_cast<float*>(lse.prepare(rows * 4));
  b.dq = dq.prepare(queries * 2);
  b.dk = dk.prepare(keys * 2);
  b.dv = dv.prepare(keys * 2);
  b.workspace = workspace.prepare(backward_workspace_bytes(s));
  const PrefillVariant& forward = *own_prefill_variant(s.qk_dim, s.causal);
  const BackwardVariant& backward = *own_backward_variant(s.qk_dim);
  launch_attention_prefill(forward_of(s), {forward.q_tile, forward.kv_tile, 1, 1},
                           {b.q, b.k, b.v, o.get(), static_cast<float*>(lse.get())}, nullptr);
  launch_attention_backward(s, {backward.q_tile, backward.kv_tile, 1, 1}, b, nullptr);
  const DeviceBuffer weights(pairs * 8), slopes(pairs * 8), want_lse(rows * 8), want_o(queries * 8),
      want_dq(queries * 8), want_dk(keys * 8), want_dv(keys * 8);
  const Reference t{static_cast<int>(s.q_len),
                    static_cast<int>(s.kv_len),
                    static_cast<int>(s.q_heads),
                    static_cast<int>(s.kv_heads),
                    static_cast<int>(s.qk_dim),
                    s.causal,
                    q.device(0),
                    k.device(0),
                    v.device(0),
                    d_o.device(0),
                    static_cast<const bf16*>(o.get()),
                    weights.as<double>(),
                    slopes.as<double>(),
                    want_lse.as<double>(),
                    want_o.as<double>(),
                    want_dq.as<double>(),
                    want_dk.as<double>(),
                    want_dv.as<double>()};
  const auto count = [](std::int64_t n) { return static_cast<unsigned>(n); };
  reference_rows<<<dim3(count(s.q_len), count(s.batch * s.q_heads)), kReferenceThreads>>>(t);
  reference_columns<<<dim3(count(s.kv_len), count(s.batch * s.kv_heads)), kReferenceThreads>>>(t);
  PLUMBLINE_CUDA_CHECK(cudaGetLastError());
  // Normal values: scores, and dP less its mean, are of about 1; a hundredth of that is nothing.
  constexpr double kNothing = 0.01;
  judge_backward<float>(c, "log-sum-exp", lse, want_lse, kNothing);
  judge_backward<bf16>(c, "O", o, want_o, kNothing);
  judge_backward<bf16>(c, "dQ", dq, want_dq, kNothing);
  judge_backward<bf16>(c, "dK", dk, want_dk, kNothing);
  judge_backward<bf16>(c, "dV", dv, want_dv, kNothing);
  checking::Poisoned& behind = workspace;
  static_cast<void>(behind.read<float>());
  if (behind.overrun() && c.fault.empty()) c.fault = "wrote past the workspace";
  if (!(c.error <= c.allowed) && c.fault.empty()) c.fault = "relative error too large";
  return c;
}

}  // namespace

std::vector<Check> check_backward(unsigned seed, int shapes) {
  std::mt19937 random(seed);
  const auto below = [&](int n) { return static_cast<std::int64_t>(random() % static_cast<unsigned>(n)); };
  std::vector<Check> out;
  for (int n = 0; n < shapes; ++n) {
    AttentionBackward s;
    s.qk_dim = s.v_dim = std::int64_t{64} << (n % 2);
    s.causal = n / 2 % 2 == 0;
    s.kv_heads = 1 + below(3);
    s.q_heads = s.kv_heads * (1 + below(4));
    s.batch = 1 + below(3);
    // lengths around multiples of tiles, or any
    const int longest = n % 10 == 0 ? 900 : 300;
    const auto length = [&] { return below(2) ? 1 + below(longest) : 64 * (1 + below(longest / 64)) - 1 + below(3); };
    s.q_len = n < 2 ? 1 : length();
    s.kv_len = n < 2 ? 1 : length();
    if (s.kv_len < s.q_len) std::swap(s.kv_len, s.q_len);
    out.push_back(check_one(s, seed + 4 * static_cast<unsigned>(n)));
  }
  return out;
}

}  // namespace plumbline
