// The k largest elements of each row with their columns, largest first, ties by lower column: of the row as it is, or
// of its softmax.
//
// Every element is read once, into registers (row.cuh), and travels as one integer that orders as (value, then lower
// column), so that there are no ties. Selection needs no sort:
//   1. 128 groups of threads find their largest element each. The k-th largest of these is a threshold that at least k
//      elements reach, and on shuffled data few more: about 90 for k = 64.
//   2. A thread whose element reaches the threshold writes it to shared memory, where it counts how many are larger:
//   that
//      count is its rank.
//   3. The CTAs of a cluster send their k to the first, which merges the sorted lists by binary search.
// In rows of up to 1024 columns with a small k, a warp takes its largest element out k times. A row built so that one
// group has most of the largest elements overflows step 2 and takes a slow path (the largest, k times).
// Variants and their figures: docs/lab/topk.md.
#include <iterator>
#include <string>

#include "kernels/common/launch.hpp"
#include "kernels/rows/row_menu.cuh"
#include "kernels/rows/row_ops.cuh"

namespace plumbline {
namespace device {

struct TopKArgs {
  const bf16* x;
  bf16* values;
  std::int32_t* indices;
  std::int64_t rows;
  int cols, k;
};

constexpr int kGroups = 128, kMostK = 64, kMostCandidates = 1024;
constexpr std::uint32_t kLeastKey = 0x007f0000U;  ///< of minus infinity in the last column

/// Value in the upper half, so that integers order as values do; columns count down from 0xffff below it. 0: none.
__device__ inline std::uint32_t key_of(float x, int column) {
  return (ordered(x) & 0xffff0000U) | (0xffffU - static_cast<std::uint32_t>(column));
}
__device__ inline float value_of(std::uint32_t key) {
  const std::uint32_t b = key & 0xffff0000U;
  return __uint_as_float((b & 0x80000000U) != 0 ? b & 0x7fff0000U : ~b & 0xffff0000U);
}
__device__ inline int column_of(std::uint32_t key) { return static_cast<int>(0xffffU - (key & 0xffffU)); }

/// How a selected element is written: as it is, or as its share of the row's softmax.
struct Scaling {
  float shift = 0, scale = 1;
  bool softmax = false;

