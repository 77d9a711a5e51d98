// The kernels of the training attention chain that need a whole row (softmax backward and the two fused ones),
// rmsnorm backward, and the launcher of all.
//
// kLanes threads hold a row as fp32 in registers, up to four groups of eight columns each, so that every element is
// read from DRAM once. Short rows share a warp. Where that pays, a group of lanes takes up to eight rows one after the
// other and reads the next one while it works on one. Rows above 32768 columns are walked again for every pass, by a
// CTA each. kChainPrefetches and chain_fills() say which variant is the faster for each width.
// Variants and their figures: docs/lab/attention_chain.md.
#include "kernels/chain/attention_chain.hpp"

#include <algorithm>
#include <iterator>
#include <string>

#include "kernels/chain/attention_chain.cuh"
#include "kernels/chain/attention_chain_flat.cuh"
#include "kernels/common/cuda_check.hpp"
#include "kernels/common/measure.cuh"
#include "ops/plan/row_menu.hpp"

namespace plumbline {
namespace device {

constexpr float kLog2E = 1.4426950408889634F, kLn2 = 0.69314718055994531F;

/// x a + m of one group of columns; -infinity behind the end of the row.
template <bool kWhole>
__device__ void masked_scores(const ChainArgs& a, uint4 raw, uint4 raw_mask, int group, float (&t)[kVector]) {
  float m[kVector];
  unpack(raw, t);
  unpack(raw_mask, m);
#pragma unroll
  for (int i = 0; i < kVector; ++i) {
    t[i] = fmaf(t[i], a.scale, m[i]);
    if (!kWhole && group * kVector + i >= a.cols) t[i] = -INFINITY;
  }
}

/// The largest score in units of log 2. A row whose scores are all -infinity has probabilities 0.
__device__ inline float shift_by(float largest) { return largest == -INFINITY ? 0.0F : largest * kLog2E; }

/// exp(t) 2^-shift
__device__ inline float exp_shifted(float t, float shift) { return exp2_fast(fmaf(t, kLog2E, -shift)); }

/// y = dropout(exp(t - ...)): `t` holds the exponentials; `factor` multiplies those that dropout lets through.
template <bool kWhole>
__device__ void store_dropped(const ChainArgs& a, std::int64_t row, int group, float factor, float (&t)[kVector]) {
  const Choice choice(a, row * groups_of(a.cols) + group);
#pragma unroll
  for (int i = 0; i < kVector; ++i) t[i] = choice.keeps(i) ? t[i] * factor : 0.0F;
  store_group<kWhole>(a.y + row * a.cols, group, a.cols, t);
}

/// scale_mask_softmax_dropout.
struct Forward {
  static constexpr bool kTwoInputs = false;
  static constexpr ChainOp kOp = ChainOp::forward;

