// Operators that treat each element alone (copy, add, silu, gelu, swiglu), and embedding, which is a copy by rows.
//
// Variants: 2 vectors of 16 bytes a thread, all loads before the first store; 1 vector where that would leave SMs idle.
// The last n mod 8 elements go one by one, as does everything whose rows are not whole vectors.
#include "kernels/flat.cuh"

#include <string>

#include "kernels/cuda_check.hpp"
#include "kernels/vector.cuh"

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
/// x / (1 + e^-x); for very negative x the divisor is infinite or too large for the fast division: 0 either way.
struct Silu {
  static constexpr int kInputs = 1;
  static __device__ float f(float x, float) { return __fdividef(x, 1.0F + __expf(-x)); }
};
/// x Phi(x), Phi by Abramowitz and Stegun 7.1.26 (error of erf below 1.5e-7): erff() costs so many instructions that
/// the card runs into its power cap (seen: 1.62 GHz and 2.9 TB/s on an H200, against 4.0 TB/s of a copy).
struct Gelu {
  static constexpr int kInputs = 1;
  static __device__ float f(float x, float) {
    const float z = fabsf(x) * 0.70710678118654752F;
    const float t = __fdividef(1.0F, 1.0F + 0.3275911F * z);
    const float poly =
        t * (0.254829592F + t * (-0.284496736F + t * (1.421413741F + t * (-1.453152027F + t * 1.061405429F))));
    const float tail = 0.5F * x * poly * __expf(-z * z);  // x Phi(-|x|)
    return x > 0 ? x - tail : tail;
  }
};
struct Swiglu {
  static constexpr int kInputs = 2;
  static __device__ float f(float gate, float up) { return Silu::f(gate, 0) * up; }
};

/// Where element i of the first and second input is: side by side arrays (`width` 0), or rows of [gate | up].
struct Layout {
  const bf16* first;
  const bf16* second;
  std::uint32_t width;  // elements a row of one half

  __device__ std::int64_t at(std::int64_t i) const {
    if (width == 0) return i;
    const std::int64_t row = i / width;
    return i + row * width;
  }
};

template <class Op, int kVecs>
__global__ void __launch_bounds__(kFlatThreads) flat(Layout in, bf16* y, std::int64_t vectors) {
  const std::int64_t start = (std::int64_t{blockIdx.x} * kVecs) * kFlatThreads + threadIdx.x;
  uint4 a[kVecs], b[kVecs];
#pragma unroll
  for (int i = 0; i < kVecs; ++i) {
    const std::int64_t v = start + std::int64_t{i} * kFlatThreads;
    if (v >= vectors) continue;
    const std::int64_t at = in.at(v * kVector);
    a[i] = load_once(in.first + at);
    if constexpr (Op::kInputs == 2) b[i] = load_once(in.second + at);
  }
#pragma unroll
  for (int i = 0; i < kVecs; ++i) {
    const std::int64_t v = start + std::int64_t{i} * kFlatThreads;
    if (v >= vectors) continue;
    float x[kVector], z[kVector] = {};
    unpack(a[i], x);
    if constexpr (Op::kInputs == 2) unpack(b[i], z);
#pragma unroll
    for (int j = 0; j < kVector; ++j) x[j] = Op::f(x[j], z[j]);
    store_once(y + v * kVector, pack(x));
  }
}

/// Elements [begin, end), one a thread.
template <class Op>
__global__ void __launch_bounds__(kFlatThreads) flat_single(Layout in, bf16* y, std::int64_t begin, std::int64_t end) {
  const std::int64_t i = begin + std::int64_t{blockIdx.x} * kFlatThreads + threadIdx.x;
  if (i >= end) return;
  const std::int64_t at = in.at(i);
  const float second = Op::kInputs == 2 ? __bfloat162float(in.second[at]) : 0.0F;
  y[i] = __float2bfloat16_rn(Op::f(__bfloat162float(in.first[at]), second));
}

