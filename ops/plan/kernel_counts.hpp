// What our row-wise kernels execute and wait for, as counted: data/kernels/<set>.json. Counts are of the code that a
// compiler made, so they hold for any card that runs that code and for no other compiler; the file names the compiler,
// and each group of counts where it is from. What the compiler made of each kernel is in <set>.built.csv
// (kernel_resources.hpp).
//
// Instructions are those that one warp executes, a slot of its scheduler each. "A vector" is 16 bytes of each of a
// warp's threads. `sfu`: those of them in the special-function unit. `_clk`: SM clocks.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <string>

#include "ops/plan/kernel_resources.hpp"
#include "ops/shape/shapes.hpp"

namespace plumbline {

struct KernelCounts {
  /// Dependent steps: a shuffle with what is done with its result, the two exponentials where partial softmaxes are
  /// merged, a barrier of a CTA, the scheduler's turn from one CTA to the next.
  struct Waits {
    double shuffle_clk = 0, exponentials_clk = 0, barrier_clk = 0, turn_clk = 0;
  };
  /// Norms, softmax, sums, argmax and quantize of rows: for the row, of which `warps` only where several warps share
  /// it; for a vector that a thread could hold (`held`) and for one that it does (`filled`); for a vector's residual; for
  /// a vector whose exponentials are worked out `again`, where they are too many to keep. `cluster`: for the exchange of
  /// a cluster, `cluster_turn` for each further 32 warps' results. Ragged rows take more for every vector (norms load
  /// gamma and beta element by element) and in each warp in which the row begins or ends within a vector. `walk_step`:
  /// of reductions that walk their row, for as much as the CTA holds.
  struct Row {
    double row = 0, warps = 0, held = 0, filled = 0, residual = 0, again = 0, cluster = 0, cluster_turn = 0;
    double ragged_held = 0, ragged_filled = 0, row_end = 0, walk_step = 0, walk_step_ragged = 0;
    double sfu = 0, sfu_cluster = 0;
  };
  /// Of all of them: trips to memory that ragged rows' ends and parameters take more.
  struct Rows {
    double ragged_loads = 0;
  };
  /// Softmax: up to four vectors a thread keep their exponentials, more are worked out `again` where they are written.
  struct SoftmaxSfu {
    double row = 0, vector = 0, again = 0, warps_log2 = 0, cluster = 0;
  };
  /// A warp a row: its largest is picked k times. `pick_vector_slots`: further slots that comparisons of integers keep
  /// their unit for.
  struct WarpTopK {
    double row = 0, vector = 0, pick = 0, pick_vector = 0, ragged = 0, ragged_vector = 0;
    double pick_vector_slots = 0;
    double softmax = 0, softmax_vector = 0;
    double sfu_vector = 0, sfu_row = 0, pick_clk = 0;
  };
  /// A CTA a row, or a cluster: a threshold among groups' largest, who reaches it (`hit`: vectors of which any element
  /// does), their ranks; a cluster's lists are merged by its first CTA. `fetch_clk`: unrolled code that every warp
  /// meets for the first time.
  struct CtaTopK {
    double warp = 0, vector = 0, hit = 0, ranks = 0, rank_found = 0, softmax = 0, softmax_vector = 0;
    double softmax_cluster = 0, cluster = 0, ragged = 0;
    double sfu_vector = 0, sfu_warp = 0, sfu_cluster = 0, softmax_sfu_cluster = 0;
    double fetch_clk = 0, clk = 0, softmax_clk = 0, pick_clk = 0, merge_clk = 0, softmax_merge_clk = 0, tail_clk = 0;
  };
  /// The training attention chain: for a warp of the launch, for a row (`warps`: where several share it), for each group
  /// of eight elements that a lane could hold and for each that it holds: groups that are whole, fill their lanes, or
  /// are ragged (ChainFit). `walk`: of rows that are walked.
  struct Chain {
    double launch = 0, row = 0, warps = 0, held = 0, group = 0, group_full = 0, group_ragged = 0;
    double walk_row = 0, walk_group = 0, walk_group_ragged = 0, sfu_row = 0, sfu_group = 0, sfu_walk_group = 0;
  };
  /// Of all of them: the wide multiplications of Philox for a group, in slots beyond their own.
  struct Chains {
    double philox = 0;
  };
  /// Element by element, for a vector of each thread.
  struct Flat {
    double instructions = 0, sfu = 0;
  };
  /// The same where kernels go by rows and these are not whole vectors. `row_end`: of a warp in which a row ends within
  /// a vector. `drawings` of random numbers (Chains::philox).
  struct FlatRagged {
    double instructions = 0, sfu = 0, row_end = 0, sfu_row_end = 0, drawings = 0;
  };
  /// Instructions by whether the input's rows are whole vectors (`_in`) and the result's rows whole sectors (`_out`).
  struct Transpose {
    double whole = 0, whole_in = 0, whole_out = 0, ragged = 0, sfu = 0, clk = 0, scattered_fraction = 0;
  };
  /// An item is a vector in each half of a head, or (`single`) an element where halves are not whole vectors. `turns`: a
  /// pass of the CTA over the angles it needs; `turns_once`: before the first.
  struct Rope {
    double vector = 0, single = 0, turns_once = 0, turns = 0, sfu_once = 0, sfu_turns = 0;
    double clk = 0, scattered_fraction = 0;
  };
  /// A thread that gathers an element, one of `many` vectors, or one vector where there are `few`.
  struct Embedding {
    double element = 0, element_sfu = 0, many = 0, few = 0, scattered_fraction = 0;
  };
  /// `ctas`: of an SM, of which the launcher makes as many, `most_ctas` at most.
  struct SumAll {
    double thread = 0, vector_bf16 = 0, vector_fp32 = 0, most_ctas = 0, tail_trips = 0, tail_clk = 0,
           tail_clk_a_cta = 0;
  };
  /// `tile_clk`: SM clocks from one tile of an SM to the next, where neither memory nor instructions take longer.
  struct Cumsum {
    double instructions_bf16 = 0, instructions_fp32 = 0, tail_trips = 0, tail_clk = 0, tile_clk = 0;
  };
  /// Bytes that pass through L2, and that reach DRAM where operands push them out, over the bytes of stack that hold a
  /// thread's spilled registers; of CTAs of at least so many threads.
  struct Spills {
    double least_threads = 0, l2_ratio = 0, dram_ratio = 0;
  };
  /// Backward passes of norms (kernels/training/norm_backward.cu), whose CTAs stay and take rows in turn: instructions of a
  /// warp for a row, by the vectors that its threads hold; bytes of a thread that pass through L2 and back for a row,
  /// where registers spill, without a residual and with one; SM clocks at the end of the launch; p of the p-norm of
  /// memory and of what an SM does for its rows.
  struct NormBackward {
    double row_1 = 0, row_2 = 0, row_4 = 0, spilled_B = 0, spilled_residual_B = 0, end_clk = 0, overlap = 0;
  };
  /// Of both: share of a row's reductions that is seen where one row is worked on at a time; loads that threads of four
  /// vectors wait for, which do not fetch the next row meanwhile; SM clocks of a CTA's addition to a column's sum that
  /// all CTAs add to.
  struct NormsBackward {
    double wait_fraction = 0, loads = 0, add_clk = 0;
  };
  /// What is added to memory, in L2: bytes that it could have given in the time of an fp32 addition. `scattered_overlap`:
  /// p of the p-norm of additions and memory, where rows lie at random.
  struct Additions {
    double l2_B = 0, scattered_overlap = 0, thread = 0, element = 0;
  };
  /// A CTA sums some rows of 256 columns: SM clocks that each wave of CTAs, which are alike and in step, takes beside its
  /// bytes; instructions for a vector.
  struct SumColumns {
    double vector = 0, wave_clk = 0;
  };
  /// A CTA a row: instructions for a vector and those of the special-function unit; SM clocks that a wave of CTAs takes
  /// beside its bytes, of rows that begin within a vector, and at the end.
  struct CrossEntropy {
    double vector = 0, sfu_vector = 0, wave_clk = 0, ragged_clk = 0, end_clk = 0;
  };
  /// The gradient of rows of swiglu that are not whole vectors: an element a thread.
  struct SwigluSingle {
    double instructions = 0, sfu = 0;
  };
  /// The norm of all gradients: three CTAs of 512 threads an SM walk them, and add in double precision; SM clocks of the
  /// last CTA's turn at the end, and what is lost of memory's time where some SMs are done before others.
  struct NormAll {
    double thread = 0, vector = 0, tail_clk = 0, uneven_fraction = 0;
  };
  /// AdamW reads and writes eight arrays side by side: DRAM time for opening pages.
  struct Adamw {
    double scattered_fraction = 0;
  };
  /// How well what an SM does for different CTAs overlaps: p of the p-norm. CTAs that start together go through their
  /// loads, arithmetic and stores in step at first, and drift apart within `drift_waves` CTAs a slot; those of the attention
  /// chain, whose rows are in the lanes of few warps, further (`lanes`). `twice`: two
  /// agreements a row; `reading`: reductions, whose next loads wait for no writes. A thread that has its next row under
  /// way overlaps by itself (`prefetching`); phases between barriers hardly do (`selecting`).
  struct Overlap {
    double in_step = 0, drifted = 0, lanes_drifted = 0, twice_in_step = 0, twice_drifted = 0, reading_in_step = 0,
           reading_drifted = 0;
    double prefetching = 0, selecting = 0, drift_waves = 0;
  };
  /// Share of a last wave that is begun and seen: at most `begun_most`, `begun` over the number of waves. `drain`: of a
  /// CTA's time, at the end, when fewer and fewer CTAs keep memory busy. `prefetch_wait`: share of a prefetching
  /// thread's waits that is seen.
  struct Waves {
    double begun_most = 0, begun = 0, drain = 0, prefetch_wait = 0;
  };
  /// A warm launch's footprint over one partition of L2 at which it begins to miss, and over how much more it misses
  /// all of it.
  struct WarmL2 {
    double begin = 0, over = 0;
  };

