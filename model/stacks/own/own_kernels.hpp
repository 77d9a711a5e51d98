// Which of our own kernels runs a shape on a machine: what the planner prices is what the launchers take.
//
// Nothing is returned where no scalars of them are on file: such a shape is left to the stack's next provider.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "model/engine/rates.hpp"
#include "ops/plan/kernel_menu.hpp"
#include "ops/shape/shapes.hpp"

namespace plumbline {

namespace own {
/// Families of our kernels, in the order in which provider.cpp declares them. `kReduce` adds up splits of GEMMs,
/// `kCombine` merges those of attention. `kPeer...`: collectives by loads and stores of peers' memory.
enum Family : std::size_t {
  kGemm,
  kGemmPortable,
  kReduce,
  kPrefill,
  kDecode,
  kCombine,
  kRowwise,
  kPeerOneShot,
  kPeerTwoShot,
  kPeerPull,
  kPeerPush,
  kPeerScatter,
  kBackward,
  kPrefillPortable,
  kFamilies
};
/// Of kernels of mma.sync. Clocks until shared memory has answered a warp's request for fragments (Hopper and Ampere: 29,
/// "Dissecting the NVIDIA Hopper Architecture through Microbenchmarking", 2024), and in which a warp can't go on while it
/// asks for copies by cp.async, each of its instructions (steps of CTAs alone on an SM in a first run of
/// data/studies/portable.csv on an H200, 2026-11-24, which is not on file; the run that judges it is).
inline constexpr double kFragmentClk = 29, kCopyClk = 9;
}  // namespace own

/// The engine of a dense GEMM: wgmma fed by TMA where the card has it and the rows of x, W and y are whole 16-byte
/// units, else mma.sync.
std::optional<GemmEngine> own_gemm_engine(const Gemm& shape, const Rates& rates,
                                          std::span<const FamilyScalars> families);

/// Whether the engine of mma.sync takes the product, which wgmma may take too.
bool runs_portable_gemm(const Gemm& shape, const Rates& rates, std::span<const FamilyScalars> families);

/// Null: no kernel of ours.
const PrefillVariant* own_prefill_kernel(const AttentionPrefill& shape, const Rates& rates,
                                         std::span<const FamilyScalars> families);
/// Whether flash attention of mma.sync takes the shape: the card's only one where it has neither wgmma nor tcgen05.
bool runs_portable_prefill(const AttentionPrefill& shape, const Rates& rates, std::span<const FamilyScalars> families);
const DecodeVariant* own_decode_kernel(const AttentionDecode& shape, const Rates& rates,
                                       std::span<const FamilyScalars> families);
const BackwardVariant* own_backward_kernel(const AttentionBackward& shape, const Rates& rates,
                                           std::span<const FamilyScalars> families);
/// Whether the card runs any of them.
bool runs_own_kernels(const Rates& rates);
/// Whether the card runs our row-wise kernels as they are counted.
bool runs_own_rows(const Rates& rates);

}  // namespace plumbline