  template <int kLanes, int kGroups, Fit kFit>
  static __device__ void held(const ChainArgs& a, RawRow<kLanes, kGroups, kFit, kTwoInputs>& raw, std::int64_t row,
                              std::int64_t next, int lane) {
    constexpr bool kWhole = kFit != Fit::ragged;
    const int groups = groups_of(a.cols);
    float t[kGroups][kVector], largest = -INFINITY, sum = 0;
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
      if (kFit != Fit::full && g * kLanes + lane >= groups) continue;
      masked_scores<kWhole>(a, raw.x[g], load_mask<kWhole>(a.mask, g * kLanes + lane, a.cols), g * kLanes + lane, t[g]);
#pragma unroll
      for (int i = 0; i < kVector; ++i) largest = fmaxf(largest, t[g][i]);
    }
    raw.load(a, next, lane);
    const float shift = shift_by(reduce_lanes<kLanes>(largest, Max{}));
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
      if (kFit != Fit::full && g * kLanes + lane >= groups) continue;
#pragma unroll
      for (int i = 0; i < kVector; ++i) sum += t[g][i] = exp_shifted(t[g][i], shift);
    }
    sum = reduce_lanes<kLanes>(sum, Add{});
    if (row >= a.rows) return;
    const float factor = sum > 0 ? a.keep_scale / sum : 0.0F;
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
      if (kFit == Fit::full || g * kLanes + lane < groups)
        store_dropped<kWhole>(a, row, g * kLanes + lane, factor, t[g]);
    }
    if (lane == 0) a.log_sum[row] = (shift + log2f(sum)) * kLn2;
  }

  template <int kLanes, bool kWhole>
  static __device__ void walked(const ChainArgs& a, std::int64_t row, int lane) {
    const bf16* x = a.x + row * a.cols;
    float t[kVector], largest = -INFINITY, sum = 0;
    for (int g = lane; g < groups_of(a.cols); g += kLanes) {
      masked_scores<kWhole>(a, load_group<kWhole>(x, g, a.cols), load_mask<kWhole>(a.mask, g, a.cols), g, t);
#pragma unroll
      for (int i = 0; i < kVector; ++i) largest = fmaxf(largest, t[i]);
    }
    const float shift = shift_by(reduce_lanes<kLanes>(largest, Max{}));
    for (int g = lane; g < groups_of(a.cols); g += kLanes) {
      masked_scores<kWhole>(a, load_group<kWhole>(x, g, a.cols), load_mask<kWhole>(a.mask, g, a.cols), g, t);
#pragma unroll
      for (int i = 0; i < kVector; ++i) sum += exp_shifted(t[i], shift);
    }
    sum = reduce_lanes<kLanes>(sum, Add{});
    const float factor = sum > 0 ? a.keep_scale / sum : 0.0F;
    for (int g = lane; g < groups_of(a.cols); g += kLanes) {
      masked_scores<kWhole>(a, load_group<kWhole>(x, g, a.cols), load_mask<kWhole>(a.mask, g, a.cols), g, t);
#pragma unroll
      for (int i = 0; i < kVector; ++i) t[i] = exp_shifted(t[i], shift);
      store_dropped<kWhole>(a, row, g, factor, t);
    }
    if (lane == 0) a.log_sum[row] = (shift + log2f(sum)) * kLn2;
  }
};

/// softmax_backward, and with kFused scale_mask_softmax_dropout_backward: factor p (dp - sum(dp p)).
template <bool kFused>
struct Backward {
  /// Probabilities p and the gradient dp that reaches them but for keep_scale, of one group; both 0 behind the end.
  template <bool kWhole>
  static __device__ void group(const ChainArgs& a, std::int64_t row, int g, uint4 raw_x, uint4 raw_dy, float shift,
                               float (&p)[kVector], float (&dp)[kVector]) {
    unpack(raw_dy, dp);
    if constexpr (!kFused) {
      unpack(raw_x, p);
    } else {
      masked_scores<kWhole>(a, raw_x, load_mask<kWhole>(a.mask, g, a.cols), g, p);
      const Choice choice(a, row * groups_of(a.cols) + g);
#pragma unroll
      for (int i = 0; i < kVector; ++i) {
        p[i] = exp_shifted(p[i], shift);
        dp[i] = choice.keeps(i) ? dp[i] : 0.0F;
      }
    }
  }

  /// log-sum-exp in units of log 2; +infinity for a row without probabilities makes them 0 again.
  static __device__ float shift_of(const ChainArgs& a, std::int64_t row) {
    if constexpr (!kFused) return 0.0F;
    const float log_sum = __ldg(a.log_sum + row) * kLog2E;
    return log_sum == -INFINITY ? INFINITY : log_sum;
  }
  static __device__ float factor(const ChainArgs& a) { return kFused ? a.scale * a.keep_scale : 1.0F; }

  static constexpr bool kTwoInputs = true;
  static constexpr ChainOp kOp = kFused ? ChainOp::fused_backward : ChainOp::softmax_backward;

