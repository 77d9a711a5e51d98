// Every operator over a grid of shapes, cold. The grid is one list for all; which of its rows may be fitted and which
// are held out is decided afterwards, by shape (tools/measurement_csv.py).
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cmath>
#include <functional>
#include <string>

#include "kernels/cases.hpp"
#include "kernels/launch.hpp"
#include "kernels/measure.cuh"

namespace plumbline {
namespace {

constexpr std::size_t kArena = std::size_t{5} << 30;  // of inputs, and of outputs
constexpr std::size_t kTable = std::size_t{2} << 30;  // an embedding table, about 128 Ki x 8192
constexpr std::int64_t kIds = 1 << 22, kPositions = 1 << 17;
constexpr std::int64_t kMaxCols = 1 << 18;
constexpr double kColdL2s = 3.2;        // slots of a shape together, over the L2
constexpr double kGraphSeconds = 4e-3;  // about what one replay should take, so that its edges do not count
constexpr int kMaxLaunches = 16384;

__device__ float normal(unsigned long long i) {
  unsigned long long z = (i + 1) * 0x9e3779b97f4a7c15ULL;  // splitmix64, then Box-Muller
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  z ^= z >> 31;
  const float u = (static_cast<float>(z >> 40) + 0.5F) * 0x1p-24F;
  const float angle = static_cast<float>(z & 0xffffffU) * 0x1p-24F;
  return sqrtf(-2.0F * logf(u)) * cospif(2.0F * angle);
}

__global__ void fill_normal(__nv_bfloat16* x, std::size_t n, unsigned long long seed) {
  const std::size_t stride = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += stride) {
    x[i] = __float2bfloat16_rn(normal(i ^ (seed << 40)));
  }
}

__global__ void fill_ids(std::int32_t* ids, std::int64_t n) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const unsigned long long z = (static_cast<unsigned long long>(i) + 7) * 0xbf58476d1ce4e5b9ULL;
  ids[i] = static_cast<std::int32_t>((z ^ (z >> 31)) >> 33);  // reduced to the table's rows by limit_ids
}

__global__ void limit_ids(const std::int32_t* random, std::int32_t* ids, std::int64_t n, std::int32_t rows) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < n) ids[i] = random[i] % rows;
}

__global__ void fill_positions(std::int32_t* positions, std::int64_t n) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < n) positions[i] = static_cast<std::int32_t>(i % 8192);
}

struct Memory {
  const DeviceBuffer in{kArena}, out{kArena}, weight{kMaxCols * 2}, bias{kMaxCols * 2};
  const DeviceBuffer random_ids{kIds * 4}, ids{kIds * 4}, positions{kPositions * 4}, frequency{1024};
  const DeviceBuffer scratch{sum_all_scratch_bytes()};

  explicit Memory(cudaStream_t s) {
    unsigned long long seed = 1;
    for (const DeviceBuffer* b : {&in, &out, &weight, &bias}) {
      fill_normal<<<2048, 256, 0, s>>>(b->as<__nv_bfloat16>(), b->bytes() / 2, seed++);
    }
    fill_ids<<<kIds / 256, 256, 0, s>>>(random_ids.as<std::int32_t>(), kIds);
    fill_positions<<<kPositions / 256, 256, 0, s>>>(positions.as<std::int32_t>(), kPositions);
    PLUMBLINE_CUDA_CHECK(cudaMemsetAsync(scratch.as(), 0, scratch.bytes(), s));
    PLUMBLINE_CUDA_CHECK(cudaGetLastError());
  }
};

/// One slot of a shape: where a launch reads and writes.
struct Slot {
  char* in;
  char* out;
  std::int64_t index;
};

struct Job {
  std::string op, shape, kernel;
  std::size_t in = 0, out = 0;  ///< bytes of a slot in either arena
  double moved = 0;             ///< bytes that a launch must move
  std::function<void(const Slot&, cudaStream_t)> launch;
};

