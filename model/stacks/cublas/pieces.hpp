// Rows that are no whole 16-byte units, as cuBLAS's kernels for sm_75 and sm_80 fetch them: pair by pair or one by one.
// Internal to its planners.
#pragma once

#include "model/stacks/common/gemm_tiles.hpp"

namespace plumbline::cublas {

/// Such rows, which no kernel for tensor maps takes: pairs of elements where all rows have an even number of them, else
/// single ones. Of four bytes there are no pairs. (Names of 290 and 560 launches on H200s, 2026-11-28: "align2" and
/// "align1", none of more where rows begin at 8 bytes; 50258 columns in tf32 "align1".)
bool in_pieces(const gemm::Context& c);
bool in_pairs(const GemmTask& t);

/// Of 16 bits and fewer no cp.async fetches one alone: kernels of sm_75, which pass them through registers.
bool through_registers(const gemm::Context& c);

/// Bytes of a piece.
double piece_bytes(const GemmTask& t);

/// For how long the SM's load unit is busy with an instruction of a warp that asks for pieces.
struct PieceRequests {
  double x_clk = 0, weights_clk = 0;
};
PieceRequests requests_of(const gemm::Context& c);

/// And with what a tile's step asks for.
double pieces_clk(const gemm::Context& c, const gemm::TileLayout& t, const PieceRequests& requests);

/// The result leaves in pieces too.
double stored_pieces_clk(const GemmTask& t, const gemm::TileCosts& e);

}  // namespace plumbline::cublas