  template <int kLanes, int kGroups, Fit kFit>
  static __device__ void held(const ChainArgs& a, RawRow<kLanes, kGroups, kFit, kTwoInputs>& raw, std::int64_t row,
                              std::int64_t next, int lane) {
    constexpr bool kWhole = kFit != Fit::ragged;
    const int groups = groups_of(a.cols);
    const std::int64_t known = min(row, a.rows - 1);
    const float shift = shift_of(a, known);
    float p[kGroups][kVector], dp[kGroups][kVector], sum = 0;
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
      if (kFit != Fit::full && g * kLanes + lane >= groups) continue;
      group<kWhole>(a, known, g * kLanes + lane, raw.x[g], raw.dy[g], shift, p[g], dp[g]);
#pragma unroll
      for (int i = 0; i < kVector; ++i) sum += dp[g][i] * p[g][i];
    }
    raw.load(a, next, lane);
    sum = reduce_lanes<kLanes>(sum, Add{});
    if (row >= a.rows) return;
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
      if (kFit != Fit::full && g * kLanes + lane >= groups) continue;
#pragma unroll
      for (int i = 0; i < kVector; ++i) p[g][i] *= (dp[g][i] - sum) * factor(a);
      store_group<kWhole>(a.y + row * a.cols, g * kLanes + lane, a.cols, p[g]);
    }
  }

  template <int kLanes, bool kWhole>
  static __device__ void walked(const ChainArgs& a, std::int64_t row, int lane) {
    const std::int64_t start = row * a.cols;
    const float shift = shift_of(a, row);
    float p[kVector], dp[kVector], sum = 0;
    for (int pass = 0; pass < 2; ++pass) {
      for (int g = lane; g < groups_of(a.cols); g += kLanes) {
        group<kWhole>(a, row, g, load_group<kWhole>(a.x + start, g, a.cols),
                      load_group<kWhole>(a.dy + start, g, a.cols), shift, p, dp);
#pragma unroll
        for (int i = 0; i < kVector; ++i) {
          if (pass == 0) sum += dp[i] * p[i];
          p[i] *= (dp[i] - sum) * factor(a);
        }
        if (pass == 1) store_group<kWhole>(a.y + start, g, a.cols, p);
      }
      if (pass == 0) sum = reduce_lanes<kLanes>(sum, Add{});
    }
  }
};

/// rmsnorm_backward: r g - f x with g = dy gamma, r = rsqrt(mean x^2 + eps), f = r^3 mean(g x).
struct NormBackward {
  static constexpr bool kTwoInputs = true;
  static constexpr ChainOp kOp = ChainOp::norm_backward;

  /// x, g and what they add to the row's two sums; zeros behind the end.
  template <bool kWhole>
  static __device__ void group(const ChainArgs& a, int g, uint4 raw_x, uint4 raw_dy, float (&x)[kVector],
                               float (&grad)[kVector], float2& sums) {
    float gamma[kVector];
    unpack(raw_x, x);
    unpack(raw_dy, grad);
    unpack(load_mask<kWhole>(a.mask, g, a.cols), gamma);
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      grad[i] *= gamma[i];
      sums.x = fmaf(x[i], x[i], sums.x);
      sums.y = fmaf(grad[i], x[i], sums.y);
    }
  }

  /// (r, f) of a row from its sums.
  template <int kLanes>
  static __device__ float2 factors(const ChainArgs& a, float2 sums) {
    const float squares = reduce_lanes<kLanes>(sums.x, Add{}), dots = reduce_lanes<kLanes>(sums.y, Add{});
    const float count = static_cast<float>(a.cols), r = rsqrtf(squares / count + kNormEpsilon);
    return make_float2(r, r * r * r * (dots / count));
  }

  template <bool kWhole>
  static __device__ void store(const ChainArgs& a, std::int64_t start, int g, float2 by, const float (&x)[kVector],
                               float (&grad)[kVector]) {
    float beside[kVector] = {};
    if (a.residual != nullptr) unpack(load_group<kWhole>(a.residual + start, g, a.cols), beside);
#pragma unroll
    for (int i = 0; i < kVector; ++i) grad[i] = by.x * grad[i] - by.y * x[i] + beside[i];
    store_group<kWhole>(a.y + start, g, a.cols, grad);
  }

  template <int kLanes, int kGroups, Fit kFit>
  static __device__ void held(const ChainArgs& a, RawRow<kLanes, kGroups, kFit, kTwoInputs>& raw, std::int64_t row,
                              std::int64_t next, int lane) {
    constexpr bool kWhole = kFit != Fit::ragged;
    const int groups = groups_of(a.cols);
    float x[kGroups][kVector], grad[kGroups][kVector];
    float2 sums = make_float2(0, 0);
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
      if (kFit != Fit::full && g * kLanes + lane >= groups) continue;
      group<kWhole>(a, g * kLanes + lane, raw.x[g], raw.dy[g], x[g], grad[g], sums);
    }
    raw.load(a, next, lane);
    const float2 by = factors<kLanes>(a, sums);
    if (row >= a.rows) return;
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
      if (kFit != Fit::full && g * kLanes + lane >= groups) continue;
      store<kWhole>(a, row * a.cols, g * kLanes + lane, by, x[g], grad[g]);
    }
  }

  template <int kLanes, bool kWhole>
  static __device__ void walked(const ChainArgs& a, std::int64_t row, int lane) {
    const std::int64_t start = row * a.cols;
    float x[kVector], grad[kVector];
    float2 sums = make_float2(0, 0), by = sums;
    for (int pass = 0; pass < 2; ++pass) {
      for (int g = lane; g < groups_of(a.cols); g += kLanes) {
        group<kWhole>(a, g, load_group<kWhole>(a.x + start, g, a.cols), load_group<kWhole>(a.dy + start, g, a.cols), x,
                      grad, sums);
        if (pass == 1) store<kWhole>(a, start, g, by, x, grad);
      }
      if (pass == 0) by = factors<kLanes>(a, sums);
    }
  }
};

