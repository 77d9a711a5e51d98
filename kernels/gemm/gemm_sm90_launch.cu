#include "kernels/gemm/gemm_sm90_launch.cuh"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <string>

#include "kernels/common/cuda_check.hpp"
#include "kernels/common/tensor_map.cuh"

namespace plumbline::sm90 {
namespace {

using device::sm90::GemmMaps;
using device::sm90::GemmWork;

/// The counters of split tiles live here because they must be zero before a launch; a kernel leaves them so. Launches
/// take turns: kTurns of them may run at once, captured ones too.
constexpr int kTurns = 64, kCounters = 8192;
__device__ unsigned split_counters[kTurns][kCounters];

unsigned* next_counters() {
  static std::atomic<unsigned> turn{0};
  void* base = nullptr;
  PLUMBLINE_CUDA_CHECK(cudaGetSymbolAddress(&base, split_counters));
  return static_cast<unsigned*>(base) + std::size_t{turn++ % kTurns} * kCounters;
}

/// The swizzle that spans a box's row.
CUtensorMapSwizzle swizzle_of(std::int64_t row_bytes) {
  if (row_bytes == 128) return CU_TENSOR_MAP_SWIZZLE_128B;
  return row_bytes == 64 ? CU_TENSOR_MAP_SWIZZLE_64B : CU_TENSOR_MAP_SWIZZLE_NONE;
}

/// A row-major [batch, rows, cols] tensor.
struct Tensor {
  const void* data = nullptr;
  std::int64_t batch = 1, rows = 0, cols = 0;
};

CUtensorMapDataType type_of(DType type) {
  if (type == DType::fp32) return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
  if (type == DType::fp16) return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
  return type == DType::fp8 ? CU_TENSOR_MAP_DATA_TYPE_UINT8 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
}

/// In boxes of box_rows x box_cols. L2 fetches what is asked for: promotion to 256 bytes was measured never faster and up
/// to 15 % slower (gemm_sm90.cu).
CUtensorMap tensor_map(const Tensor& t, DType type, int box_rows, int box_cols) {
  const auto u = [](std::int64_t v) { return static_cast<cuuint64_t>(v); };
  const auto element = static_cast<std::int64_t>(bytes_of(type));
  const cuuint64_t sizes[3] = {u(t.cols), u(t.rows), u(t.batch)};
  const cuuint64_t strides[2] = {u(t.cols * element), u(t.rows * t.cols * element)};
  const cuuint32_t box[3] = {static_cast<cuuint32_t>(box_cols), static_cast<cuuint32_t>(box_rows), 1};
  return encode_tensor_map(
      {type_of(type), 3, t.data, sizes, strides, box, swizzle_of(box_cols * element), CU_TENSOR_MAP_L2_PROMOTION_NONE});
}

/// One side's operand: [rows, K] in boxes of `box_rows` rows and a step of K, or, K outside, [K, rows] in boxes of 64 x 64.
CUtensorMap operand_map(const void* data, const Gemm& shape, std::int64_t rows, bool outside, int box_rows, int step) {
  constexpr int kBox = device::sm90::kOutsideBox;
  const DType type = shape.precision.math;
  if (outside) return tensor_map({data, shape.batch, shape.k, rows}, type, kBox, kBox);
  return tensor_map({data, shape.batch, rows, shape.k}, type, box_rows, step);
}

std::int64_t tiles_of(std::int64_t n, std::int64_t tile) { return (n + tile - 1) / tile; }

struct Sides {
  std::int64_t rows = 0, cols = 0;
};
Sides sides(const Gemm& shape, bool swapped) { return swapped ? Sides{shape.n, shape.m} : Sides{shape.m, shape.n}; }

/// CTAs that the device runs at once, whole clusters.
int slots_of(const GemmEntry& e) {
  int device = 0, sms = 0;
  PLUMBLINE_CUDA_CHECK(cudaGetDevice(&device));
  PLUMBLINE_CUDA_CHECK(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device));
  return sms * e.ctas_per_sm / e.cluster * e.cluster;
}

/// Tiles are counted in clusters here.
struct Shares {
  std::int64_t tiles = 0, shared = 0, splits = 1;
  std::int64_t units() const { return tiles + shared * (splits - 1); }
};
Shares shares_of(const GemmEntry& e, const Gemm& shape, const GemmCut& cut, std::int64_t slots) {
  const Sides s = sides(shape, cut.swapped);
  Shares out;
  out.tiles = tiles_of(s.rows, std::int64_t{e.rows} * e.cluster) * tiles_of(s.cols, e.cols) * shape.batch;
  if (cut.splits > 1) {
    out.shared = out.tiles;
    out.splits = cut.splits;
  } else if (cut.splits == 0) {
    // Whoever adds up the parts reads rows * cols * 4 bytes of each at about 64 bytes a clock: as long as two steps
    // take the tensor cores. So steps / splits + 2 splits is least at sqrt(steps / 2).
    const std::int64_t clusters = slots / e.cluster, left = out.tiles % clusters;
    const auto best = static_cast<std::int64_t>(std::sqrt(tiles_of(shape.k, e.step_elements) / 2.0));
    const std::int64_t most = left == 0 ? 1 : std::min(clusters / left, best);
    if (most > 1) {
      out.shared = left;
      out.splits = most;
    }
  }
  return out;
}

GemmWork work_of(const GemmEntry& e, const Gemm& shape, const GemmCut& cut, const GemmBuffers& buffers, int slots) {
  const Sides s = sides(shape, cut.swapped);
  const Shares shares = shares_of(e, shape, cut, slots);
  GemmWork w;
  w.row_tiles = static_cast<int>(tiles_of(s.rows, std::int64_t{e.rows} * e.cluster)) * e.cluster;
  w.col_tiles = static_cast<int>(tiles_of(s.cols, e.cols));
  w.rows = cut.clipped ? static_cast<int>(s.rows) : w.row_tiles * e.rows;
  w.cols = cut.clipped ? static_cast<int>(s.cols) : w.col_tiles * e.cols;
  w.batch = static_cast<int>(shape.batch);
  w.steps = static_cast<int>(tiles_of(shape.k, e.step_elements));
  w.shared = static_cast<int>(shares.shared);
  w.splits = static_cast<int>(shares.splits);
  // as many rows as columns of y in flight at a time: the least traffic from L2's point of view
  const double square = std::sqrt(static_cast<double>(slots) * e.cols / e.rows);
  w.band = std::max(1, static_cast<int>(std::lround(square / e.cluster)));
  w.swapped = cut.swapped ? 1 : 0;
  w.add = shape.accumulate ? 1 : 0;
  w.scale = buffers.scale;
  if (shares.shared > 0) {
    w.partials = static_cast<float*>(buffers.workspace);
    w.counters = next_counters();
  }
  return w;
}

/// Of both operands, whole boxes and what is left over behind them, and of the result.
GemmMaps maps_of(const GemmEntry& e, const Gemm& shape, const GemmCut& cut, const GemmBuffers& buffers) {
  const Sides s = sides(shape, cut.swapped);
  const auto row_map = [&](int box) {
    return operand_map(cut.swapped ? buffers.w : buffers.x, shape, s.rows, e.rows_outside, box, e.step_elements);
  };
  const auto col_map = [&](int box) {
    return operand_map(cut.swapped ? buffers.x : buffers.w, shape, s.cols, e.cols_outside, box, e.step_elements);
  };
  const int col_box = e.cols / e.cluster;
  const int last_rows = static_cast<int>(s.rows % e.rows), last_cols = static_cast<int>(s.cols % col_box);
  constexpr int kGroupRows = 64;
  GemmMaps maps{};
  maps.rows = row_map(e.rows);
  maps.cols = col_map(col_box);
  maps.last_rows = last_rows > 0 ? row_map(last_rows) : maps.rows;
  maps.last_cols = last_cols > 0 ? col_map(last_cols) : maps.cols;
  maps.out = tensor_map({buffers.y, shape.batch, shape.m, shape.n}, shape.precision.output,
                        cut.swapped ? e.chunk : kGroupRows, cut.swapped ? kGroupRows : e.chunk);
  return maps;
}

}  // namespace

