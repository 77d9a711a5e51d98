// Which of our own kernels runs a shape on a machine: what the planner prices is what the launchers take.
//
// Nothing is returned unless the machine prices our own kernels and has scalars for them: such a shape keeps the
// generic menu and the library kernels' scalars.
#pragma once

#include <optional>

#include "model/engine/rates.hpp"
#include "ops/op/shapes.hpp"
#include "ops/plan/kernel_menu.hpp"

namespace plumbline {

/// The engine of a dense GEMM: wgmma fed by TMA where the card has it and the rows of x, W and y are whole 16-byte
/// units, else mma.sync.
std::optional<GemmEngine> own_gemm_engine(const Gemm& shape, const Rates& rates);

/// Null: no kernel of ours.
const PrefillVariant* own_prefill_kernel(const AttentionPrefill& shape, const Rates& rates);
const DecodeVariant* own_decode_kernel(const AttentionDecode& shape, const Rates& rates);

}  // namespace plumbline
