// Operators that treat each element alone (copy, add, swiglu, activations), and embedding, which is a copy by rows.
//
// Each thread handles one vector of 16 bytes, once. Reads and writes in small pieces near each other win here, and more
// bytes in flight than the latency needs lose. The last n mod 8 elements are handled one by one. Gated rows that are
// not whole vectors are put together by funnel shifts from the two vectors that cover 8 elements.
// Variants and their figures: docs/lab/flat.md.
#include "kernels/rows/flat.cuh"

#include <algorithm>
#include <string>
#include <type_traits>

#include "kernels/common/cuda_check.hpp"
#include "kernels/common/measure.cuh"
#include "kernels/common/vector16.cuh"

namespace plumbline {
namespace device {

constexpr int kFlatThreads = 256;

struct Copy {
  static constexpr int kInputs = 1;
  static __device__ float f(float x, float) { return x; }
};
struct Sum {
  static constexpr int kInputs = 2;
  static __device__ float f(float x, float y) { return x + y; }
};
/// x / (1 + e^-x). For very negative x the divisor is infinite, or too large for the fast division; the result is 0 in
/// both cases.
struct Silu {
  static constexpr int kInputs = 1;
  static __device__ float f(float x, float) { return __fdividef(x, 1.0F + __expf(-x)); }
};
/// x Phi(x) with Phi(x) = 1 / (1 + 2^-(x q(x^2))): q fits log2(Phi / (1 - Phi)) / x on [0, 5] so that Phi is within
/// 1.3e-3 of itself, a third of bf16's rounding, and 4e-4 for x > 0; beyond 5 it keeps growing, and x Phi is x or below
/// 2e-6. The fewest instructions win, because power is the limit (docs/lab/flat.md).
struct Gelu {
  static constexpr int kInputs = 1;
  static __device__ float f(float x, float) {
    const float t = x * x;
    const float q = ((1.3031891e-5F * t - 1.4235538e-3F) * t + 0.10939673F) * t + 2.2976468F;
    return __fdividef(x, 1.0F + exp2_approx(-x * q));
  }
};
/// The same for fp16, whose rounding is an eighth: x Phi within 6.1e-5 of itself where it is no denormal, an eighth of the
/// rounding. Three multiplications more.
struct FineGelu {
  static constexpr int kInputs = 1;
  static __device__ float f(float x, float) {
    const float t = x * x;
    float q = fmaf(2.4614142e-9F, t, -2.1972415e-7F);
    q = fmaf(q, t, 7.7126438e-6F);
    q = fmaf(q, t, -1.1952733e-4F);
    q = fmaf(q, t, -2.9911014e-4F);
    q = fmaf(q, t, 0.10527897F);
    q = fmaf(q, t, 2.3019366F);
    return __fdividef(x, 1.0F + exp2_approx(-x * q));
  }
};
/// 1 / (1 + e^-x), which is 0 where e^-x is infinite or too large for the fast division.
struct Sigmoid {
  static constexpr int kInputs = 1;
  static __device__ float f(float x, float) { return __fdividef(1.0F, 1.0F + __expf(-x)); }
};
struct Relu {
  static constexpr int kInputs = 1;
  static __device__ float f(float x, float) { return fmaxf(x, 0.0F); }
};
struct SquaredRelu {
  static constexpr int kInputs = 1;
  static __device__ float f(float x, float) {
    const float positive = fmaxf(x, 0.0F);
    return positive * positive;
  }
};
struct Swiglu {
  static constexpr int kInputs = 2;
  static __device__ float f(float gate, float up) { return Silu::f(gate, 0) * up; }
};

/// Where element i of the first and of the second input lies: in two arrays (`width` 0), or in rows of [gate | up].
template <class E>
struct Layout {
  const E* first;
  const E* second;
  std::uint32_t width;  // elements a row of one half; 0: side by side
  Divider row_vectors;  // vectors a row

