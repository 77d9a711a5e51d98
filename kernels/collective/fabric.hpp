// What the links themselves can do: kernels that read and write a peer's memory, and pass flags. Launchers in plain C++.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/common/launch.hpp"

namespace plumbline {

/// Reads (or writes) `bytes` (a multiple of 16) at `there`, memory of another GPU or of this one, with `ctas` CTAs of 512
/// threads, 8 16-byte accesses a thread in flight. `sink` (16 bytes) is never written but looks as if it might be.
void launch_stream_read(const void* there, std::size_t bytes, int ctas, void* sink, StreamHandle stream);
void launch_stream_write(void* there, std::size_t bytes, int ctas, StreamHandle stream);
/// y = x on one GPU, as above.
void launch_stream_copy(const void* x, void* y, std::size_t bytes, int ctas, StreamHandle stream);

/// A kernel that does nothing: what a node of a graph costs.
void launch_nothing(StreamHandle stream);

/// One side of a game of flags: `rounds` times stores the round's number at `theirs` (memory of the peer) and waits for it at
/// `mine`; the side that does not serve waits first. elapsed_ns[0] gets the time, 0 when the peer never came. Numbers go
/// on from `base`, so that flags need no reset.
struct FlagGame {
  std::uint32_t* mine = nullptr;
  std::uint32_t* theirs = nullptr;
  unsigned long long* elapsed_ns = nullptr;
  std::uint32_t base = 0;
  int rounds = 0;
  bool serves = false;
};
void launch_flag_game(const FlagGame& game, StreamHandle stream);

/// `hops` loads of 8 bytes, each at the place that the one before named, in a ring of `lines` lines of 128 bytes that
/// launch_link_ring laid at `there`. elapsed_ns[0] gets the time.
void launch_link_ring(void* there, std::uint32_t lines, StreamHandle stream);
void launch_chase(const void* there, int hops, unsigned long long* elapsed_ns, StreamHandle stream);

/// Random numbers between -1 and 1 in bf16 (an even number of them) or fp32.
void fill_uniform_bf16(void* data, std::size_t bytes, std::uint64_t seed, StreamHandle stream);
void fill_uniform_fp32(void* data, std::size_t bytes, std::uint64_t seed, StreamHandle stream);

}  // namespace plumbline