  __device__ void write(const TopKArgs& a, std::int64_t r, int rank, float x, int column) const {
    const float y = softmax ? exp2_approx(x * kLog2E - shift) * scale : x;
    a.values[r * a.k + rank] = __float2bfloat16_rn(y);
    a.indices[r * a.k + rank] = column;
  }
};

/// Over the whole row; every thread of the team must call it.
template <class Group, class Row>
__device__ Scaling softmax_scaling(const Row& row, float own_largest) {
  const float largest = own_largest * kLog2E, base = largest == -INFINITY ? 0.0F : largest;
  float sum = 0;
  row.for_each([&](float x) { sum += exp2_approx(x * kLog2E - base); });
  const float2 all = Group::reduce(make_float2(largest, sum), make_float2(-INFINITY, 0), MergeSoftmax{});
  return {all.x, 1.0F / all.y, true};
}

// --- a warp a row ----------------------------------------------------------------------------------------------------

template <class Row, int kVecs>
__device__ void select_in_warp(const Row& row, const TopKArgs& a, std::int64_t r, const Scaling& scaling) {
  std::uint32_t keys[kVecs * kVector], largest = 0, selected = 0;
#pragma unroll
  for (int i = 0; i < kVecs; ++i) {
    float x[kVector];
    unpack(row.held[i], x);
#pragma unroll
    for (int j = 0; j < kVector; ++j) {
      keys[i * kVector + j] = row.has(i, j) ? key_of(x[j], row.column(i, j)) : 0;
      largest = max(largest, keys[i * kVector + j]);
    }
  }
  const auto lane = static_cast<int>(threadIdx.x % kWarp);
  for (int rank = 0; rank < a.k; ++rank) {
    const std::uint32_t winner = __reduce_max_sync(~0U, largest);
    if (lane == rank % kWarp) selected = winner;
    if (largest == winner) {
      largest = 0;
#pragma unroll
      for (std::uint32_t& key : keys) {
        if (key == winner) key = 0;
        largest = max(largest, key);
      }
    }
    if (rank % kWarp == kWarp - 1 || rank == a.k - 1) {
      const int own = rank / kWarp * kWarp + lane;
      if (own <= rank) scaling.write(a, r, own, value_of(selected), column_of(selected));
    }
  }
}

// --- a CTA or a cluster a row ----------------------------------------------------------------------------------------

struct Selection {
  __align__(16) std::uint32_t groups[kGroups];
  __align__(16) std::uint32_t candidates[kMostCandidates + 32];  ///< and zeros up to a whole number of shares
  std::uint32_t sorted[kMostK], threshold, winner;
  int found;
};

/// Keys larger than `key` among n, a multiple of 4.
__device__ inline int count_larger(const std::uint32_t* keys, int n, std::uint32_t key) {
  int count = 0;
  for (int i = 0; i < n; i += 4) {
    const uint4 v = *reinterpret_cast<const uint4*>(keys + i);
    count += (v.x > key) + (v.y > key) + (v.z > key) + (v.w > key);
  }
  return count;
}

/// f(key) for every element of the thread whose key is at least `least`.
template <int kVecs, class Row, class F>
__device__ void for_keys_from(const Row& row, std::uint32_t least, F f) {
  const float value = least > kLeastKey ? value_of(least) : -INFINITY;
#pragma unroll
  for (int i = 0; i < kVecs; ++i) {
    if (!(largest_of<bf16>(row.held[i]) >= value)) continue;
    float x[kVector];
    unpack(row.held[i], x);
#pragma unroll
    for (int j = 0; j < kVector; ++j) {
      const std::uint32_t key = row.has(i, j) ? key_of(x[j], row.column(i, j)) : 0;
      if (key >= least) f(key);
    }
  }
}

/// Every key that reaches `threshold` goes to s.candidates, each warp's together. `own`: the thread's largest.
template <int kVecs, class Row>
__device__ void collect(const Row& row, std::uint32_t own, std::uint32_t threshold, Selection& s) {
  if (!__any_sync(~0U, own >= threshold)) return;
  const auto lane = static_cast<int>(threadIdx.x % kWarp);
  int count = 0;
  if (own >= threshold) for_keys_from<kVecs>(row, threshold, [&](std::uint32_t) { ++count; });
  int before = count;
#pragma unroll
  for (int step = 1; step < kWarp; step *= 2) {
    const int other = __shfl_up_sync(~0U, before, step);
    if (lane >= step) before += other;
  }
  int base = 0;
  if (lane == kWarp - 1) base = atomicAdd(&s.found, before);
  int at = __shfl_sync(~0U, base, kWarp - 1) + before - count;
  if (count == 1 && at < kMostCandidates) {
    s.candidates[at] = own;
  } else if (count > 1) {
    for_keys_from<kVecs>(row, threshold, [&](std::uint32_t key) {
      if (at < kMostCandidates) s.candidates[at] = key;
      ++at;
    });
  }
}

/// The slow path: finds the largest element below the last one found, k times.
template <class Group, int kVecs, class Row>
__device__ void select_one_by_one(const Row& row, int k, Selection& s) {
  std::uint32_t last = 0xffffffffU;
  for (int rank = 0; rank < k; ++rank) {
    std::uint32_t best = 0;
    for_keys_from<kVecs>(row, 1U, [&](std::uint32_t key) { best = key < last ? max(best, key) : best; });
    __syncthreads();
    if (threadIdx.x == 0) s.winner = 0;
    __syncthreads();
    best = __reduce_max_sync(~0U, best);
    if (threadIdx.x % kWarp == 0) atomicMax(&s.winner, best);
    __syncthreads();
    last = s.winner;
    if (threadIdx.x == 0) s.sorted[rank] = last;
    if (last == 0) last = 1;  // fewer than k elements here: the rest stays empty
  }
  __syncthreads();
}

/// Leaves the CTA's k largest keys in s.sorted, in order; 0 where there are fewer.
template <class Group, int kVecs, class Row>
__device__ void select_in_cta(const Row& row, std::uint32_t own, int k, Selection& s) {
  constexpr int kEach = Group::kThreads / kGroups;  // threads of a group
  const auto t = static_cast<int>(threadIdx.x);
  if (t == 0) {
    s.threshold = 1;
    s.found = 0;
  }
  if (t < kMostK) s.sorted[t] = 0;
  std::uint32_t group = own;
#pragma unroll
  for (int step = kEach / 2; step > 0; step /= 2) group = max(group, __shfl_xor_sync(~0U, group, step));
  if (t % kEach == 0) s.groups[t / kEach] = group;
  __syncthreads();
  constexpr int kShare = kGroups / kEach;
  int rank = count_larger(s.groups + t % kEach * kShare, kShare, group);
#pragma unroll
  for (int step = kEach / 2; step > 0; step /= 2) rank += __shfl_xor_sync(~0U, rank, step);
  if (t % kEach == 0 && rank == k - 1 && group != 0) s.threshold = group;
  __syncthreads();
  collect<kVecs>(row, own, s.threshold, s);
  __syncthreads();
  constexpr int kPad = kWarp;  // whole shares of whole vectors, and warps that leave the loop together
  const int found = s.found, padded = (found + kPad - 1) / kPad * kPad;
  if (found > kMostCandidates) return select_one_by_one<Group, kVecs>(row, k, s);
  if (t < padded - found) s.candidates[found + t] = 0;
  __syncthreads();
  // as many threads a candidate as a group has
  for (int i = t / kEach; i < padded; i += kGroups) {
    const std::uint32_t key = s.candidates[i];
    const int share = padded / kEach;
    int place = count_larger(s.candidates + t % kEach * share, share, key);
#pragma unroll
    for (int step = kEach / 2; step > 0; step /= 2) place += __shfl_xor_sync(~0U, place, step);
    if (t % kEach == 0 && key != 0 && place < k) s.sorted[place] = key;
  }
  __syncthreads();
}

/// The first CTA merges every CTA's list: a key's rank is its place in its own list and, in each other list, how many
/// precede it. Lower CTAs have lower columns, so their equal values come first. All lists are searched at once.
__device__ inline void merge_lists(const std::uint32_t* lists, const TopKArgs& a, std::int64_t r, int each,
                                   const Scaling& scaling) {
  const int size = cluster_size(), entries = size * a.k;
  for (auto i = static_cast<int>(threadIdx.x); i < entries; i += static_cast<int>(blockDim.x)) {
    const int list = i / a.k, place = i - list * a.k;
    const std::uint32_t key = lists[list * kMostK + place];
    if (key == 0) continue;
    int before[kMaxCluster] = {};
#pragma unroll
    for (int step = kMostK; step > 0; step /= 2) {
#pragma unroll
      for (int other = 0; other < kMaxCluster; ++other) {
        const int at = before[other] + step;
        if (other >= size || at > a.k) continue;
        const std::uint32_t bound = other < list ? (key & 0xffff0000U) - 1 : key | 0xffffU;  // what is above precedes
        if (lists[other * kMostK + at - 1] > bound) before[other] = at;
      }
    }
    int rank = place;
#pragma unroll
    for (int other = 0; other < kMaxCluster; ++other) rank += other == list ? 0 : before[other];
    if (rank < a.k) scaling.write(a, r, rank, value_of(key), list * each + column_of(key));
  }
}

template <class Group, int kVecs, class Row>
__device__ void select_in_team(const Row& row, const TopKArgs& a, std::int64_t r, bool softmax) {
  __shared__ Selection s;
  __shared__ std::uint32_t lists[Group::kClustered ? kMaxCluster * kMostK : 1];
  const Largest best = find_largest<bf16>(row.held);
  std::uint32_t own = 0;
  if (row.has(best.vector, best.place)) {
    own = key_of(best.value, row.column(best.vector, best.place));
  } else {  // what was found is a place outside the row: there are only minus infinities here, or nothing
    for_keys_from<kVecs>(row, 1U, [&](std::uint32_t key) { own = max(own, key); });
  }
  Scaling scaling;
  if (softmax) {
    scaling = softmax_scaling<Group>(row, best.value);
  } else if constexpr (Group::kClustered) {
    cluster_wait();
  }
  select_in_cta<Group, kVecs>(row, own, a.k, s);
  const auto t = static_cast<int>(threadIdx.x);
  if constexpr (Group::kClustered) {
    if (t < a.k) *in_cta(&lists[cluster_rank() * kMostK + t], 0) = s.sorted[t];
    cluster_arrive();
    cluster_wait();
    if (cluster_rank() == 0) merge_lists(lists, a, r, part_of_row<Group>(a.cols).count, scaling);
  } else {
    if (t < a.k) scaling.write(a, r, t, value_of(s.sorted[t]), column_of(s.sorted[t]));
  }
}

template <int kThreads, int kVecs, bool kClustered, bool kWhole, bool kSoftmax>
__global__ void __launch_bounds__(kThreads == kWarp ? kWarp * kRowsPerCta : kThreads, kThreads == kWarp ? 3
                                                                                      : kVecs == 8      ? 1
                                                                                                   : 1024 / kThreads)
    top_of_row(TopKArgs a) {
  using Group = Team<kThreads, kClustered>;
  Group::start();
  std::int64_t r = blockIdx.x;
  if constexpr (kThreads == kWarp) {
    r = r * kRowsPerCta + threadIdx.x / kWarp;
    if (r >= a.rows) return;
  }
  if constexpr (kClustered) r /= cluster_size();
  using Row = HeldRow<Group, kVecs, kWhole, bf16>;
  const Row row(a.x, r * a.cols, part_of_row<Group>(a.cols), -INFINITY);
  if constexpr (kThreads == kWarp) {
    Scaling scaling;
    if constexpr (kSoftmax) {
      float largest = -INFINITY;
      row.for_each([&](float x) { largest = fmaxf(largest, x); });
      scaling = softmax_scaling<Group>(row, largest);
    }
    select_in_warp<Row, kVecs>(row, a, r, scaling);
  } else {
    select_in_team<Group, kVecs>(row, a, r, kSoftmax);
  }
}

}  // namespace device

namespace {

using device::bf16;
using device::TopKArgs;

TileChoice choose(std::int64_t rows, std::int64_t cols, std::int64_t k) {
  const TileChoice c = choose_topk(rows, cols, k);
  if (c.entry < 0) throw NotModelled("topk: our kernel takes rows of up to 512 Ki columns");
  return c;
}

template <bool kSoftmax, std::size_t kEntry = 0>
void launch(const TileChoice& choice, const TopKArgs& a, cudaStream_t stream) {
  if constexpr (kEntry < std::size(kTopKMenu)) {
    if (choice.entry != static_cast<int>(kEntry)) return launch<kSoftmax, kEntry + 1>(choice, a, stream);
    constexpr RowTile own = kTopKMenu[kEntry];
    const auto kernel = whole_rows(a.cols) ? device::top_of_row<own.threads, own.vecs, own.clustered, true, kSoftmax>
                                           : device::top_of_row<own.threads, own.vecs, own.clustered, false, kSoftmax>;
    launch_plan(kernel, plan_of(own, choice, a.rows), a, stream);
  }
}

void check(const char* op, std::int64_t rows, std::int64_t cols, std::int64_t k, DType type) {
  if (type != DType::bf16) throw NotModelled(std::string(op) + ": our kernel is for bf16");
  if (k < 1 || k > device::kMostK) throw NotModelled(std::string(op) + ": our kernel takes k from 1 to 64");
  if (rows < 1 || cols < k || rows > (std::int64_t{1} << 28)) throw BadInput(std::string(op) + ": rows or cols");
}

}  // namespace

KernelPlan topk_plan(const TopK& s) {
  const TileChoice c = choose(s.rows, s.cols, s.k);
  return plan_of(kTopKMenu[c.entry], c, s.rows);
}

void launch_topk(const TopK& s, const void* x, void* values, std::int32_t* indices, StreamHandle stream) {
  check("topk", s.rows, s.cols, s.k, s.dtype);
  const TopKArgs a{static_cast<const bf16*>(x), static_cast<bf16*>(values), indices, s.rows,
                   static_cast<int>(s.cols),    static_cast<int>(s.k)};
  launch<false>(choose(s.rows, s.cols, s.k), a, static_cast<cudaStream_t>(stream));
}

KernelPlan softmax_topk_plan(const SoftmaxTopK& s) { return topk_plan({s.rows, s.cols, s.k, s.dtype}); }

void launch_softmax_topk(const SoftmaxTopK& s, const void* x, void* values, std::int32_t* indices,
                         StreamHandle stream) {
  check("softmax_topk", s.rows, s.cols, s.k, s.dtype);
  const TopKArgs a{static_cast<const bf16*>(x), static_cast<bf16*>(values), indices, s.rows,
                   static_cast<int>(s.cols),    static_cast<int>(s.k)};
  launch<true>(choose(s.rows, s.cols, s.k), a, static_cast<cudaStream_t>(stream));
}

}  // namespace plumbline
