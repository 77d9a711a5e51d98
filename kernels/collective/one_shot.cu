// One-shot collectives: data with flags beside them. Each CTA has a part of the receiving buffer to itself and counts its
// own launches (its epoch), so that a slot's flag is that of one launch alone. Two halves take turns: when a rank writes a
// half again, two launches on, every peer has begun the launch between and so finished the one that read it.
#include "kernels/collective/peer_sync.cuh"

namespace plumbline {
namespace device {
namespace {

/// 8 bytes: 4 bf16 or 2 fp32.
template <class T>
struct Pack {
  static constexpr int kElements = static_cast<int>(kOneShotPackBytes / sizeof(T));
};

__device__ inline float to_float(bf16 v) { return __bfloat162float(v); }
__device__ inline float to_float(float v) { return v; }
template <class T>
__device__ T from_float(float v);
template <>
__device__ inline bf16 from_float<bf16>(float v) {
  return __float2bfloat16_rn(v);
}
template <>
__device__ inline float from_float<float>(float v) {
  return v;
}

/// Elements [at, at + kElements) of data[count]; zeros behind the end. The part of a rank may start at any element.
template <class T>
__device__ uint2 load_pack(const T* data, std::int64_t at, std::int64_t count) {
  constexpr int n = Pack<T>::kElements;
  const T* from = data + at;
  if (at + n <= count && reinterpret_cast<std::uintptr_t>(from) % kOneShotPackBytes == 0) {
    return *reinterpret_cast<const uint2*>(from);
  }
  union {
    uint2 whole;
    T each[n];
  } pack;
  pack.whole = make_uint2(0, 0);
  for (int i = 0; i < n; ++i) {
    if (at + i < count) pack.each[i] = from[i];
  }
  return pack.whole;
}

template <class T>
__device__ void store_pack(T* data, std::int64_t at, std::int64_t count, uint2 value) {
  constexpr int n = Pack<T>::kElements;
  T* to = data + at;
  if (at + n <= count && reinterpret_cast<std::uintptr_t>(to) % kOneShotPackBytes == 0) {
    *reinterpret_cast<uint2*>(to) = value;
    return;
  }
  union {
    uint2 whole;
    T each[n];
  } pack;
  pack.whole = value;
  for (int i = 0; i < n; ++i) {
    if (at + i < count) to[i] = pack.each[i];
  }
}

template <class T>
__device__ void add_pack(float (&sum)[Pack<T>::kElements], uint2 value) {
  union {
    uint2 whole;
    T each[Pack<T>::kElements];
  } pack;
  pack.whole = value;
#pragma unroll
  for (int i = 0; i < Pack<T>::kElements; ++i) sum[i] += to_float(pack.each[i]);
}

template <class T>
__device__ uint2 sum_pack(const float (&sum)[Pack<T>::kElements]) {
  union {
    uint2 whole;
    T each[Pack<T>::kElements];
  } pack;
#pragma unroll
  for (int i = 0; i < Pack<T>::kElements; ++i) pack.each[i] = from_float<T>(sum[i]);
  return pack.whole;
}

__device__ inline bool arrived(uint4 v, std::uint32_t epoch) { return v.y == epoch && v.w == epoch; }

__device__ inline uint2 wait_for(const uint4* slot, uint4 seen, std::uint32_t epoch, std::uint32_t* fault) {
  Patience patience(fault);
  while (!arrived(seen, epoch)) {
    if (patience.over()) break;
    seen = load_flagged(slot);
  }
  return make_uint2(seen.x, seen.z);
}

/// kAdds: all_reduce, reduce_scatter. kScatters: reduce_scatter, all_to_all (each peer gets another part). kRanks 0: any
/// number, waits for one peer after the other.
template <class T, bool kAdds, bool kScatters, int kRanks>
__global__ void __launch_bounds__(512) one_shot(const Peers peers, const PeerBuffers buffers, const std::int64_t count,
                                                const int packs, const int packs_each) {
  constexpr int n = Pack<T>::kElements;
  follow_last_launch();
  const int ranks = kRanks > 0 ? kRanks : peers.ranks, rank = peers.rank;
  const int first = static_cast<int>(blockIdx.x) * packs_each, mine = min(packs_each, packs - first);
  const T* in = static_cast<const T*>(buffers.in[rank]);
  T* out = static_cast<T*>(buffers.out[rank]);
  std::uint32_t epoch = *static_cast<volatile std::uint32_t*>(peers.one_shot_epochs + blockIdx.x) + 1;
  if (epoch == 0) epoch = 2;  // 0 is memory that no launch has written; the half stays that of an even number
  // [cta][half][source][pack]
  const std::size_t half = (std::size_t{blockIdx.x} * 2 + epoch % 2) * static_cast<std::size_t>(ranks) * kOneShotPacks;
  const auto slot = [&](int owner, int source, int i) {
    return peers.one_shot[owner] + half + static_cast<std::size_t>(source) * kOneShotPacks + i;
  };

  for (int i = static_cast<int>(threadIdx.x); i < mine; i += static_cast<int>(blockDim.x)) {
    const std::int64_t at = static_cast<std::int64_t>(first + i) * n;
    uint2 data = make_uint2(0, 0);
    if (!kScatters) data = load_pack(in, at, count);
#pragma unroll
    for (int step = 1; step < ranks; ++step) {
      const int peer = rank + step < ranks ? rank + step : rank + step - ranks;
      if (kScatters) data = load_pack(in + peer * count, at, count);
      store_flagged(slot(peer, rank, i), make_uint4(data.x, epoch, data.y, epoch));
    }
  }
  for (int i = static_cast<int>(threadIdx.x); i < mine; i += static_cast<int>(blockDim.x)) {
    const std::int64_t at = static_cast<std::int64_t>(first + i) * n;
    const uint2 own = load_pack(kScatters ? in + rank * count : in, at, count);
    uint4 seen[kRanks > 0 ? kRanks : 1] = {};
    if constexpr (kRanks > 0) {
#pragma unroll
      for (int source = 0; source < kRanks; ++source) {
        if (source != rank) seen[source] = load_flagged(slot(rank, source, i));
      }
    }
    float sum[n] = {};
#pragma unroll
    for (int source = 0; source < ranks; ++source) {
      uint2 data = own;
      if (source != rank) {
        const uint4* from = slot(rank, source, i);
        data = wait_for(from, kRanks > 0 ? seen[kRanks > 0 ? source : 0] : load_flagged(from), epoch, peers.fault);
      }
      if (kAdds) {
        add_pack<T>(sum, data);
      } else {
        store_pack(out + source * count, at, count, data);
      }
    }
    if (kAdds) store_pack(out, at, count, sum_pack<T>(sum));
  }
  __syncthreads();  // all have read the count
  if (threadIdx.x == 0) peers.one_shot_epochs[blockIdx.x] = epoch;
}

}  // namespace
}  // namespace device

namespace {

template <class T, bool kAdds, bool kScatters>
void launch_for(const Collective& shape, const PeerPlan& plan, const Peers& peers, const PeerBuffers& buffers,
                cudaStream_t stream) {
  const auto kernel = peers.ranks == 2   ? device::one_shot<T, kAdds, kScatters, 2>
                      : peers.ranks == 4 ? device::one_shot<T, kAdds, kScatters, 4>
                      : peers.ranks == 8 ? device::one_shot<T, kAdds, kScatters, 8>
                                         : device::one_shot<T, kAdds, kScatters, 0>;
  const std::int64_t each = (plan.packs + plan.ctas - 1) / plan.ctas;
  launch_peer_kernel(kernel, plan, stream, peers, buffers, peer_elements(shape), plan.packs, each);
}

template <class T>
void launch_type(const Collective& shape, const PeerPlan& plan, const Peers& peers, const PeerBuffers& buffers,
                 cudaStream_t stream) {
  switch (shape.kind) {
    case CollectiveKind::all_reduce: return launch_for<T, true, false>(shape, plan, peers, buffers, stream);
    case CollectiveKind::all_gather: return launch_for<T, false, false>(shape, plan, peers, buffers, stream);
    case CollectiveKind::reduce_scatter: return launch_for<T, true, true>(shape, plan, peers, buffers, stream);
    case CollectiveKind::all_to_all: return launch_for<T, false, true>(shape, plan, peers, buffers, stream);
    case CollectiveKind::broadcast: return;  // peer_elements() refuses it
  }
}

}  // namespace

void launch_one_shot(const Collective& shape, const PeerPlan& plan, const Peers& peers, const PeerBuffers& buffers,
                     cudaStream_t stream) {
  if (shape.dtype == DType::bf16) return launch_type<device::bf16>(shape, plan, peers, buffers, stream);
  launch_type<float>(shape, plan, peers, buffers, stream);
}

}  // namespace plumbline
