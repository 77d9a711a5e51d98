// Operators that need a whole row before they can write: norms, softmax, sum and argmax of rows, quantize; of E, which is
// __nv_bfloat16 or __half.
//
// A warp, a CTA or a cluster holds a row in its registers as it lies in memory (row.cuh), reads it once and reduces it once.
// Variants and their figures: docs/lab/rowwise.md.
#pragma once

#include "kernels/common/launch.hpp"
#include "kernels/rows/row_menu.cuh"
#include "kernels/rows/row_ops.cuh"

namespace plumbline {
namespace device {

template <class E>
struct RowArgs {
  const E* x;
  const E* second;
  const E* weight;
  const E* bias;
  void* y;
  E* sum;
  float* scale;
  std::int64_t rows;
  int cols;
};

// --- the operators: how a row becomes its result ---------------------------------------------------------------------

/// gamma and beta. A thread with few vectors of a row loads its parameters before the reduction, which otherwise would
/// be followed by another trip to L2. With more vectors that would cost the registers that have enough rows in flight.
template <class Row, int kVecs, bool kBias, bool kEarly>
struct Parameters {
  using E = typename Row::Element;
  uint4 w[kEarly ? kVecs : 1], b[kEarly && kBias ? kVecs : 1];

  __device__ Parameters(const Row& row, const RowArgs<E>& a) {
    if constexpr (kEarly) {
#pragma unroll
      for (int i = 0; i < kVecs; ++i) w[i] = row.load_parameter(a.weight, i);
    }
    if constexpr (kEarly && kBias) {
#pragma unroll
      for (int i = 0; i < kVecs; ++i) b[i] = row.load_parameter(a.bias, i);
    }
  }
  __device__ uint4 weight(const Row& row, const RowArgs<E>& a, int i) const {
    return kEarly ? w[kEarly ? i : 0] : row.load_parameter(a.weight, i);
  }
  __device__ uint4 bias(const Row& row, const RowArgs<E>& a, int i) const {
    return kEarly && kBias ? b[kEarly && kBias ? i : 0] : row.load_parameter(a.bias, i);
  }
};

struct RmsNorm {
  static constexpr float kFill = 0;
  static constexpr bool kNorm = true;
  template <class Team, int kVecs, bool kEarly, class Row, class E>
  static __device__ void run(const Row& row, const RowArgs<E>& a, std::int64_t r) {
    const Parameters<Row, kVecs, false, kEarly> parameters(row, a);
    float squares = 0;
    row.for_each([&](float x) { squares += x * x; });
    squares = Team::reduce(squares, 0.0F, Add{});
    const float scale = rsqrtf(squares / static_cast<float>(a.cols) + kNormEpsilon);
    E* y = static_cast<E*>(a.y) + r * a.cols + row.part.first;
#pragma unroll
    for (int i = 0; i < kVecs; ++i) {
      float x[kVector], w[kVector];
      unpack_as<E>(row.held[i], x);
      unpack_as<E>(parameters.weight(row, a, i), w);
#pragma unroll
      for (int j = 0; j < kVector; ++j) x[j] *= scale * w[j];
      row.store(y, i, x);
    }
  }
};

/// One reduction: sums of d and d^2, d = x - k with k the row's first element. E[d^2] - E[d]^2 loses at most cols units
/// in the last place, since (k - mean)^2 <= cols variance whatever the row: 2^-10 of the variance at 16 Ki columns.
struct LayerNorm {
  static constexpr float kFill = 0;
  static constexpr bool kNorm = true;
  template <class Team, int kVecs, bool kEarly, class Row, class E>
  static __device__ void run(const Row& row, const RowArgs<E>& a, std::int64_t r) {
    const Parameters<Row, kVecs, true, kEarly> parameters(row, a);
    float shift = to_float(a.x[r * a.cols]);
    if (a.second != nullptr) shift += to_float(a.second[r * a.cols]);
    float2 sums = make_float2(0, 0);
    row.for_each_present([&](float x) {
      const float d = x - shift;
      sums.x += d;
      sums.y += d * d;
    });
    sums = Team::reduce(sums, make_float2(0, 0), AddPairs{});
    const float count = static_cast<float>(a.cols), offset = sums.x / count, mean = shift + offset;
    const float scale = rsqrtf(fmaxf(sums.y / count - offset * offset, 0.0F) + kNormEpsilon);
    E* y = static_cast<E*>(a.y) + r * a.cols + row.part.first;
#pragma unroll
    for (int i = 0; i < kVecs; ++i) {
      float x[kVector], w[kVector], b[kVector];
      unpack_as<E>(row.held[i], x);
      unpack_as<E>(parameters.weight(row, a, i), w);
      unpack_as<E>(parameters.bias(row, a, i), b);
#pragma unroll
      for (int j = 0; j < kVector; ++j) x[j] = (x[j] - mean) * scale * w[j] + b[j];
      row.store(y, i, x);
    }
  }
};

/// One reduction: every thread sums against its own largest element. Threads of short rows hold their exponentials in
/// fp32, so that each is computed once; the others compute them again when they write.
struct Softmax {
  static constexpr float kFill = -INFINITY;
  static constexpr bool kNorm = false;
  template <class Team, int kVecs, bool kEarly, class Row, class E>
  static __device__ void run(const Row& row, const RowArgs<E>& a, std::int64_t r) {
    constexpr bool kKeep = kVecs <= 4;
    float largest = -INFINITY, sum = 0, exponentials[kKeep ? kVecs * kVector : 1];
    row.for_each([&](float x) { largest = fmaxf(largest, x); });
    largest *= kLog2E;
    const float own = largest == -INFINITY ? 0.0F : largest;
#pragma unroll
    for (int i = 0; i < kVecs; ++i) {
      float x[kVector];
      unpack_as<E>(row.held[i], x);
#pragma unroll
      for (int j = 0; j < kVector; ++j) {
        const float e = exp2_approx(x[j] * kLog2E - own);
        sum += e;
        if constexpr (kKeep) exponentials[i * kVector + j] = e;
      }
    }
    const float2 all = Team::reduce(make_float2(largest, sum), make_float2(-INFINITY, 0), MergeSoftmax{});
    const float shift = kKeep ? all.x - own : all.x;
    const float scale = kKeep ? exp2_approx(own - all.x) / all.y : 1.0F / all.y;
    E* y = static_cast<E*>(a.y) + r * a.cols + row.part.first;
#pragma unroll
    for (int i = 0; i < kVecs; ++i) {
      float x[kVector];
      unpack_as<E>(row.held[i], x);
#pragma unroll
      for (int j = 0; j < kVector; ++j)
        x[j] = (kKeep ? exponentials[kKeep ? i * kVector + j : 0] : exp2_approx(x[j] * kLog2E - shift)) * scale;
      row.store(y, i, x);
    }
  }
};

struct SumRows {
  static constexpr float kFill = 0;
  static constexpr bool kNorm = false;
  float sum = 0;

