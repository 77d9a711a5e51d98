// Operators that need a whole row before they can write: norms, softmax, sum and argmax of rows.
//
// Variants: up to 1024 columns a warp holds a row, up to 65536 a CTA does, in registers as raw bf16 (each element is
// read from DRAM once); longer rows, and rows that are not whole 16-byte vectors, are walked again from cache for every
// pass. One operator is one functor over a `Row`; the two kinds of row have the same members.
#include <algorithm>
#include <iterator>
#include <string>

#include "kernels/cuda_check.hpp"
#include "kernels/flat.cuh"
#include "kernels/launch.hpp"
#include "kernels/vector.cuh"

namespace plumbline {
namespace device {

struct RowArgs {
  const bf16* x;
  const bf16* second;
  const bf16* weight;
  const bf16* bias;
  void* y;
  bf16* sum;
  std::int64_t rows;
  int cols;
};

/// A row in the registers of kThreads threads, kVecs vectors each; whole vectors only. `kMayAdd`: there may be a second
/// input (code for it costs registers).
template <int kThreads, int kVecs, bool kMayAdd>
struct HeldRow {
  uint4 held[kVecs];
  int cols, lane;

  __device__ HeldRow(const RowArgs& a, std::int64_t row, int lane_) : cols(a.cols), lane(lane_) {
    const std::int64_t start = row * cols;
#pragma unroll
    for (int i = 0; i < kVecs; ++i) {
      if (first(i) < cols) held[i] = load_once(a.x + start + first(i));
    }
    if (kMayAdd && a.second != nullptr) add_second(a, start);
  }

  __device__ int first(int i) const { return (i * kThreads + lane) * kVector; }

  /// A few vectors at a time: all at once would not fit the registers beside the row.
  __device__ void add_second(const RowArgs& a, std::int64_t start) {
    constexpr int kBatch = kVecs % 4 == 0 ? 4 : kVecs % 3 == 0 ? 3 : kVecs;
#pragma unroll
    for (int batch = 0; batch < kVecs; batch += kBatch) {
      uint4 other[kBatch];
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        if (first(batch + i) < cols) other[i] = load_once(a.second + start + first(batch + i));
      }
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        if (first(batch + i) < cols)
          held[batch + i] = add_stored(held[batch + i], other[i], a, start + first(batch + i));
      }
    }
  }

  static __device__ uint4 add_stored(uint4 p, uint4 q, const RowArgs& a, std::int64_t at) {
    float x[kVector], r[kVector];
    unpack(p, x);
    unpack(q, r);
#pragma unroll
    for (int j = 0; j < kVector; ++j) x[j] += r[j];
    const uint4 sum = pack(x);
    store_once(a.sum + at, sum);
    return sum;
  }

  template <class F>
  __device__ void for_each(F f) const {
#pragma unroll
    for (int i = 0; i < kVecs; ++i) {
      if (first(i) >= cols) continue;
      float x[kVector];
      unpack(held[i], x);
#pragma unroll
      for (int j = 0; j < kVector; ++j) f(x[j], first(i) + j);
    }
  }

  /// y = f(x, weight or 1, bias or 0)
  template <class F>
  __device__ void store(bf16* y, const bf16* weight, const bf16* bias, F f) const {
#pragma unroll
    for (int i = 0; i < kVecs; ++i) {
      if (first(i) >= cols) continue;
      float x[kVector], w[kVector], b[kVector];
      unpack(held[i], x);
      if (weight != nullptr) unpack(load_shared_by_rows(weight + first(i)), w);
      if (bias != nullptr) unpack(load_shared_by_rows(bias + first(i)), b);
#pragma unroll
      for (int j = 0; j < kVector; ++j) {
        x[j] = f(x[j], weight != nullptr ? w[j] : 1.0F, bias != nullptr ? b[j] : 0.0F);
      }
      store_once(y + first(i), pack(x));
    }
  }
};

/// A row of any length, read from memory (cache, after the first time) at every pass.
template <int kThreads>
struct WalkedRow {
  const bf16* base;
  int cols, lane;

  __device__ WalkedRow(const RowArgs& a, std::int64_t row, int lane_)
      : base(a.x + row * a.cols), cols(a.cols), lane(lane_) {
    if (a.second == nullptr) return;
    add_second(a.second + row * cols, a.sum + row * cols);
    base = a.sum + row * cols;
    __syncthreads();  // the passes read what other threads wrote
  }

