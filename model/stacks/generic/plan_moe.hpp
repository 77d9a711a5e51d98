// Planner of a mixture of experts as one call, of TensorRT-LLM (cpp/tensorrt_llm/kernels/cutlass_kernels/moe_gemm/
// moe_kernels.cu) and of vLLM (vllm/model_executor/layers/fused_moe: fused_moe.py, fused_marlin_moe.py).
#pragma once

#include "model/stacks/provider.hpp"
#include "ops/shape/moe.hpp"

namespace plumbline {

/// Families of its launches: grouped products of one scale (or none), of a scale for each block of 128, what finds scales
/// (plan_quantize.hpp), and what moves rows.
struct MoeFamilies {
  const FamilyScalars &products, &block_products, &scales, &rows;
  const FamilyScalars* narrow = nullptr;  ///< products of weights of 4 bits by 16-bit activations; null: as the others
  const FamilyScalars* mma = nullptr;     ///< products on cards of mma.sync, CUTLASS's
  const FamilyScalars* triton_mma = nullptr;  ///< the same, Triton's
  const FamilyScalars* triton = nullptr;      ///< products by Triton on other cards; null: as the others
};

/// `trtllm_first`: TensorRT-LLM's (and FlashInfer's copy of them) where nothing has tuned them: the first tile of the list.
/// `vllm_triton`: vLLM's own where operands have 8 bits too; `vllm` hands those to FlashInfer where it has them.
enum class MoeLibrary : std::uint8_t { trtllm, trtllm_first, vllm, vllm_triton };

inline constexpr auto kMoeClasses =
    std::to_array<BandClass>({{Variant::usual, "moe"}, {Variant::math_8bit, "moe_8bit"}});
inline constexpr auto kMoeBlockClasses =
    std::to_array<BandClass>({{Variant::usual, "moe_block"}, {Variant::math_8bit, "moe_block"}});
inline constexpr FamilyDeclaration kMoeFamily{.name = "moe",
                                              .op = "moe",
                                              .required = false,
                                              .stand_in = "library.gemm",
                                              .stand_in_inherits = true,
                                              .carry = {.fixed_in_cycles = true, .in_flight_with_memory = true},
                                              .kind = "matrix",
                                              .classes = kMoeClasses};
inline constexpr FamilyDeclaration kMoeBlockFamily = [] {
  FamilyDeclaration family = kMoeFamily;
  family.name = "moe_block";
  family.classes = kMoeBlockClasses;
  return family;
}();
inline constexpr auto kMarlinClasses = std::to_array<BandClass>({{Variant::usual, "moe_marlin", false}});
inline constexpr FamilyDeclaration kMarlinFamily = [] {
  FamilyDeclaration family = kMoeFamily;
  family.name = "moe_marlin";
  family.classes = kMarlinClasses;
  return family;
}();
/// Kernels for mma.sync, CUTLASS's and Triton's: by an A100's training rows.
inline constexpr FamilyDeclaration kMoeMmaFamily = [] {
  FamilyDeclaration family = kMoeFamily;
  family.name = "moe_mma";
  return family;
}();
inline constexpr FamilyDeclaration kMoeTritonMmaFamily = [] {
  FamilyDeclaration family = kMoeFamily;
  family.name = "moe_triton_mma";
  return family;
}();
/// Triton's on tensor units that read shared memory.
inline constexpr FamilyDeclaration kMoeTritonFamily = [] {
  FamilyDeclaration family = kMoeFamily;
  family.name = "moe_triton";
  return family;
}();

/// The launches in their order. Throws BadInput for types that the GPU does not multiply.
void answer_moe(const Moe& shape, const MoeFamilies& families, MoeLibrary library, const Question& question,
                Answer& answer);

}  // namespace plumbline