  template <class Row>
  __device__ void take(const Row& row) {
    row.for_each([&](float x) { sum += x; });
  }
  template <class Team, class E>
  __device__ void finish(const RowArgs<E>& a, std::int64_t r) {
    sum = Team::reduce(sum, 0.0F, Add{});
    if (Team::leads()) static_cast<E*>(a.y)[r] = rounded<E>(sum);
  }
  template <class Team, int kVecs, bool kEarly, class Row, class E>
  static __device__ void run(const Row& row, const RowArgs<E>& a, std::int64_t r) {
    SumRows s;
    s.take(row);
    s.template finish<Team>(a, r);
  }
};

/// Each thread finds its first vector with its largest element, then the element in it; value and column then travel
/// as one integer that orders as (value, then lower column).
struct ArgMax {
  static constexpr float kFill = -INFINITY;
  static constexpr bool kNorm = false;
  float value = -INFINITY;
  int column = -1;

  /// What a thread sees later has higher columns, so equal values lose.
  template <class Row>
  __device__ void take(const Row& row) {
    const Largest best = find_largest<typename Row::Element>(row.held);
    if (column >= 0 && !(best.value > value)) return;
    value = best.value;
    column = row.part.first + max(row.column(best.vector, best.place), 0);
  }
  template <class Team, class E>
  __device__ void finish(const RowArgs<E>& a, std::int64_t r) {
    const unsigned long long own =
        static_cast<unsigned long long>(ordered(value)) << 32 | (0xffffffffU - static_cast<std::uint32_t>(column));
    const unsigned long long winner = Team::reduce(own, 0ULL, Max{});
    if (Team::leads()) {
      static_cast<std::int32_t*>(a.y)[r] = static_cast<std::int32_t>(0xffffffffU - static_cast<std::uint32_t>(winner));
    }
  }
  template <class Team, int kVecs, bool kEarly, class Row, class E>
  static __device__ void run(const Row& row, const RowArgs<E>& a, std::int64_t r) {
    ArgMax m;
    m.take(row);
    m.template finish<Team>(a, r);
  }
};

/// e4m3 with scale = largest |x| / 448 a row, 448 being e4m3's largest number; x = y scale.
struct Quantize {
  static constexpr float kFill = 0, kLargest = 448;
  static constexpr bool kNorm = false;
  template <class Team, int kVecs, bool kEarly, class Row, class E>
  static __device__ void run(const Row& row, const RowArgs<E>& a, std::int64_t r) {
    float largest = 0;
    row.for_each([&](float x) { largest = fmaxf(largest, fabsf(x)); });
    largest = Team::reduce(largest, 0.0F, Max{});
    const float inverse = largest > 0 ? kLargest / largest : 0.0F;
    if (Team::leads()) a.scale[r] = largest / kLargest;
    auto* y = static_cast<std::uint8_t*>(a.y) + r * a.cols + row.part.first;
#pragma unroll
    for (int i = 0; i < kVecs; ++i) {
      float x[kVector];
      unpack_as<E>(row.held[i], x);
#pragma unroll
      for (int j = 0; j < kVector; ++j) x[j] *= inverse;
      row.store_e4m3(y, i, x);
    }
  }
};

/// `kMinCtas`: CTAs that must fit an SM, which limits the registers. `kEarly`: see Parameters.
template <class Op, int kThreads, int kVecs, bool kClustered, bool kWhole, bool kEarly, int kMinCtas, class E>
__global__ void __launch_bounds__(kThreads == kWarp ? kWarp * kRowsPerCta : kThreads, kMinCtas) row_held(RowArgs<E> a) {
  using Group = Team<kThreads, kClustered>;
  Group::start();
  std::int64_t r = blockIdx.x;
  if constexpr (kThreads == kWarp) {
    r = r * kRowsPerCta + threadIdx.x / kWarp;
    if (r >= a.rows) return;
  }
  if constexpr (kClustered) r /= cluster_size();
  HeldRow<Group, kVecs, kWhole, E> row(a.x, r * a.cols, part_of_row<Group>(a.cols), Op::kFill);
  if constexpr (Op::kNorm) {  // these may add a residual
    if (a.second != nullptr) row.add(a.second + r * a.cols, a.sum + r * a.cols);
  }
  Op::template run<Group, kVecs, kEarly>(row, a, r);
}

/// Reductions of rows that are too long for the registers of a CTA: it walks the row, at each step as much of it as its
/// threads hold. Where rows are not whole vectors a step is a vector shorter, since both ends of a part touch a vector.
template <class Op, int kThreads, int kVecs, bool kWhole, int kMinCtas, class E>
__global__ void __launch_bounds__(kThreads, kMinCtas) row_walked(RowArgs<E> a) {
  using Group = Team<kThreads, false>;
  constexpr int kStep = (kThreads * kVecs - (kWhole ? 0 : 1)) * kVector;
  const std::int64_t r = blockIdx.x;
  Op result;
  for (int first = 0; first < a.cols; first += kStep) {
    const HeldRow<Group, kVecs, kWhole, E> part(a.x, r * a.cols, Part{first, min(kStep, a.cols - first)}, Op::kFill);
    result.take(part);
  }
  result.template finish<Group>(a, r);
}

}  // namespace device

template <class Op, RowMenu kMenu, std::size_t kEntry = 0, class E>
void launch_entry(const TileChoice& choice, const device::RowArgs<E>& a, cudaStream_t stream) {
  if constexpr (kEntry < entries(kMenu).size()) {
    if (choice.entry != static_cast<int>(kEntry)) return launch_entry<Op, kMenu, kEntry + 1>(choice, a, stream);
    constexpr RowTile h = entries(kMenu)[kEntry];
    const KernelPlan plan = plan_of(h, choice, a.rows);
    if constexpr (h.walks) {
      const auto kernel = whole_rows(a.cols) ? device::row_walked<Op, h.threads, h.vecs, true, min_ctas_per_sm(h), E>
                                             : device::row_walked<Op, h.threads, h.vecs, false, min_ctas_per_sm(h), E>;
      launch_plan(kernel, plan, a, stream);
    } else {
      constexpr bool kEarly = kMenu == RowMenu::few;
      const auto kernel =
          whole_rows(a.cols)
              ? device::row_held<Op, h.threads, h.vecs, h.clustered, true, kEarly, min_ctas_per_sm(h), E>
              : device::row_held<Op, h.threads, h.vecs, h.clustered, false, kEarly, min_ctas_per_sm(h), E>;
      launch_plan(kernel, plan, a, stream);
    }
  }
}

template <class Op, RowwiseKind kKind, class E>
void launch_row_op(const RowChoice& chosen, const device::RowArgs<E>& a, cudaStream_t stream) {
  if (chosen.menu == RowMenu::few) return launch_entry<Op, RowMenu::few>(chosen.choice, a, stream);
  launch_entry<Op, row_menu_of(kKind)>(chosen.choice, a, stream);
}

/// One of the kinds of is_by_rows() (flat.cuh). A source of its own for each E, as they take long to compile.
template <class E>
void launch_rows_of(const Rowwise& s, const RowChoice& chosen, const RowwiseBuffers& b, cudaStream_t stream) {
  const auto in = [](const void* p) { return static_cast<const E*>(p); };
  const device::RowArgs<E> a{in(b.x),
                             s.residual ? in(b.second) : nullptr,
                             in(b.weight),
                             in(b.bias),
                             b.y,
                             static_cast<E*>(b.sum),
                             b.scale,
                             s.rows,
                             static_cast<int>(s.cols)};
  switch (s.kind) {
    case RowwiseKind::rmsnorm: return launch_row_op<device::RmsNorm, RowwiseKind::rmsnorm>(chosen, a, stream);
    case RowwiseKind::layernorm: return launch_row_op<device::LayerNorm, RowwiseKind::layernorm>(chosen, a, stream);
    case RowwiseKind::softmax: return launch_row_op<device::Softmax, RowwiseKind::softmax>(chosen, a, stream);
    case RowwiseKind::sum_rows: return launch_row_op<device::SumRows, RowwiseKind::sum_rows>(chosen, a, stream);
    case RowwiseKind::argmax: return launch_row_op<device::ArgMax, RowwiseKind::argmax>(chosen, a, stream);
    default: return launch_row_op<device::Quantize, RowwiseKind::quantize>(chosen, a, stream);
  }
}
extern template void launch_rows_of<device::bf16>(const Rowwise&, const RowChoice&, const RowwiseBuffers&,
                                                  cudaStream_t);
extern template void launch_rows_of<__half>(const Rowwise&, const RowChoice&, const RowwiseBuffers&, cudaStream_t);

}  // namespace plumbline