  __device__ void add_second(const bf16* other, bf16* sum) const {
    if (!vectors()) {
      for (int c = lane; c < cols; c += kThreads) {
        sum[c] = __float2bfloat16_rn(__bfloat162float(base[c]) + __bfloat162float(other[c]));
      }
      return;
    }
#pragma unroll 4
    for (int c = lane * kVector; c < cols; c += kThreads * kVector) {
      float x[kVector], r[kVector];
      unpack(load_once(base + c), x);
      unpack(load_once(other + c), r);
#pragma unroll
      for (int j = 0; j < kVector; ++j) x[j] += r[j];
      *reinterpret_cast<uint4*>(sum + c) = pack(x);
    }
  }

  __device__ bool vectors() const { return cols % kVector == 0; }

  template <class F>
  __device__ void for_each(F f) const {
    if (!vectors()) {
      for (int c = lane; c < cols; c += kThreads) f(__bfloat162float(base[c]), c);
      return;
    }
#pragma unroll 4
    for (int c = lane * kVector; c < cols; c += kThreads * kVector) {
      float x[kVector];
      unpack(*reinterpret_cast<const uint4*>(base + c), x);
#pragma unroll
      for (int j = 0; j < kVector; ++j) f(x[j], c + j);
    }
  }

  template <class F>
  __device__ void store(bf16* y, const bf16* weight, const bf16* bias, F f) const {
    if (vectors()) return store_vectors(y, weight, bias, f);
    for (int c = lane; c < cols; c += kThreads) {
      const float w = weight != nullptr ? __bfloat162float(weight[c]) : 1.0F;
      const float b = bias != nullptr ? __bfloat162float(bias[c]) : 0.0F;
      y[c] = __float2bfloat16_rn(f(__bfloat162float(base[c]), w, b));
    }
  }

  template <class F>
  __device__ void store_vectors(bf16* y, const bf16* weight, const bf16* bias, F f) const {
#pragma unroll 2
    for (int c = lane * kVector; c < cols; c += kThreads * kVector) {
      float x[kVector], w[kVector], b[kVector];
      unpack(*reinterpret_cast<const uint4*>(base + c), x);
      if (weight != nullptr) unpack(load_shared_by_rows(weight + c), w);
      if (bias != nullptr) unpack(load_shared_by_rows(bias + c), b);
#pragma unroll
      for (int j = 0; j < kVector; ++j) {
        x[j] = f(x[j], weight != nullptr ? w[j] : 1.0F, bias != nullptr ? b[j] : 0.0F);
      }
      store_once(y + c, pack(x));
    }
  }
};

// --- the operators: how a row becomes its result ---------------------------------------------------------------------

struct RmsNorm {
  static constexpr bool kMayAdd = true;
  template <int kThreads, class Row>
  static __device__ void run(const Row& row, const RowArgs& a, std::int64_t r) {
    float squares = 0;
    row.for_each([&](float x, int) { squares += x * x; });
    squares = reduce<kThreads>(squares, Add{});
    const float scale = rsqrtf(squares / static_cast<float>(row.cols) + kNormEpsilon);
    row.store(static_cast<bf16*>(a.y) + r * a.cols, a.weight, nullptr,
              [&](float x, float w, float) { return x * scale * w; });
  }
};

struct LayerNorm {
  static constexpr bool kMayAdd = true;
  template <int kThreads, class Row>
  static __device__ void run(const Row& row, const RowArgs& a, std::int64_t r) {
    float sum = 0, squares = 0;
    row.for_each([&](float x, int) { sum += x; });
    const float mean = reduce<kThreads>(sum, Add{}) / static_cast<float>(row.cols);
    row.for_each([&](float x, int) { squares += (x - mean) * (x - mean); });
    squares = reduce<kThreads>(squares, Add{});
    const float scale = rsqrtf(squares / static_cast<float>(row.cols) + kNormEpsilon);
    row.store(static_cast<bf16*>(a.y) + r * a.cols, a.weight, a.bias,
              [&](float x, float w, float b) { return (x - mean) * scale * w + b; });
  }
};

