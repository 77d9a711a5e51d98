#include "model/stacks/cublas/pieces.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

namespace plumbline::cublas {
namespace {

constexpr double kWarp = 32, kLine = 128;
/// Lanes of a warp lie 16 bytes apart along a row, the rows' own unit, and each takes one piece of it after the other.
constexpr int kUnit = 16;

/// Rows and units of a row that a warp's instruction asks for: those of kernels of sm_75 have 64 bytes of a row of K.
struct Request {
  int rows, units;
};

/// Lines that it touches: rows that do not begin at lines lie across two of them.
double lines_of(const Request& r, double pitch, double piece) {
  constexpr int kStarts = 128;
  const double span = kUnit * (r.units - 1) + piece;
  double across = 0;
  for (int row = 0; row < kStarts; ++row) across += std::fmod(row * pitch, kLine) + span > kLine ? 1 : 0;
  return r.rows * (1 + across / kStarts);
}

/// Its words that lie in the same bank of L1's memory, at worst.
double most_in_a_bank(const Request& r, double pitch) {
  constexpr double kWord = 4;
  std::array<int, 32> words{};
  for (int row = 0; row < r.rows; ++row) {
    for (int unit = 0; unit < r.units; ++unit)
      ++words[static_cast<std::size_t>(std::fmod(row * pitch + kUnit * unit, kLine) / kWord)];
  }
  return *std::max_element(words.begin(), words.end());
}

/// An instruction of single elements of 16 bits, whose data pass L1's data pipe: 0.25 of a wavefront a line and 0.7 for each word
/// of the fullest bank (ncu, twelve shapes on an H200, 2026-11-28: 7.8 with K of 1024, whose eight rows meet in four banks, 5.2
/// to 5.7 with 1028 and 1056, 4.3 to 4.7 with 1025 and 1026, 2.9 along 4097 columns; the pipe is busy for 0.9 of all clocks). What
/// a wavefront costs, and what stores behind it do, were found on the training side of products_ragged (218 launches).
double single_clk(double pitch, bool along_k) {
  constexpr double kLineClk = 0.28, kBankClk = 0.5, kStoreClk = 1.95, kAcrossClk = 1.55;
  const Request r = along_k ? Request{8, 4} : Request{4, 8};
  return kLineClk * lines_of(r, pitch, 2) + kBankClk * most_in_a_bank(r, pitch) + kStoreClk +
         (along_k ? 0 : kAcrossClk);
}

/// Four bytes by cp.async: each of the four words that meet in a bank of shared memory is written by itself (4.2 to 4.7 wavefronts
/// an instruction counted), and a line that is touched takes the look-up of its tag. (The same training side: 221 launches in
/// pairs, 151 of tf32.)
double word_clk(const GemmTask& t, double pitch, bool along_k) {
  constexpr double kPairClk = 4.25, kPairLineClk = 0.375, kWordClk = 3.8, kWordAcrossClk = 4.2, kWordLineClk = 0.3;
  const double lines = lines_of({4, 8}, pitch, 4);
  if (in_pairs(t)) return kPairClk + kPairLineClk * lines;
  return (along_k ? kWordClk : kWordAcrossClk) + kWordLineClk * lines;
}

}  // namespace

bool in_pieces(const gemm::Context& c) {
  return c.path.kind == TensorPath::Kind::mma_sync && !gemm::whole_units(c.task);
}

bool in_pairs(const GemmTask& t) {
  constexpr double kHalf = 2;
  return t.input_bytes <= kHalf && std::fmod(t.k, 2) == 0 && std::fmod(t.n, 2) == 0;
}

bool through_registers(const gemm::Context& c) { return in_pieces(c) && !in_pairs(c.task) && c.task.input_bytes <= 2; }

double piece_bytes(const GemmTask& t) { return t.input_bytes * (in_pairs(t) ? 2 : 1); }

PieceRequests requests_of(const gemm::Context& c) {
  const auto clk = [&](double row, bool along_k) {
    const double pitch = row * c.task.input_bytes;
    return through_registers(c) ? single_clk(pitch, along_k) : word_clk(c.task, pitch, along_k);
  };
  const double along_k = clk(c.task.k, true);
  return {along_k, c.task.weights_kn ? clk(c.task.n, false) : along_k};
}

double pieces_clk(const gemm::Context& c, const gemm::TileLayout& t, const PieceRequests& requests) {
  const gemm::TileCosts& e = *t.costs;
  // rows outside the operands are not asked for: the mean of all tiles (a GPU with more SMs has no other one)
  const double of_x = c.task.m / (t.tiles_m * e.tile_m), of_weights = c.task.n / (t.tiles_n * e.tile_n);
  return (e.a * of_x * requests.x_clk + e.w * of_weights * requests.weights_clk) / piece_bytes(c.task) / kWarp;
}

double stored_pieces_clk(const GemmTask& t, const gemm::TileCosts& e) {
  constexpr double kStoreClk = 7;
  return e.tile_m * e.tile_n * t.input_bytes / piece_bytes(t) / kWarp * kStoreClk;
}

}  // namespace plumbline::cublas