  __device__ std::int64_t at(std::int64_t i) const { return width == 0 ? i : i + i / width * width; }
  __device__ std::int64_t at_vector(std::uint32_t v) const {
    const std::uint32_t before = width == 0 ? 0 : row_vectors.quotient(v) * row_vectors.by;
    return (std::int64_t{v} + before) * kVector;
  }
};

template <class Op, class E>
__global__ void __launch_bounds__(kFlatThreads) flat(Layout<E> in, E* y, std::uint32_t vectors) {
  const std::uint32_t v = blockIdx.x * kFlatThreads + threadIdx.x;
  if (v >= vectors) return;
  const std::int64_t at = in.at_vector(v);
  const uint4 a = load_vector(in.first + at);
  uint4* to = reinterpret_cast<uint4*>(y) + v;
  if constexpr (std::is_same_v<Op, Copy>) {
    *to = a;
    return;
  }
  float x[kVector], z[kVector] = {};
  if constexpr (Op::kInputs == 2) unpack_as<E>(load_vector(in.second + at), z);
  unpack_as<E>(a, x);
#pragma unroll
  for (int j = 0; j < kVector; ++j) x[j] = Op::f(x[j], z[j]);
  *to = pack_as<E>(x);
}

/// Handles elements [begin, end), one a thread.
template <class Op, class E>
__global__ void __launch_bounds__(kFlatThreads) flat_single(Layout<E> in, E* y, std::int64_t begin, std::int64_t end) {
  const std::int64_t i = begin + std::int64_t{blockIdx.x} * kFlatThreads + threadIdx.x;
  if (i >= end) return;
  const std::int64_t at = in.at(i);
  const float second = Op::kInputs == 2 ? to_float(in.second[at]) : 0.0F;
  y[i] = rounded<E>(Op::f(to_float(in.first[at]), second));
}

/// Elements [skip, skip + 8) of 16 neighbouring ones.
__device__ inline uint4 window(const uint4& low, const uint4& high, unsigned skip) {
  std::uint32_t w[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
  for (int i = 0; i < 6; ++i) w[i] = (skip & 4) != 0 ? w[i + 2] : w[i];
#pragma unroll
  for (int i = 0; i < 5; ++i) w[i] = (skip & 2) != 0 ? w[i + 1] : w[i];
#pragma unroll
  for (int i = 0; i < 4; ++i) w[i] = (skip & 1) != 0 ? __funnelshift_r(w[i], w[i + 1], 16) : w[i];
  return make_uint4(w[0], w[1], w[2], w[3]);
}

/// Elements [at, at + 8) whatever their alignment, from the two vectors that cover them.
template <class E>
__device__ uint4 load_anywhere(const E* x, std::int64_t at) {
  const auto* first = reinterpret_cast<const uint4*>(x) + at / kVector;
  const auto skip = static_cast<unsigned>(at) % kVector;
  return skip == 0 ? __ldg(first) : window(__ldg(first), __ldg(first + 1), skip);
}

/// Gated operators on rows that are not whole vectors. Each thread computes 8 results by vectors, except where they
/// belong to two rows or are the input's last, whose second vector may not exist: these it computes one by one.
template <class Op, class E>
__global__ void __launch_bounds__(kFlatThreads) flat_odd(Layout<E> in, E* y, std::int64_t n) {
  const std::int64_t first = (std::int64_t{blockIdx.x} * kFlatThreads + threadIdx.x) * kVector;
  if (first >= n) return;
  const std::int64_t row = first / in.width, at = first + row * in.width;
  if (first - row * in.width + kVector <= in.width && first + 2 * kVector <= n) {
    float gate[kVector], up[kVector];
    unpack_as<E>(load_anywhere(in.first, at), gate);
    unpack_as<E>(load_anywhere(in.first, at + in.width), up);
#pragma unroll
    for (int j = 0; j < kVector; ++j) gate[j] = Op::f(gate[j], up[j]);
    *reinterpret_cast<uint4*>(y + first) = pack_as<E>(gate);
    return;
  }
  for (std::int64_t i = first; i < min(first + kVector, n); ++i) {
    const std::int64_t from = in.at(i);
    y[i] = rounded<E>(Op::f(to_float(in.first[from]), to_float(in.second[from])));
  }
}

/// Vector v of the result is vector v mod row_vectors of row ids[v / row_vectors]. A thread handles kVecs of them,
/// since each has to wait for its id before it can be read.
template <int kVecs>
__global__ void __launch_bounds__(kFlatThreads)
    gather_rows(const uint4* table, const std::int32_t* ids, uint4* y, std::uint32_t vectors, Divider row_vectors) {
  const std::uint32_t first = blockIdx.x * kVecs * blockDim.x + threadIdx.x;
  uint4 a[kVecs];
#pragma unroll
  for (int i = 0; i < kVecs; ++i) {
    const std::uint32_t v = first + i * blockDim.x;
    if (v >= vectors) continue;
    const std::uint32_t row = row_vectors.quotient(v), within = v - row * row_vectors.by;
    a[i] = __ldcs(table + std::int64_t{ids[row]} * row_vectors.by + within);
  }
#pragma unroll
  for (int i = 0; i < kVecs; ++i) {
    const std::uint32_t v = first + i * blockDim.x;
    if (v < vectors) __stcs(y + v, a[i]);
  }
}

__global__ void __launch_bounds__(kFlatThreads)
    gather_elements(const bf16* table, const std::int32_t* ids, bf16* y, std::int64_t n, std::uint32_t width) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kFlatThreads + threadIdx.x;
  if (i >= n) return;
  const std::int64_t row = i / width;
  y[i] = table[std::int64_t{ids[row]} * width + (i - row * width)];
}

}  // namespace device

namespace {

using device::bf16;
using device::kFlatThreads;
using device::kVector;

constexpr std::int64_t kMostVectors = 0x7fffffff - kFlatThreads;

constexpr int kGatherVecs = 4, kGatherThreads = 128;
constexpr std::int64_t kEnoughCtasAnSm = 4;  // fewer of kGatherVecs, and every thread takes one

std::int64_t ctas_for(std::int64_t items, int each = kFlatThreads) { return (items + each - 1) / each; }
int gather_vecs(const Embedding& s) {
  const std::int64_t ctas = ctas_for(s.rows * s.cols / kVector, kGatherVecs * kGatherThreads);
  return ctas >= kEnoughCtasAnSm * sm_count() ? kGatherVecs : 1;
}

/// Launches whole vectors, then the last n mod 8 elements; gated rows that are not whole vectors have their own kernel.
template <class Op, class E>
void launch(const device::Layout<E>& in, void* out, std::int64_t n, cudaStream_t stream) {
  auto* y = static_cast<E*>(out);
  const std::int64_t vectors = n / kVector;
  if (vectors > kMostVectors) throw NotModelled("elementwise: our kernels take up to 2^31 vectors");
  const auto ctas = [](std::int64_t items) { return static_cast<unsigned>(ctas_for(items)); };
  if (in.width % kVector != 0) {
    device::flat_odd<Op, E><<<ctas(vectors + 1), kFlatThreads, 0, stream>>>(in, y, n);
    return;
  }
  if (vectors > 0) {
    device::flat<Op, E><<<ctas(vectors), kFlatThreads, 0, stream>>>(in, y, static_cast<std::uint32_t>(vectors));
  }
  const std::int64_t done = vectors * kVector;
  if (done < n) device::flat_single<Op, E><<<ctas(n - done), kFlatThreads, 0, stream>>>(in, y, done, n);
}

}  // namespace

KernelPlan flat_plan(const Rowwise& s) {
  if (s.kind == RowwiseKind::transpose_copy) return transpose_plan(s);
  KernelPlan p;
  const std::int64_t vectors = s.rows * s.cols / kVector;
  p.ctas = ctas_for(s.kind == RowwiseKind::swiglu && s.cols % kVector != 0 ? vectors + 1
                                                                           : std::max<std::int64_t>(1, vectors));
  p.threads = kFlatThreads;
  return p;
}

namespace {

template <class E>
void launch_flat_of(const Rowwise& s, const RowwiseBuffers& b, cudaStream_t stream) {
  using Gelu = std::conditional_t<std::is_same_v<E, __half>, device::FineGelu, device::Gelu>;
  const std::int64_t n = s.rows * s.cols;
  const auto* x = static_cast<const E*>(b.x);
  const device::Layout<E> beside{x, static_cast<const E*>(b.second), 0, device::Divider(1)};
  const device::Layout<E> halves{x, x + s.cols, static_cast<std::uint32_t>(s.cols),
                                 device::Divider(std::max<std::int64_t>(1, s.cols / kVector))};
  switch (s.kind) {
    case RowwiseKind::add: return launch<device::Sum>(beside, b.y, n, stream);
    case RowwiseKind::silu: return launch<device::Silu>(beside, b.y, n, stream);
    case RowwiseKind::gelu: return launch<Gelu>(beside, b.y, n, stream);
    case RowwiseKind::relu: return launch<device::Relu>(beside, b.y, n, stream);
    case RowwiseKind::sigmoid: return launch<device::Sigmoid>(beside, b.y, n, stream);
    case RowwiseKind::squared_relu: return launch<device::SquaredRelu>(beside, b.y, n, stream);
    case RowwiseKind::swiglu: return launch<device::Swiglu>(halves, b.y, n, stream);
    default: throw NotModelled(std::string(name(s.kind)) + ": no kernel of ours");
  }
}

}  // namespace

void launch_flat(const Rowwise& s, const RowwiseBuffers& b, StreamHandle handle) {
  auto* stream = static_cast<cudaStream_t>(handle);
  // these move 16 bits as they are
  if (s.kind == RowwiseKind::transpose_copy) return launch_transpose(s, b.x, b.y, handle);
  if (s.kind == RowwiseKind::copy) {
    const auto* x = static_cast<const bf16*>(b.x);
    return launch<device::Copy>(device::Layout<bf16>{x, nullptr, 0, device::Divider(1)}, b.y, s.rows * s.cols, stream);
  }
  if (s.input == DType::fp16) launch_flat_of<__half>(s, b, stream);
  else launch_flat_of<bf16>(s, b, stream);
}

KernelPlan embedding_plan(const Embedding& s) {
  KernelPlan p;
  const bool whole = s.cols % kVector == 0;
  p.ctas = whole ? ctas_for(s.rows * s.cols / kVector, gather_vecs(s) * kGatherThreads) : ctas_for(s.rows * s.cols);
  p.threads = whole ? kGatherThreads : kFlatThreads;
  return p;
}

void launch_embedding(const Embedding& s, const void* table, const std::int32_t* ids, void* y, StreamHandle handle) {
  // rows are moved as they are: any 16-bit type
  if (s.dtype != DType::bf16 && s.dtype != DType::fp16) throw NotModelled("embedding: our kernel is for bf16 and fp16");
  auto* stream = static_cast<cudaStream_t>(handle);
  const std::int64_t n = s.rows * s.cols;
  const auto ctas = static_cast<unsigned>(embedding_plan(s).ctas);
  if (s.cols % kVector != 0) {
    device::gather_elements<<<ctas, kFlatThreads, 0, stream>>>(
        static_cast<const bf16*>(table), ids, static_cast<bf16*>(y), n, static_cast<std::uint32_t>(s.cols));
  } else {
    if (n / kVector > kMostVectors) throw NotModelled("embedding: our kernel takes up to 2^31 vectors");
    const auto kernel = gather_vecs(s) == 1 ? device::gather_rows<1> : device::gather_rows<kGatherVecs>;
    kernel<<<ctas, kGatherThreads, 0, stream>>>(static_cast<const uint4*>(table), ids, static_cast<uint4*>(y),
                                                static_cast<std::uint32_t>(n / kVector),
                                                device::Divider(s.cols / kVector));
  }
  PLUMBLINE_CUDA_CHECK(cudaGetLastError());
}

}  // namespace plumbline
