// Tiles that libraries of experts' products choose from, by their sources: TensorRT-LLM (and FlashInfer's copy of it)
// cutlass_kernels/cutlass_heuristic.cpp, DeepGEMM as TensorRT-LLM calls it, vLLM's fused_moe.py.
#pragma once

#include <array>

#include "model/stacks/common/plan_groups.hpp"

namespace plumbline {

inline constexpr auto kWeightsInRows = std::to_array<GroupTile>({{{128, 16}, true},
                                                                 {{128, 32}, true},
                                                                 {{128, 64}, true},
                                                                 {{128, 128}, true},
                                                                 {{128, 256}, true},
                                                                 {{256, 128}, true},
                                                                 {{64, 16}, true},
                                                                 {{64, 32}, true},
                                                                 {{64, 64}, true},
                                                                 {{64, 128}, true}});
/// The first of the list, which nobody chose (get_candidate_tiles_sm90(), get_candidate_configs_sm100_dynamic_cluster_shape(),
/// get_candidate_tiles(); tiles with the weights in rows come behind).
inline constexpr auto kFirst = std::to_array<GroupTile>({{{128, 16}, false}});
inline constexpr auto kFirstInTensorMemory = std::to_array<GroupTile>({{{128, 128}, false, 64, 1, true}});
inline constexpr auto kFirstByCpAsync = std::to_array<GroupTile>({{{32, 128}, false}});

/// Of its kernels for cp.async (get_candidate_tiles()), tokens in rows; the second list's are of 8 bits.
inline constexpr auto kByCpAsync =
    std::to_array<GroupTile>({{{32, 128}, false}, {{64, 128}, false}, {{128, 128}, false}});
inline constexpr auto kByCpAsync8 = std::to_array<GroupTile>({{{16, 256}, false},
                                                              {{32, 128}, false},
                                                              {{64, 64}, false},
                                                              {{64, 128}, false},
                                                              {{128, 64}, false},
                                                              {{128, 256}, false},
                                                              {{256, 128}, false}});

/// trtllm-gen's of scales of 128, which lanes multiply: weights in rows, 64 of them an instruction (runner.cu, getOptions():
/// epilogueTileM; its kernels' names: t128x16x128 to t128x128x128, m64x16x32 to m64x128x32, dsFp8; those of 8 are left out).
inline constexpr auto kGenBlocks = std::to_array<GroupTile>({{{128, 16}, true, 64, 1, true, 64},
                                                             {{128, 32}, true, 64, 1, true, 64},
                                                             {{128, 64}, true, 64, 1, true, 64},
                                                             {{128, 128}, true, 64, 1, true, 64}});

/// Triton's for mma.sync (get_default_config(): most sizes have no tuned configuration there), with up to as many tokens as
/// experts of the rank, and with more. Of scales of 128 on any card: columns and K of a tile are the scales'.
inline constexpr auto kTritonFew = std::to_array<GroupTile>({{{16, 32}, false, 16}});
inline constexpr auto kTritonMany = std::to_array<GroupTile>({{{64, 64}, false, 32}});
inline constexpr auto kTritonBlocks = std::to_array<GroupTile>({{{16, 128}, false}, {{64, 128}, false}});

/// Of TensorRT-LLM's copy of DeepGEMM below 64 rows an expert, where weights lie in rows.
inline constexpr auto kBlockWeights =
    std::to_array<GroupTile>({{{128, 16}, true}, {{128, 32}, true}, {{128, 64}, true}});

}  // namespace plumbline