/// Vector v of the result is vector v mod width of row ids[v / width]. Loads first.
template <int kVecs>
__global__ void __launch_bounds__(kFlatThreads)
    gather_rows(const uint4* table, const std::int32_t* ids, uint4* y, std::int64_t vectors, std::uint32_t width) {
  const std::int64_t start = (std::int64_t{blockIdx.x} * kVecs) * kFlatThreads + threadIdx.x;
  uint4 a[kVecs];
#pragma unroll
  for (int i = 0; i < kVecs; ++i) {
    const std::int64_t v = start + std::int64_t{i} * kFlatThreads;
    if (v >= vectors) continue;
    const std::int64_t row = v / width;
    a[i] = __ldg(table + std::int64_t{ids[row]} * width + (v - row * width));
  }
#pragma unroll
  for (int i = 0; i < kVecs; ++i) {
    const std::int64_t v = start + std::int64_t{i} * kFlatThreads;
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
using device::Layout;

constexpr int kManyVecs = 2;  // of 1, 2, 4, 8: fewer write faster, more read faster (probe `dram_copy_B_per_s`)
constexpr std::int64_t kEnoughCtas = 2 * 132;  // fewer and half of an H200 would idle: one vector a thread then

std::int64_t ctas_for(std::int64_t items, int each) {
  const std::int64_t per_cta = std::int64_t{kFlatThreads} * each;
  return (items + per_cta - 1) / per_cta;
}
int vectors_each(std::int64_t vectors) { return ctas_for(vectors, kManyVecs) >= kEnoughCtas ? kManyVecs : 1; }

template <class Op>
void launch(const Layout& in, void* out, std::int64_t n, std::int64_t vectors, cudaStream_t stream) {
  auto* y = static_cast<bf16*>(out);
  const int each = vectors_each(vectors);
  const auto ctas = static_cast<unsigned>(ctas_for(vectors, each));
  if (vectors > 0 && each == 1) device::flat<Op, 1><<<ctas, kFlatThreads, 0, stream>>>(in, y, vectors);
  if (vectors > 0 && each != 1) device::flat<Op, kManyVecs><<<ctas, kFlatThreads, 0, stream>>>(in, y, vectors);
  const std::int64_t done = vectors * kVector;
  if (done < n) {
    const auto rest = static_cast<unsigned>(ctas_for(n - done, 1));
    device::flat_single<Op><<<rest, kFlatThreads, 0, stream>>>(in, y, done, n);
  }
}

}  // namespace

KernelPlan flat_plan(const Rowwise& s) {
  if (s.kind == RowwiseKind::transpose_copy) return transpose_plan(s);
  KernelPlan p;
  const std::int64_t vectors = s.rows * s.cols / kVector;
  p.ctas = ctas_for(vectors, vectors_each(vectors));
  p.threads = kFlatThreads;
  return p;
}

void launch_flat(const Rowwise& s, const RowwiseBuffers& b, StreamHandle handle) {
  auto* stream = static_cast<cudaStream_t>(handle);
  const std::int64_t n = s.rows * s.cols;
  const auto* x = static_cast<const bf16*>(b.x);
  const auto* second = static_cast<const bf16*>(b.second);
  switch (s.kind) {
    case RowwiseKind::copy: return launch<device::Copy>({x, nullptr, 0}, b.y, n, n / kVector, stream);
    case RowwiseKind::add: return launch<device::Sum>({x, second, 0}, b.y, n, n / kVector, stream);
    case RowwiseKind::silu: return launch<device::Silu>({x, nullptr, 0}, b.y, n, n / kVector, stream);
    case RowwiseKind::gelu: return launch<device::Gelu>({x, nullptr, 0}, b.y, n, n / kVector, stream);
    case RowwiseKind::swiglu: {
      const Layout halves{x, x + s.cols, static_cast<std::uint32_t>(s.cols)};
      return launch<device::Swiglu>(halves, b.y, n, s.cols % kVector == 0 ? n / kVector : 0, stream);
    }
    case RowwiseKind::transpose_copy: return launch_transpose(s, b.x, b.y, handle);
    default: throw NotModelled(std::string(name(s.kind)) + ": no kernel of ours");
  }
}

void launch_embedding(const Embedding& s, const void* table, const std::int32_t* ids, void* y, StreamHandle handle) {
  if (s.dtype != DType::bf16) throw NotModelled("embedding: our kernel is for bf16");
  auto* stream = static_cast<cudaStream_t>(handle);
  const std::int64_t n = s.rows * s.cols;
  const auto width = static_cast<std::uint32_t>(s.cols);
  if (s.cols % kVector != 0) {
    device::gather_elements<<<static_cast<unsigned>(ctas_for(n, 1)), kFlatThreads, 0, stream>>>(
        static_cast<const bf16*>(table), ids, static_cast<bf16*>(y), n, width);
  } else {
    const std::int64_t vectors = n / kVector;
    const int each = vectors_each(vectors);
    const auto ctas = static_cast<unsigned>(ctas_for(vectors, each));
    const auto* from = static_cast<const uint4*>(table);
    auto* to = static_cast<uint4*>(y);
    if (each == 1) {
      device::gather_rows<1><<<ctas, kFlatThreads, 0, stream>>>(from, ids, to, vectors, width / kVector);
    } else {
      device::gather_rows<kManyVecs><<<ctas, kFlatThreads, 0, stream>>>(from, ids, to, vectors, width / kVector);
    }
  }
  PLUMBLINE_CUDA_CHECK(cudaGetLastError());
}

}  // namespace plumbline