struct Softmax {
  static constexpr bool kMayAdd = false;
  template <int kThreads, class Row>
  static __device__ void run(const Row& row, const RowArgs& a, std::int64_t r) {
    constexpr float kLog2E = 1.4426950408889634F;
    float largest = -INFINITY, sum = 0;
    row.for_each([&](float x, int) { largest = fmaxf(largest, x); });
    const float shift = reduce<kThreads>(largest, Max{}) * kLog2E;
    row.for_each([&](float x, int) { sum += exp2f(x * kLog2E - shift); });
    const float scale = 1.0F / reduce<kThreads>(sum, Add{});
    row.store(static_cast<bf16*>(a.y) + r * a.cols, nullptr, nullptr,
              [&](float x, float, float) { return exp2f(x * kLog2E - shift) * scale; });
  }
};

struct SumRows {
  static constexpr bool kMayAdd = false;
  template <int kThreads, class Row>
  static __device__ void run(const Row& row, const RowArgs& a, std::int64_t r) {
    float sum = 0;
    row.for_each([&](float x, int) { sum += x; });
    sum = reduce<kThreads>(sum, Add{});
    if (row.lane == 0) static_cast<bf16*>(a.y)[r] = __float2bfloat16_rn(sum);
  }
};

/// Value and index in one integer that orders as (value, then lower index).
struct ArgMax {
  static constexpr bool kMayAdd = false;
  static __device__ unsigned long long key(float x, int col) {
    const std::uint32_t b = __float_as_uint(x + 0.0F);  // -0 counts as 0
    const std::uint32_t ordered = (b & 0x80000000U) != 0 ? ~b : b | 0x80000000U;
    return (static_cast<unsigned long long>(ordered) << 32) | (0xffffffffU - static_cast<std::uint32_t>(col));
  }

  template <int kThreads, class Row>
  static __device__ void run(const Row& row, const RowArgs& a, std::int64_t r) {
    float best = -INFINITY;
    int at = -1;
    row.for_each([&](float x, int col) {
      if (x > best || at < 0) {  // columns come in rising order within a thread
        best = x;
        at = col;
      }
    });
    const unsigned long long none = 0;
    const unsigned long long winner = reduce<kThreads>(at < 0 ? none : key(best, at), Max{});
    if (row.lane == 0) {
      static_cast<std::int32_t*>(a.y)[r] = static_cast<std::int32_t>(0xffffffffU - static_cast<std::uint32_t>(winner));
    }
  }
};

constexpr int kRowsPerCta = 8;  // of the warp-per-row variant

/// CTAs that must fit an SM together, so that one loads while another reduces: 1024 threads of 64 registers each, or
/// 768 of 85 where eight vectors are held.
constexpr int co_resident(int threads, int vecs) {
  const int together = vecs == 8 && threads < 512 ? 768 : 1024;
  return threads >= together ? 1 : together / threads;
}

template <class Op, int kThreads, int kVecs>
__global__ void __launch_bounds__(kThreads == kWarp ? kWarp * kRowsPerCta : kThreads,
                                  co_resident(kThreads == kWarp ? kWarp * kRowsPerCta : kThreads, kVecs))
    row_held(RowArgs a) {
  std::int64_t r = blockIdx.x;
  if constexpr (kThreads == kWarp) {
    r = r * kRowsPerCta + threadIdx.x / kWarp;
    if (r >= a.rows) return;
  }
  const HeldRow<kThreads, kVecs, Op::kMayAdd> row(a, r, static_cast<int>(threadIdx.x) % kThreads);
  Op::template run<kThreads>(row, a, r);
}

template <class Op, int kThreads>
__global__ void __launch_bounds__(kThreads) row_walked(RowArgs a) {
  const WalkedRow<kThreads> row(a, blockIdx.x, static_cast<int>(threadIdx.x));
  Op::template run<kThreads>(row, a, blockIdx.x);
}

}  // namespace device