std::size_t aligned(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

std::string plan_text(const Rowwise& s) {
  const KernelPlan p = rowwise_plan(s);
  return "own ctas=" + std::to_string(p.ctas) + " threads=" + std::to_string(p.threads);
}

Job rowwise_job(const Rowwise& s, const Memory& m) {
  const auto n = static_cast<std::size_t>(s.rows * s.cols), rows = static_cast<std::size_t>(s.rows);
  const bool one_each = s.kind == RowwiseKind::sum_rows || s.kind == RowwiseKind::argmax;
  const std::size_t x = aligned(n * (s.kind == RowwiseKind::swiglu ? 4 : 2));
  const std::size_t second = s.residual || s.kind == RowwiseKind::add ? n * 2 : 0;
  const std::size_t y = one_each ? rows * (s.kind == RowwiseKind::argmax ? 4 : 2) : n * 2;
  Job j;
  j.op = name(s.kind);
  j.shape = "rows=" + std::to_string(s.rows) + ";cols=" + std::to_string(s.cols) + (s.residual ? ";residual=1" : "");
  j.kernel = plan_text(s);
  j.in = x + aligned(second);
  j.out = aligned(y) + (s.residual ? aligned(n * 2) : 0);
  j.moved = static_cast<double>(n * (s.kind == RowwiseKind::swiglu ? 4 : 2) + second + y + (s.residual ? n * 2 : 0));
  j.launch = [=, &m](const Slot& slot, cudaStream_t stream) {
    launch_rowwise(s, {slot.in, slot.in + x, m.weight.as(), m.bias.as(), slot.out, slot.out + aligned(y)}, stream);
  };
  return j;
}

/// In place, in the arena of outputs.
Job rope_job(const Rope& s, const Memory& m) {
  Job j;
  j.op = "rope";
  j.shape =
      "tokens=" + std::to_string(s.tokens) + ";heads=" + std::to_string(s.heads) + ";D=" + std::to_string(s.head_dim);
  j.kernel = "own ctas=" + std::to_string(s.tokens) + " threads=256";
  j.out = aligned(static_cast<std::size_t>(s.tokens * s.heads * s.head_dim) * 2);
  j.moved = 4.0 * static_cast<double>(s.tokens * s.heads * s.head_dim) + 4.0 * static_cast<double>(s.tokens);
  j.launch = [=, &m](const Slot& slot, cudaStream_t stream) {
    launch_rope(s, slot.out, m.positions.as<std::int32_t>(), m.frequency.as<float>(), stream);
  };
  return j;
}

/// Every slot has rows of its own, all of one table.
Job embedding_job(const Embedding& s, const Memory& m) {
  Job j;
  j.op = "embedding";
  j.shape = "rows=" + std::to_string(s.rows) + ";cols=" + std::to_string(s.cols);
  j.kernel = "own threads=256";
  j.out = aligned(static_cast<std::size_t>(s.rows * s.cols) * 2);
  j.moved = 4.0 * static_cast<double>(s.rows * s.cols) + 4.0 * static_cast<double>(s.rows);
  j.launch = [=, &m](const Slot& slot, cudaStream_t stream) {
    const std::int64_t choices = kIds / s.rows;
    const std::int32_t* ids = m.ids.as<std::int32_t>() + slot.index % choices * s.rows;
    launch_embedding(s, m.in.as(), ids, slot.out, stream);
  };
  return j;
}

Job sum_all_job(std::int64_t n, const Memory& m) {
  Job j;
  j.op = "sum_all";
  j.shape = "n=" + std::to_string(n);
  j.kernel = "own threads=512";
  j.in = aligned(static_cast<std::size_t>(n) * 2);
  j.out = 256;
  j.moved = 2.0 * static_cast<double>(n) + 4.0;
  j.launch = [=, &m](const Slot& slot, cudaStream_t stream) {
    launch_sum_all({ScanKind::sum_all, n, DType::bf16}, slot.in, reinterpret_cast<float*>(slot.out),
                   m.scratch.as<void>(), stream);
  };
  return j;
}

double mean(const std::vector<double>& v) {
  double sum = 0;
  for (const double x : v) sum += x;
  return v.empty() ? 0 : sum / static_cast<double>(v.size());
}

/// Readings of the second half of a run, once the clock has followed the load.
double settled(const std::vector<double>& v) {
  return mean({v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2), v.end()});
}

Timing time_job(const Job& j, const Memory& m, const Board& board, double l2, int samples, cudaStream_t s) {
  const double slot_bytes = static_cast<double>(j.in + j.out);
  const double fit = std::min(static_cast<double>(kArena / std::max<std::size_t>(j.in, 1)),
                              static_cast<double>(kArena / std::max<std::size_t>(j.out, 1)));
  const auto slots = static_cast<std::int64_t>(
      std::min({std::max(2.0, std::ceil(kColdL2s * l2 / slot_bytes)), fit, static_cast<double>(kMaxLaunches)}));
  const double guess = 1.5e-6 + j.moved / 4e12;
  const double rounds = std::max(1.0, std::ceil(kGraphSeconds / guess / static_cast<double>(slots)));
  const auto launches = slots * static_cast<std::int64_t>(rounds);
  const Graph graph(s, [&] {
    for (std::int64_t i = 0; i < launches; ++i) {
      const std::int64_t k = i % slots;
      const auto at = static_cast<std::size_t>(k);
      j.launch({m.in.as() + at * j.in, m.out.as() + at * j.out, k}, s);
    }
  });
  std::vector<double> clock, power;
  std::vector<double> seconds = time_each(
      s, 2, samples, [&] { graph.launch(s); },
      [&] {
        clock.push_back(board.sm_clock_MHz());
        power.push_back(board.power_W());
      });
  for (double& t : seconds) t /= static_cast<double>(launches);
  Timing t{j.op, "bf16", j.shape, j.kernel, spread(seconds)};
  t.launches = static_cast<double>(launches);
  t.sm_clock_MHz = settled(clock);
  t.power_W = settled(power);
  t.bytes = j.moved;
  return t;
}

