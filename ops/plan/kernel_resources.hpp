// What the compiler made of our row-wise kernels, by what a plan chooses: data/kernels/own_sm90.built.csv, which
// tools/kernel_resources.py reads from the built library and a test compares with it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>

#include "ops/plan/row_menu.hpp"
#include "ops/shape/shapes.hpp"

namespace plumbline {

/// Of one kernel: registers of a thread, static shared memory of a CTA, bytes of a thread's stack, where registers that
/// do not fit are kept.
struct KernelResources {
  std::int64_t registers = 0, shared_B = 0, stack_B = 0;
};

/// Looked up once, when the file is read; a plan only picks.
class RowResources {
 public:
  RowResources() = default;
  /// From the file's text; `place` stands in front of messages. Throws BadInput: a column or a kernel that is missing
  /// (with the nearest name), a cell that is no number, a kernel twice.
  RowResources(std::string_view csv, const std::string& place);

  /// Norms, softmax, sums, argmax and quantize of rows. `chosen` has an entry.
  const KernelResources& row(RowwiseKind kind, const RowChoice& chosen, bool whole) const;
  /// An entry of kTopKMenu.
  const KernelResources& selection(std::size_t entry, bool whole, bool softmax) const;
  /// An entry of kChainMenu.
  const KernelResources& chain(ChainOp op, std::size_t entry, ChainFit fit) const;
  const KernelResources& chain_walked(ChainOp op, bool whole) const;
  /// scale, mask, dropout and dropout_backward.
  const KernelResources& attention_flat(RowwiseKind kind, bool whole) const;
  const KernelResources& transpose(bool whole_in, bool whole_out) const;
  const KernelResources& rope(bool vectors) const { return rope_[vectors ? 1 : 0]; }
  const KernelResources& gather(bool many) const { return gather_[many ? 1 : 0]; }
  const KernelResources& cumsum(bool fp32) const { return cumsum_[fp32 ? 1 : 0]; }
  const KernelResources& sum_all(bool fp32) const { return sum_all_[fp32 ? 1 : 0]; }

 private:
  class Table;
  void read_rows(const Table& table);
  void read_selections(const Table& table);
  void read_chains(const Table& table);
  void read_others(const Table& table);

  static constexpr std::size_t kKinds = 6, kWidest = std::size(kRowsSoftmax), kChainOps = 4, kFits = 3;
  using Pair = std::array<KernelResources, 2>;  ///< ragged, whole
  /// By kind, by menu (the kind's own, few), by entry.
  std::array<std::array<std::array<Pair, kWidest>, 2>, kKinds> rows_{};
  std::array<std::array<Pair, 2>, std::size(kTopKMenu)> selections_{};
  std::array<std::array<std::array<KernelResources, kFits>, std::size(kChainMenu)>, kChainOps> chains_{};
  std::array<Pair, kChainOps> walked_{};
  std::array<Pair, 4> attention_flat_{};
  std::array<Pair, 2> transposes_{};
  Pair rope_{}, gather_{}, cumsum_{}, sum_all_{};
};

}  // namespace plumbline
