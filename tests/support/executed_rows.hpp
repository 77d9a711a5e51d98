// Row-wise operators executed by their definition on counted numbers: what tests of their work share.
#pragma once

#include <vector>

#include "ops/facts/work.hpp"
#include "tests/support/brute_force.hpp"

namespace plumbline::executed_rows {

using brute::Array;
using brute::Machine;
using brute::Num;
using Row = std::vector<Num>;
using Kind = RowwiseKind;

inline constexpr std::int64_t kRows = 3, kCols = 5, kAll = kRows * kCols;

/// An execution under way: rows of x, where y goes, and parameters when the operator has some.
struct Execution {
  Machine machine;
  double in = 2, out = 2;
  Array* x = nullptr;
  Array* y = nullptr;

  void start() {
    x = &machine.array(kAll, in);
    y = &machine.array(kAll, out);
  }
  Row row(std::int64_t r) {
    Row values;
    for (std::int64_t c = 0; c < kCols; ++c) values.push_back((*x)[r * kCols + c]);
    return values;
  }
  void put(std::int64_t r, std::int64_t c, Num value) { y->set(r * kCols + c, value); }
  template <class F>
  void each(F f) {
    for (std::int64_t i = 0; i < kAll; ++i) y->set(i, f((*x)[i], i));
  }
};

inline Rowwise shape(Kind kind, bool residual = false, DType in = DType::bf16, DType out = DType::bf16) {
  return Rowwise{kind, kRows, kCols, residual, in, out};
}

inline Num at(const Row& row, std::int64_t c) { return row[static_cast<std::size_t>(c)]; }

inline Num silu(Num x) { return x * reciprocal(Num(1) + exp(-x)); }

}  // namespace plumbline::executed_rows