const std::vector<std::pair<int, int>> kGrid = {
    {1, 4096},     {1, 8192},    {4, 5120},     {8, 14336},    {16, 4096},   {24, 3584},    {32, 8192},   {64, 2880},
    {128, 4096},   {256, 7168},  {333, 5000},   {512, 4096},   {768, 768},   {1000, 3072},  {1024, 8192}, {2048, 5120},
    {2048, 16384}, {3000, 2560}, {4096, 1024},  {4096, 4096},  {4096, 8192}, {7000, 6144},  {8192, 2048}, {8192, 7168},
    {16384, 4096}, {16384, 512}, {32768, 1536}, {65536, 1024}, {64, 128256}, {1024, 32768}, {65536, 8192}};

const std::vector<Rope> kRopes = {
    {1, 32, 128},    {8, 40, 128},     {16, 128, 64},    {32, 32, 128},    {64, 8, 128},    {128, 40, 128},
    {256, 64, 128},  {333, 24, 96},    {512, 32, 128},   {1000, 16, 64},   {1024, 40, 128}, {2048, 36, 128},
    {2048, 12, 64},  {3000, 96, 192},  {4096, 40, 128},  {4096, 72, 128},  {5000, 28, 128}, {8192, 32, 64},
    {8192, 40, 128}, {16384, 16, 256}, {16384, 40, 128}, {32768, 36, 128}, {65536, 10, 128}};

const std::vector<std::int64_t> kSums = {
    1000,     4096,     65536,    100000,   262144,   777777,   1000000,   1048576,   3000000,   4194304,   6000000,
    10000000, 12345678, 16777216, 30000000, 33333333, 67108864, 100000000, 200000000, 268435456, 500000000, 536870912};

/// The inverse frequencies of a rope of this width, base 10000, and ids within this width's table.
void prepare_rope(const Rope& r, const Memory& m, cudaStream_t s) {
  std::vector<float> f;
  for (std::int64_t i = 0; i < r.head_dim / 2; ++i) {
    f.push_back(static_cast<float>(std::pow(10000.0, -2.0 * static_cast<double>(i) / static_cast<double>(r.head_dim))));
  }
  PLUMBLINE_CUDA_CHECK(cudaMemcpyAsync(m.frequency.as(), f.data(), f.size() * 4, cudaMemcpyHostToDevice, s));
  PLUMBLINE_CUDA_CHECK(cudaStreamSynchronize(s));
}

void prepare_embedding(const Embedding& e, const Memory& m, cudaStream_t s) {
  const auto rows = static_cast<std::int32_t>(kTable / (2 * static_cast<std::size_t>(e.cols)));
  limit_ids<<<kIds / 256, 256, 0, s>>>(m.random_ids.as<std::int32_t>(), m.ids.as<std::int32_t>(), kIds, rows);
  PLUMBLINE_CUDA_CHECK(cudaGetLastError());
}

}  // namespace

std::vector<Timing> time_kernels(const Board& board, int samples) {
  const Stream s;
  const Memory m(s);
  int l2 = 0;
  PLUMBLINE_CUDA_CHECK(cudaDeviceGetAttribute(&l2, cudaDevAttrL2CacheSize, 0));
  std::vector<Timing> out;
  const auto run = [&](const Job& j) { out.push_back(time_job(j, m, board, l2, samples, s)); };
  for (const Rope& r : kRopes) {  // first: in place, on values that no other operator has written yet
    prepare_rope(r, m, s);
    run(rope_job(r, m));
  }
  using K = RowwiseKind;
  for (const K kind : {K::copy, K::add, K::silu, K::gelu, K::swiglu, K::transpose_copy, K::rmsnorm, K::layernorm,
                       K::softmax, K::sum_rows, K::argmax}) {
    for (const auto& [rows, cols] : kGrid) run(rowwise_job({kind, rows, cols}, m));
  }
  for (const auto& [rows, cols] : kGrid) run(rowwise_job({K::rmsnorm, rows, cols, true}, m));
  for (const auto& [rows, cols] : kGrid) {
    prepare_embedding({rows, cols}, m, s);
    run(embedding_job({rows, cols}, m));
  }
  for (const std::int64_t n : kSums) run(sum_all_job(n, m));
  return out;
}

}  // namespace plumbline
