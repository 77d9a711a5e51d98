// cuBLAS's tf32 kernels on Hopper ("sm90_xmma_gemm_f32f32_tf32f32"): eight tiles, clusters of many shapes.
#pragma once

#include "model/stacks/common/gemm_cache.hpp"
#include "model/stacks/common/gemm_tiles.hpp"

namespace plumbline::cublas {

/// CTAs that run at a time in clusters of `size`, one an SM. A cluster lies within a GPC: two GPCs of 18 SMs, five of 16, one
/// of 8 and eight SMs that hold pairs alone give each of the eleven numbers that cuBLASLt 13.1 reckons with on 132 SMs (waves
/// of 4692 answers of its heuristic: 132, 132, 117, 120, 110, 102, 105, 120 of clusters of 1 to 8; 84 of 12, 91 of 13, 112 of
/// 16). Another card is taken to have as large a share.
double ctas_in_clusters(double size, double sm_count);

/// Tiles of a layout fill whole clusters, of `cluster_cols` CTAs along N and the rest of `cluster` along M; what CTAs of one share,
/// each fetches a part of for all. Rows that the operands do not have are asked of L2 all the same (gemm::outside_clk).
void share_in_clusters(gemm::TileLayout& layout, const gemm::Context& context);

GemmChoice plan_xmma(const gemm::Context& context, GemmCache& cache);

/// SMs of the card whose answers of cuBLASLt are on file.
double sms_of_asked_card();

}  // namespace plumbline::cublas