namespace {

using device::bf16;
using device::kRowsPerCta;
using device::kVector;
using device::kWarp;
using device::RowArgs;

constexpr int kWalkThreads = 256, kLongWalkThreads = 1024;

/// One entry of the menu of ways to hold a row.
struct Holding {
  int threads, vecs;
};
constexpr Holding kMenu[] = {{32, 1},  {32, 2},  {32, 4},  {128, 2}, {128, 4}, {256, 3},
                             {256, 4}, {256, 6}, {256, 8}, {512, 6}, {512, 8}, {1024, 8}};

/// The first entry wide enough for the row, or threads = 0 when it must be walked.
Holding holding(std::int64_t cols) {
  if (cols % kVector != 0) return {0, 0};
  const auto fits = [&](Holding h) { return cols <= std::int64_t{kVector} * h.threads * h.vecs; };
  const auto* found = std::find_if(std::begin(kMenu), std::end(kMenu), fits);
  return found == std::end(kMenu) ? Holding{0, 0} : *found;
}

int walk_threads(std::int64_t cols) { return cols > 16384 ? kLongWalkThreads : kWalkThreads; }

template <class Op, std::size_t kEntry = 0>
void launch_held(Holding h, const RowArgs& a, cudaStream_t stream) {
  if constexpr (kEntry < std::size(kMenu)) {
    constexpr Holding own = kMenu[kEntry];
    if (h.threads != own.threads || h.vecs != own.vecs) return launch_held<Op, kEntry + 1>(h, a, stream);
    constexpr int rows = own.threads == kWarp ? kRowsPerCta : 1;
    const auto ctas = static_cast<unsigned>((a.rows + rows - 1) / rows);
    device::row_held<Op, own.threads, own.vecs><<<ctas, own.threads * rows, 0, stream>>>(a);
  }
}

template <class Op>
void launch_rows(const RowArgs& a, cudaStream_t stream) {
  const Holding h = holding(a.cols);
  const auto rows = static_cast<unsigned>(a.rows);
  if (h.threads > 0) {
    launch_held<Op>(h, a, stream);
  } else if (walk_threads(a.cols) == kLongWalkThreads) {
    device::row_walked<Op, kLongWalkThreads><<<rows, kLongWalkThreads, 0, stream>>>(a);
  } else {
    device::row_walked<Op, kWalkThreads><<<rows, kWalkThreads, 0, stream>>>(a);
  }
}

void check(const Rowwise& s) {
  if (s.input != DType::bf16 || s.output != DType::bf16) {
    throw NotModelled(std::string(name(s.kind)) + ": our kernel is for bf16 in and out");
  }
  if (s.rows < 1 || s.cols < 1 || s.rows > (std::int64_t{1} << 30) || s.cols > (std::int64_t{1} << 30)) {
    throw BadInput(std::string(name(s.kind)) + ": expected rows and cols from 1 to 2^30");
  }
  if (s.residual && s.kind != RowwiseKind::rmsnorm && s.kind != RowwiseKind::layernorm) {
    throw NotModelled(std::string(name(s.kind)) + ": our kernel takes no residual");
  }
}

}  // namespace

KernelPlan rowwise_plan(const Rowwise& s) {
  if (!is_by_rows(s.kind)) return flat_plan(s);
  KernelPlan p;
  const Holding h = holding(s.cols);
  const std::int64_t rows = h.threads == kWarp ? kRowsPerCta : 1;
  p.ctas = (s.rows + rows - 1) / rows;
  p.threads = h.threads > 0 ? h.threads * rows : walk_threads(s.cols);
  return p;
}

void launch_rowwise(const Rowwise& s, const RowwiseBuffers& b, StreamHandle handle) {
  check(s);
  auto* stream = static_cast<cudaStream_t>(handle);
  const auto in = [](const void* p) { return static_cast<const bf16*>(p); };
  const RowArgs a{in(b.x), s.residual ? in(b.second) : nullptr, in(b.weight), in(b.bias),
                  b.y,     static_cast<bf16*>(b.sum),           s.rows,       static_cast<int>(s.cols)};
  switch (s.kind) {
    case RowwiseKind::rmsnorm: launch_rows<device::RmsNorm>(a, stream); break;
    case RowwiseKind::layernorm: launch_rows<device::LayerNorm>(a, stream); break;
    case RowwiseKind::softmax: launch_rows<device::Softmax>(a, stream); break;
    case RowwiseKind::sum_rows: launch_rows<device::SumRows>(a, stream); break;
    case RowwiseKind::argmax: launch_rows<device::ArgMax>(a, stream); break;
    default: launch_flat(s, b, handle); break;
  }
  PLUMBLINE_CUDA_CHECK(cudaGetLastError());
}

}  // namespace plumbline
