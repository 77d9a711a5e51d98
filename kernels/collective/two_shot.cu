// Collectives between two barriers. reduce_from_peers: a rank loads its part from every rank and adds. For all_reduce it
// stores the sum to every rank at once, which is the shortest way while the operands live in L2. Beyond that, stores that
// come in beside the loads halve what the links carry (2 H200, 64 MiB: 356 us against 245 of NCCL's), so that a thread
// first adds its whole share into its own rank's output, and stores that to the peers afterwards (PeerPlan::in_turn).
// push_to_peers: all_gather and all_to_all by stores alone.
//
// The first barrier says that the peers' inputs are complete and their outputs free, the last that nobody reads this
// rank's input any more and its output is complete.
#include "kernels/collective/peer_sync.cuh"

namespace plumbline {
namespace device {
namespace {

/// What is added: 16 bytes of bf16 or fp32, in fp32.
template <class T>
struct Sum;
template <>
struct Sum<bf16> {
  static constexpr int kElements = 8;
  float each[kElements] = {};
  __device__ void add(uint4 v) {
    float x[kElements];
    unpack(v, x);
#pragma unroll
    for (int i = 0; i < kElements; ++i) each[i] += x[i];
  }
  __device__ uint4 packed() const { return pack(each); }
};
template <>
struct Sum<float> {
  static constexpr int kElements = 4;
  float each[kElements] = {};
  __device__ void add(uint4 v) {
    each[0] += __uint_as_float(v.x);
    each[1] += __uint_as_float(v.y);
    each[2] += __uint_as_float(v.z);
    each[3] += __uint_as_float(v.w);
  }
  __device__ uint4 packed() const {
    return make_uint4(__float_as_uint(each[0]), __float_as_uint(each[1]), __float_as_uint(each[2]),
                      __float_as_uint(each[3]));
  }
};

__device__ inline float as_float(bf16 v) { return __bfloat162float(v); }
__device__ inline float as_float(float v) { return v; }
__device__ inline void put(bf16* to, float v) { *to = __float2bfloat16_rn(v); }
__device__ inline void put(float* to, float v) { *to = v; }

/// This rank's part: elements [first, first + count) of every rank's input, and where the sum goes in every output.
struct Part {
  std::int64_t first, count, out_first;
};

template <class T, bool kToAll>
__device__ void store_sum(const Peers& peers, const PeerBuffers& buffers, int ranks, std::int64_t at, uint4 value) {
  const int count = kToAll ? ranks : 1;
#pragma unroll
  for (int step = 0; step < count; ++step) {
    const int to = peers.rank + step < ranks ? peers.rank + step : peers.rank + step - ranks;
    *reinterpret_cast<uint4*>(static_cast<T*>(buffers.out[to]) + at) = value;
  }
}

/// kDeep packs of every rank at once: pack `v`, and every `stride` after it.
template <class T, bool kToAll, int kRanks, int kDeep>
__device__ void reduce_packs(const Peers& peers, const PeerBuffers& buffers, const Part& part, std::int64_t v,
                             std::int64_t stride) {
  constexpr int n = Sum<T>::kElements;
  Sum<T> sums[kDeep];
  if constexpr (kRanks > 0) {
    uint4 loaded[kRanks][kDeep];
#pragma unroll
    for (int source = 0; source < kRanks; ++source) {
      const T* in = static_cast<const T*>(buffers.in[source]) + part.first;
#pragma unroll
      for (int d = 0; d < kDeep; ++d)
        loaded[source][d] = load_peer(reinterpret_cast<const uint4*>(in) + v + d * stride);
    }
#pragma unroll
    for (int source = 0; source < kRanks; ++source) {
#pragma unroll
      for (int d = 0; d < kDeep; ++d) sums[d].add(loaded[source][d]);
    }
  } else {
    for (int source = 0; source < peers.ranks; ++source) {
      const T* in = static_cast<const T*>(buffers.in[source]) + part.first;
      for (int d = 0; d < kDeep; ++d) sums[d].add(load_peer(reinterpret_cast<const uint4*>(in) + v + d * stride));
    }
  }
#pragma unroll
  for (int d = 0; d < kDeep; ++d) {
    store_sum<T, kToAll>(peers, buffers, kRanks > 0 ? kRanks : peers.ranks, part.out_first + (v + d * stride) * n,
                         sums[d].packed());
  }
}

/// Elements that fill no pack, or all of a part that does not begin at one.
template <class T, bool kToAll>
__device__ void reduce_elements(const Peers& peers, const PeerBuffers& buffers, const Part& part, std::int64_t from,
                                std::int64_t thread, std::int64_t threads) {
  for (std::int64_t i = from + thread; i < part.count; i += threads) {
    float sum = 0;
    for (int source = 0; source < peers.ranks; ++source) {
      sum += as_float(static_cast<const T*>(buffers.in[source])[part.first + i]);
    }
    for (int to = 0; to < peers.ranks; ++to) {
      if (kToAll || to == peers.rank) put(static_cast<T*>(buffers.out[to]) + part.out_first + i, sum);
    }
  }
}

/// What this thread added into its own rank's output goes to the peers, each rank beginning with its neighbour.
template <class T, int kDeep>
__device__ void store_in_turn(const Peers& peers, const PeerBuffers& buffers, const Part& part, std::int64_t packs,
                              std::int64_t thread, std::int64_t threads) {
  const auto of = [&](int rank) {
    return reinterpret_cast<uint4*>(static_cast<T*>(buffers.out[rank]) + part.out_first);
  };
  const uint4* mine = of(peers.rank);
  for (std::int64_t v = thread; v < packs; v += kDeep * threads) {
    uint4 sums[kDeep] = {};
#pragma unroll
    for (int d = 0; d < kDeep; ++d) {
      if (v + d * threads < packs) sums[d] = mine[v + d * threads];
    }
    for (int step = 1; step < peers.ranks; ++step) {
      uint4* to = of(peers.rank + step < peers.ranks ? peers.rank + step : peers.rank + step - peers.ranks);
#pragma unroll
      for (int d = 0; d < kDeep; ++d) {
        if (v + d * threads < packs) to[v + d * threads] = sums[d];
      }
    }
  }
}

/// kRanks 0: any number, one rank's loads after the other's.
template <class T, bool kToAll, int kRanks, int kDeep>
__global__ void __launch_bounds__(512, 1) reduce_from_peers(const Peers peers, const PeerBuffers buffers,
                                                            const Part part, const bool packed, const bool in_turn) {
  follow_last_launch();
  const std::uint32_t epoch = *static_cast<volatile std::uint32_t*>(peers.barrier_epochs + blockIdx.x);
  peer_barrier(peers, blockIdx.x, epoch + 1, Arrive::at_start);
  const std::int64_t threads = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  const std::int64_t thread = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const std::int64_t packs = packed ? part.count / Sum<T>::kElements : 0;
  std::int64_t v = thread;
  if (kToAll && in_turn) {
    for (; v + (kDeep - 1) * threads < packs; v += kDeep * threads) {
      reduce_packs<T, false, kRanks, kDeep>(peers, buffers, part, v, threads);
    }
    for (; v < packs; v += threads) reduce_packs<T, false, kRanks, 1>(peers, buffers, part, v, threads);
    store_in_turn<T, static_cast<int>(kPeerStoresInFlight)>(peers, buffers, part, packs, thread, threads);
  }
  for (; v + (kDeep - 1) * threads < packs; v += kDeep * threads) {
    reduce_packs<T, kToAll, kRanks, kDeep>(peers, buffers, part, v, threads);
  }
  for (; v < packs; v += threads) reduce_packs<T, kToAll, kRanks, 1>(peers, buffers, part, v, threads);
  reduce_elements<T, kToAll>(peers, buffers, part, packs * Sum<T>::kElements, thread, threads);
  peer_barrier(peers, blockIdx.x, epoch + 2, Arrive::with_writes);
  if (threadIdx.x == 0) peers.barrier_epochs[blockIdx.x] = epoch + 2;
}

/// V: the widest access that divides the parts. kScatters: all_to_all (each peer gets another part of `in`).
template <class V, bool kScatters>
__global__ void __launch_bounds__(512, 1)
    push_to_peers(const Peers peers, const PeerBuffers buffers, const std::int64_t each) {
  constexpr int kDeep = static_cast<int>(kPeerStoresInFlight);
  follow_last_launch();
  const std::uint32_t epoch = *static_cast<volatile std::uint32_t*>(peers.barrier_epochs + blockIdx.x);
  peer_barrier(peers, blockIdx.x, epoch + 1, Arrive::at_start);
  const std::int64_t threads = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  const std::int64_t thread = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int ranks = peers.ranks, rank = peers.rank;
  const V* in = static_cast<const V*>(buffers.in[rank]);
  const auto peer_of = [&](int step) { return rank + step < ranks ? rank + step : rank + step - ranks; };
  // All ranks are one step apart from each other at any time: no port gets two ranks' stores.
  for (int begin = 0; begin < (kScatters ? ranks : 1); ++begin) {
    const V* from = kScatters ? in + peer_of(begin) * each : in;
    for (std::int64_t v = thread; v < each; v += kDeep * threads) {
      V loaded[kDeep] = {};
#pragma unroll
      for (int d = 0; d < kDeep; ++d) {
        if (v + d * threads < each) loaded[d] = from[v + d * threads];
      }
      for (int step = begin; step < (kScatters ? begin + 1 : ranks); ++step) {
        V* to = static_cast<V*>(buffers.out[peer_of(step)]) + rank * each;
#pragma unroll
        for (int d = 0; d < kDeep; ++d) {
          if (v + d * threads < each) to[v + d * threads] = loaded[d];
        }
      }
    }
  }
  peer_barrier(peers, blockIdx.x, epoch + 2, Arrive::with_writes);
  if (threadIdx.x == 0) peers.barrier_epochs[blockIdx.x] = epoch + 2;
}

}  // namespace
}  // namespace device

namespace {

template <class T, bool kToAll, int kRanks>
constexpr auto kReducing = device::reduce_from_peers<T, kToAll, kRanks, static_cast<int>(peer_loads_in_flight(kRanks))>;

template <class T, bool kToAll>
auto reducing_kernel(int ranks) {
  switch (ranks) {
    case 2: return kReducing<T, kToAll, 2>;
    case 3: return kReducing<T, kToAll, 3>;
    case 4: return kReducing<T, kToAll, 4>;
    case 6: return kReducing<T, kToAll, 6>;
    case 8: return kReducing<T, kToAll, 8>;
    default: return device::reduce_from_peers<T, kToAll, 0, static_cast<int>(peer_loads_in_flight(kPeerRanks))>;
  }
}

template <class T>
void launch_reduce(const Collective& shape, const PeerPlan& plan, const Peers& peers, const PeerBuffers& buffers,
                   cudaStream_t stream) {
  const bool to_all = shape.kind == CollectiveKind::all_reduce;
  const std::int64_t count = peer_elements(shape);
  device::Part part{peers.rank * count, count, 0};
  if (to_all) {
    const PeerPart mine = all_reduce_part(shape, peers.rank);
    part = {mine.first, mine.count, mine.first};
  }
  const bool packed = part.first * static_cast<std::int64_t>(sizeof(T)) % kTwoShotPackBytes == 0;
  const auto kernel = to_all ? reducing_kernel<T, true>(peers.ranks) : reducing_kernel<T, false>(peers.ranks);
  launch_peer_kernel(kernel, plan, stream, peers, buffers, part, packed, plan.in_turn);
}

template <class V>
void launch_push(const Collective& shape, const PeerPlan& plan, const Peers& peers, const PeerBuffers& buffers,
                 std::int64_t bytes, cudaStream_t stream) {
  const auto kernel =
      shape.kind == CollectiveKind::all_to_all ? device::push_to_peers<V, true> : device::push_to_peers<V, false>;
  launch_peer_kernel(kernel, plan, stream, peers, buffers, bytes / static_cast<std::int64_t>(sizeof(V)));
}

}  // namespace

void launch_two_shot(const Collective& shape, const PeerPlan& plan, const Peers& peers, const PeerBuffers& buffers,
                     cudaStream_t stream) {
  const bool bf16 = shape.dtype == DType::bf16;
  if (shape.kind == CollectiveKind::all_reduce || shape.kind == CollectiveKind::reduce_scatter) {
    if (bf16) {
      launch_reduce<device::bf16>(shape, plan, peers, buffers, stream);
    } else {
      launch_reduce<float>(shape, plan, peers, buffers, stream);
    }
  } else {
    const std::int64_t bytes = peer_elements(shape) * (bf16 ? 2 : 4);
    if (bytes % 16 == 0) {
      launch_push<uint4>(shape, plan, peers, buffers, bytes, stream);
    } else if (bytes % 4 == 0) {
      launch_push<std::uint32_t>(shape, plan, peers, buffers, bytes, stream);
    } else {
      launch_push<std::uint16_t>(shape, plan, peers, buffers, bytes, stream);
    }
  }
}

}  // namespace plumbline
