// The family of products whose operands have a scale for each block of 128 values: DeepGEMM's, dense and grouped.
#pragma once

#include <array>

#include "model/stacks/common/plan_groups.hpp"
#include "model/stacks/provider.hpp"

namespace plumbline {

inline constexpr auto kGemmBlockClasses =
    std::to_array<BandClass>({{Variant::usual, "gemm_block"}, {Variant::math_8bit, "gemm_block"}});
inline constexpr FamilyDeclaration kGemmBlockFamily{.name = "gemm_block",
                                                    .op = "gemm_dynamic",
                                                    .required = false,
                                                    .stand_in = "library.gemm",
                                                    .stand_in_inherits = true,
                                                    .carry = {.fixed_in_cycles = true,
                                                              .in_flight_with_memory = true,
                                                              .skips_as_rated = true,
                                                              .cold_trips = kChainedLoads},
                                                    .kind = "matrix",
                                                    .classes = kGemmBlockClasses};

/// DeepGEMM's of grouped products (get_best_configs()): 64 or 128 tokens by 32 to 160 columns.
inline constexpr auto kDeepGemmTiles = std::to_array<GroupTile>({{{64, 32}, false},
                                                                 {{64, 64}, false},
                                                                 {{64, 96}, false},
                                                                 {{64, 128}, false},
                                                                 {{64, 160}, false},
                                                                 {{128, 32}, false},
                                                                 {{128, 64}, false},
                                                                 {{128, 96}, false},
                                                                 {{128, 128}, false},
                                                                 {{128, 160}, false}});

/// Of each expert: evenly between (1 - skew) and (1 + skew) of the mean.
ExpertRows rows_of_groups(const GemmTask& task, double skew);

/// One product by DeepGEMM: tiles of 64 or 128 rows by up to 160 columns, either operand on the row side; K is not
/// cut. Or a batch of them, whose tiles are dealt out together.
void answer_blocks(const GemmTask& task, const FamilyScalars& family, const Question& question, Answer& answer);

}  // namespace plumbline
