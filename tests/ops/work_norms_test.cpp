// Norms and their gradients: the formula against an execution of the definition.
#include <gtest/gtest.h>

#include "tests/support/executed_rows.hpp"

namespace plumbline::work_norms_test {
namespace {

using namespace executed_rows;

void layernorm_row(Execution& run, std::int64_t r, Row row, Array& gamma, Array& beta) {
  const Num per_column(1.0 / static_cast<double>(kCols)), eps(1e-5);
  Num sum(0), squares(0);
  for (Num v : row) sum += v;
  const Num mean = sum * per_column;
  for (Num& v : row) v = v - mean;
  for (Num v : row) squares += v * v;
  const Num rstd = rsqrt(squares * per_column + eps);
  for (std::int64_t c = 0; c < kCols; ++c) run.put(r, c, at(row, c) * rstd * gamma[c] + beta[c]);
}

void rmsnorm_row(Execution& run, std::int64_t r, const Row& row, Array& gamma) {
  const Num per_column(1.0 / static_cast<double>(kCols)), eps(1e-5);
  Num squares(0);
  for (Num v : row) squares += v * v;
  const Num rstd = rsqrt(squares * per_column + eps);
  for (std::int64_t c = 0; c < kCols; ++c) run.put(r, c, at(row, c) * rstd * gamma[c]);
}

TEST(WorkRowwise, NormsEqualExecution) {
  for (bool residual : {false, true}) {
    for (Kind kind : {Kind::layernorm, Kind::rmsnorm}) {
      Execution run;
      run.start();
      Array& gamma = run.machine.array(kCols, 2);
      Array& beta = run.machine.array(kCols, 2);
      Array& second = run.machine.array(kAll, 2);
      Array& sum = run.machine.array(kAll, 2);
      for (std::int64_t r = 0; r < kRows; ++r) {
        Row row = run.row(r);
        for (std::int64_t c = 0; residual && c < kCols; ++c) {
          row[static_cast<std::size_t>(c)] += second[r * kCols + c];
          sum.set(r * kCols + c, at(row, c));
        }
        if (kind == Kind::layernorm) layernorm_row(run, r, row, gamma, beta);
        else rmsnorm_row(run, r, row, gamma);
      }
      EXPECT_SAME_WORK(shape(kind, residual), run.machine);
    }
  }
}

/// The executions are the operators they claim to be.
TEST(WorkRowwise, ExecutedLayernormNormalizes) {
  Execution run;
  run.start();
  Array& gamma = run.machine.array(kCols, 2);
  Array& beta = run.machine.array(kCols, 2);
  for (std::int64_t c = 0; c < kCols; ++c) gamma.poke(c, 1), beta.poke(c, 0);
  layernorm_row(run, 0, run.row(0), gamma, beta);
  double sum = 0, squares = 0;
  for (std::int64_t c = 0; c < kCols; ++c) {
    sum += run.y->peek(c);
    squares += run.y->peek(c) * run.y->peek(c);
  }
  EXPECT_NEAR(sum, 0, 1e-9);
  EXPECT_NEAR(squares, kCols, 1e-2);
}

/// dx = r g - f x with g = dy gamma, r = rsqrt(mean x^2 + eps), f = r^3 mean(g x); `residual` is added.
TEST(WorkRowwise, RmsnormBackwardEqualsExecution) {
  for (const bool residual : {false, true}) {
    Execution run;
    run.start();
    Array& dy = run.machine.array(kAll, run.in);
    Array& gamma = run.machine.array(kCols, run.in);
    Array* beside = residual ? &run.machine.array(kAll, run.in) : nullptr;
    const Num per_column(1.0 / static_cast<double>(kCols)), eps(1e-5);
    for (std::int64_t r = 0; r < kRows; ++r) {
      const Row x = run.row(r);
      Row g;
      Num squares(0), dots(0);
      for (std::int64_t c = 0; c < kCols; ++c) {
        g.push_back(dy[r * kCols + c] * gamma[c]);
        squares += at(x, c) * at(x, c);
        dots += at(g, c) * at(x, c);
      }
      const Num rstd = rsqrt(squares * per_column + eps), factor = rstd * rstd * rstd * (dots * per_column);
      for (std::int64_t c = 0; c < kCols; ++c) {
        const Num dx = rstd * at(g, c) - factor * at(x, c);
        run.put(r, c, residual ? dx + (*beside)[r * kCols + c] : dx);
      }
    }
    EXPECT_SAME_WORK(shape(Kind::rmsnorm_backward, residual), run.machine);
  }
}

/// dx = r g - f d - h with d = x - mean, g = dy gamma, r = rsqrt(mean d^2 + eps), f = r^3 mean(g d), h = r mean(g).
TEST(WorkRowwise, LayernormBackwardEqualsExecution) {
  for (const bool residual : {false, true}) {
    Execution run;
    run.start();
    Array& dy = run.machine.array(kAll, run.in);
    Array& gamma = run.machine.array(kCols, run.in);
    Array* beside = residual ? &run.machine.array(kAll, run.in) : nullptr;
    const Num per_column(1.0 / static_cast<double>(kCols)), eps(1e-5);
    for (std::int64_t r = 0; r < kRows; ++r) {
      Row d = run.row(r), g;
      Num sum(0), squares(0), dots(0), sums(0);
      for (Num v : d) sum += v;
      const Num mean = sum * per_column;
      for (std::int64_t c = 0; c < kCols; ++c) {
        Num& centred = d[static_cast<std::size_t>(c)];
        centred = centred - mean;
        g.push_back(dy[r * kCols + c] * gamma[c]);
        squares += centred * centred;
        dots += at(g, c) * centred;
        sums += at(g, c);
      }
      const Num rstd = rsqrt(squares * per_column + eps), factor = rstd * rstd * rstd * (dots * per_column),
                shift = rstd * (sums * per_column);
      for (std::int64_t c = 0; c < kCols; ++c) {
        const Num dx = rstd * at(g, c) - factor * at(d, c) - shift;
        run.put(r, c, residual ? dx + (*beside)[r * kCols + c] : dx);
      }
    }
    EXPECT_SAME_WORK(shape(Kind::layernorm_backward, residual), run.machine);
  }
}

}  // namespace
}  // namespace plumbline::work_norms_test