bool gemm_can_share(const GemmEntry& e, const Gemm& shape, const GemmCut& cut) {
  return shares_of(e, shape, cut, slots_of(e)).shared * e.cluster * (e.rows / 64) <= kCounters;
}

std::size_t gemm_partial_bytes(const GemmEntry& e, const Gemm& shape, const GemmCut& cut) {
  const Shares shares = shares_of(e, shape, cut, slots_of(e));
  return static_cast<std::size_t>(shares.shared * shares.splits * e.cluster * e.rows * e.cols) * sizeof(float);
}

void launch_gemm_entry(const GemmEntry& e, const Gemm& shape, const GemmCut& cut, const GemmBuffers& buffers,
                       StreamHandle stream) {
  const GemmMaps maps = maps_of(e, shape, cut, buffers);
  PLUMBLINE_CUDA_CHECK(cudaFuncSetAttribute(e.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, e.shared_bytes));
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {static_cast<unsigned>(e.cluster), 1, 1};
  cudaLaunchConfig_t config{};
  config.blockDim = dim3(static_cast<unsigned>(e.threads));
  config.dynamicSmemBytes = static_cast<std::size_t>(e.shared_bytes);
  config.stream = static_cast<cudaStream_t>(stream);
  config.attrs = &cluster;
  config.numAttrs = e.cluster > 1 ? 1 : 0;
  const int slots = slots_of(e);
  const std::int64_t units = shares_of(e, shape, cut, slots).units();
  const std::int64_t clusters = std::min<std::int64_t>(units, slots / e.cluster);
  config.gridDim = dim3(static_cast<unsigned>(clusters * e.cluster));
  const GemmWork work = work_of(e, shape, cut, buffers, slots);
  PLUMBLINE_CUDA_CHECK(cudaLaunchKernelEx(&config, e.kernel, maps, work));
}

}  // namespace plumbline::sm90