  std::string compiler;  ///< "nvcc 13.0.88"
  Waits waits;
  std::array<Row, static_cast<std::size_t>(RowwiseKind::count_)> row;  ///< of the kinds that need whole rows
  Rows rows;
  SoftmaxSfu softmax_sfu;
  WarpTopK topk_warp;
  CtaTopK topk_cta;
  std::array<Chain, 4> chain;  ///< by ChainOp
  Chains chains;
  std::array<Flat, static_cast<std::size_t>(RowwiseKind::count_)> flat;               ///< of the element-wise kinds
  std::array<FlatRagged, static_cast<std::size_t>(RowwiseKind::count_)> flat_ragged;  ///< of those that go by rows
  double flat_registers = 0;                                                          ///< of a thread, at most
  Flat flat_other, rows_other;  ///< where no kernel of ours runs the shape: estimates
  Transpose transpose;
  Rope rope;
  Embedding embedding;
  SumAll sum_all;
  Cumsum cumsum;
  NormBackward rmsnorm_backward, layernorm_backward;
  NormsBackward norms_backward;
  Additions additions;
  SumColumns sum_columns;
  CrossEntropy cross_entropy;
  SwigluSingle swiglu_single;
  NormAll norm_all;
  Adamw adamw;
  Overlap overlap;
  Waves waves;
  WarmL2 warm_l2;
  Spills spills;
  RowResources resources;  ///< registers, shared memory and stack of the kernels as built
};

/// The element-wise kinds whose kernels go by rows: attention's, eight elements of a row a thread, and swiglu, whose
/// halves lie side by side.
constexpr bool goes_by_rows(RowwiseKind kind) {
  return kind == RowwiseKind::scale || kind == RowwiseKind::mask || kind == RowwiseKind::dropout ||
         kind == RowwiseKind::dropout_backward || kind == RowwiseKind::swiglu;
}

/// From data/kernels/<set>.json and <set>.built.csv. Throws BadInput: no such file, a group or number that is missing or
/// that nothing reads (with the nearest name), a number below zero, a group without a source; for the table what
/// RowResources refuses.
std::shared_ptr<const KernelCounts> load_kernel_counts(const std::string& set);
/// The first of these files from text, without resources; `place` stands in front of every message.
KernelCounts parse_kernel_counts(const std::string& json_text, const std::string& place);

}  // namespace plumbline