/// A group of lanes takes `each` rows one after the other; the next row is being loaded while it works on this one.
template <class Op, int kLanes, int kGroups, Fit kFit>
__global__ void __launch_bounds__(kChainThreads<kLanes>) chain_held(const ChainArgs a, int each) {
  constexpr int kRows = kChainThreads<kLanes> / kLanes;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const std::int64_t first = std::int64_t{blockIdx.x} * kRows * each, own = threadIdx.x / kLanes;
  RawRow<kLanes, kGroups, kFit, Op::kTwoInputs> raw{};
  raw.load(a, first + own, lane);
  // All lanes of a warp take part in a reduction, so those behind the last row go through it too, and write nothing.
  if constexpr (!kChainPrefetches<!Op::kTwoInputs, kLanes>) {
    Op::template held<kLanes, kGroups, kFit>(a, raw, first + own, a.rows, lane);
  } else {
    for (int i = 0; i < each && first + i * kRows < a.rows; ++i) {
      const std::int64_t row = first + i * kRows + own;
      Op::template held<kLanes, kGroups, kFit>(a, raw, row, i + 1 < each ? row + kRows : a.rows, lane);
    }
  }
}

template <class Op, int kLanes, bool kWhole>
__global__ void __launch_bounds__(kLanes) chain_walked(const ChainArgs a) {
  Op::template walked<kLanes, kWhole>(a, blockIdx.x, static_cast<int>(threadIdx.x));
}

}  // namespace device

