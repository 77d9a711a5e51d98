#include "ops/shape/spmv.hpp"

#include <algorithm>
#include <array>

#include "ops/facts/facts.hpp"
#include "ops/op/counting.hpp"

namespace plumbline {
namespace {

using namespace counting;

constexpr auto kSpmvNames = std::to_array<OperatorName>({{"spmv", 0, false, Pattern::none}});
constexpr auto kSpmvKeys =
    std::to_array<Key>({key<&Spmv::rows>("rows"), key<&Spmv::cols>("cols"), key<&Spmv::nnz>("nnz")});

constexpr auto kSpmvRelations = std::to_array<Relation<Spmv>>({{"key 'nnz': expected at most rows x cols",
                                                                [](const Spmv& s) {
                                                                  return d(s.nnz) <= product_of({s.rows, s.cols});
                                                                },
                                                                [](Spmv& s) { s.nnz = s.rows * s.cols; }}});

/// x is read once: all of it, or one element a nonzero when there are fewer nonzeros than columns.
Work work_of(const Spmv& s) {
  const double rows = d(s.rows), nnz = d(s.nnz);
  Work w;
  w.math = s.dtype;
  w.fp32 = flop(2 * nnz);
  w.read = storage(s.dtype, nnz + std::min(d(s.cols), nnz)) + byte(kIndexBytes * (nnz + rows + 1));
  w.write = storage(s.dtype, rows);
  return w;
}

Volume volume_of(const Spmv& s) { return {d(std::max({s.rows, s.cols, s.nnz})), 0}; }

}  // namespace

const Facts<Spmv>& Spmv::facts() {
  static constexpr Facts<Spmv> kFacts{
      .names = kSpmvNames,
      .keys = kSpmvKeys,
      .relations = kSpmvRelations,
      .work = work_of,
      .volume = volume_of,
  };
  return kFacts;
}

}  // namespace plumbline