namespace {

using device::bf16;
using device::ChainArgs;
using device::kVector;

template <class Op, device::Fit kFit, std::size_t kEntry = 0>
void launch_held(ChainTile h, const ChainArgs& a, cudaStream_t stream) {
  if constexpr (kEntry < std::size(kChainMenu)) {
    constexpr ChainTile own = kChainMenu[kEntry];
    if (h.lanes != own.lanes || h.groups != own.groups) return launch_held<Op, kFit, kEntry + 1>(h, a, stream);
    constexpr int threads = chain_threads(own.lanes);
    const auto each = static_cast<int>(chain_rows_each(!Op::kTwoInputs, a.rows, own.lanes, sm_count()));
    const auto ctas = static_cast<unsigned>(chain_ctas(a.rows, own.lanes, each));
    if constexpr (kFit != device::Fit::full || chain_fills(Op::kOp, own.lanes, own.groups)) {
      device::chain_held<Op, own.lanes, own.groups, kFit><<<ctas, threads, 0, stream>>>(a, each);
    }
  }
}

template <class Op, bool kWhole>
void launch_rows(const ChainArgs& a, cudaStream_t stream) {
  const ChainTile h = chain_tile(a.cols);
  if (h.lanes > 0) {
    if (!kWhole) return launch_held<Op, device::Fit::ragged>(h, a, stream);
    if (chain_fit(Op::kOp, a.cols, h) == ChainFit::full) return launch_held<Op, device::Fit::full>(h, a, stream);
    return launch_held<Op, device::Fit::whole>(h, a, stream);
  }
  device::chain_walked<Op, kChainWalkThreads, kWhole>
      <<<static_cast<unsigned>(a.rows), kChainWalkThreads, 0, stream>>>(a);
}

template <class Op>
void launch_rows(const ChainArgs& a, cudaStream_t stream) {
  if (a.cols % kVector == 0) launch_rows<Op, true>(a, stream);
  else launch_rows<Op, false>(a, stream);
}

bool is_flat(RowwiseKind kind) {
  return kind == RowwiseKind::scale || kind == RowwiseKind::mask || kind == RowwiseKind::dropout ||
         kind == RowwiseKind::dropout_backward;
}

void check(const Rowwise& s, const ChainSettings& settings) {
  const std::string op(name(s.kind));
  if (!is_attention_chain(s.kind)) throw NotModelled(op + ": not of the attention chain");
  if (s.input != DType::bf16 || s.output != DType::bf16) throw NotModelled(op + ": our kernel is for bf16 in and out");
  if (s.residual && s.kind != RowwiseKind::rmsnorm_backward) {
    throw NotModelled(op + ": our kernel takes no residual");
  }
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  if (s.rows < 1 || s.cols < 1 || s.rows > kMost || s.cols > kMost) {
    throw BadInput(op + ": expected rows and cols from 1 to 2^30");
  }
  if (!(settings.drop >= 0) || dropout_threshold(settings.drop) > 65535) {
    throw BadInput(op + ": expected a probability of dropping from 0 to below 1");
  }
}

ChainArgs arguments(const Rowwise& s, const ChainSettings& c, const ChainBuffers& b) {
  const auto words = [](std::uint64_t v) {
    return make_uint2(static_cast<std::uint32_t>(v), static_cast<std::uint32_t>(v >> 32));
  };
  ChainArgs a{};
  a.x = static_cast<const bf16*>(b.x);
  a.dy = static_cast<const bf16*>(b.dy);
  a.mask = static_cast<const bf16*>(b.mask);
  a.residual = s.residual ? static_cast<const bf16*>(b.residual) : nullptr;
  a.y = static_cast<bf16*>(b.y);
  a.keep_mask = static_cast<unsigned char*>(b.keep_mask);
  a.log_sum = static_cast<float*>(b.log_sum);
  a.rows = s.rows;
  a.cols = static_cast<int>(s.cols);
  a.scale = c.scale;
  a.keep_scale = static_cast<float>(kept_scale(c.drop));
  a.threshold = dropout_threshold(c.drop) << 16;
  uint2 key = words(c.seed);
  for (uint2& k : a.keys) {
    k = key;
    key.x += 0x9E3779B9U;
    key.y += 0xBB67AE85U;
  }
  a.offset = words(c.offset);
  return a;
}

}  // namespace

bool is_attention_chain(RowwiseKind kind) {
  return is_flat(kind) || kind == RowwiseKind::softmax_backward || kind == RowwiseKind::scale_mask_softmax_dropout ||
         kind == RowwiseKind::scale_mask_softmax_dropout_backward || kind == RowwiseKind::rmsnorm_backward;
}

KernelPlan attention_chain_plan(const Rowwise& s) {
  if (is_flat(s.kind)) return chain_flat_plan(s);
  KernelPlan p;
  const ChainTile h = chain_tile(s.cols);
  p.threads = h.lanes > 0 ? chain_threads(h.lanes) : kChainWalkThreads;
  const bool forward = s.kind == RowwiseKind::scale_mask_softmax_dropout;
  p.ctas = h.lanes > 0 ? chain_ctas(s.rows, h.lanes, chain_rows_each(forward, s.rows, h.lanes, sm_count())) : s.rows;
  return p;
}

void launch_attention_chain(const Rowwise& s, const ChainSettings& settings, const ChainBuffers& b,
                            StreamHandle handle) {
  check(s, settings);
  const ChainArgs a = arguments(s, settings, b);
  auto* stream = static_cast<cudaStream_t>(handle);
  switch (s.kind) {
    case RowwiseKind::softmax_backward: launch_rows<device::Backward<false>>(a, stream); break;
    case RowwiseKind::rmsnorm_backward: launch_rows<device::NormBackward>(a, stream); break;
    case RowwiseKind::scale_mask_softmax_dropout: launch_rows<device::Forward>(a, stream); break;
    case RowwiseKind::scale_mask_softmax_dropout_backward: launch_rows<device::Backward<true>>(a, stream); break;
    default: launch_chain_flat(s, a, stream); break;
  }
  PLUMBLINE_CUDA_CHECK(cudaGetLastError());
}

}  // namespace plumbline
