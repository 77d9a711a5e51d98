// What lies between attention's products in training: the formula against an execution of the definition.
#include <gtest/gtest.h>

#include <limits>

#include "tests/support/executed_rows.hpp"

namespace plumbline::work_attention_chain_test {
namespace {

using namespace executed_rows;

TEST(WorkRowwise, DropoutEqualsExecution) {
  Execution run;
  run.start();
  Array& kept = run.machine.array(kAll, 1);
  run.each([&](Num x, std::int64_t i) {
    const bool keep = Num(static_cast<double>(i * 7 % 10) / 10) > Num(0.1);
    kept.set(i, Num(keep ? 1 : 0));
    const Num scaled = x * Num(1 / 0.9);
    return keep ? scaled : Num(0);
  });
  EXPECT_SAME_WORK(shape(Kind::dropout), run.machine);
}

/// Kept in three of four, as the executions below draw it.
bool keeps(std::int64_t i) { return Num(static_cast<double>(i * 7 % 4) / 4) > Num(0.1); }
const double kKept = 4.0 / 3.0;

TEST(WorkRowwise, DropoutBackwardEqualsExecution) {
  Execution run;
  run.start();
  Array& kept = run.machine.array(kAll, 1);
  run.each([&](Num dy, std::int64_t i) {
    const Num scaled = dy * Num(kKept);
    return kept[i].value() > 0 ? scaled : Num(0);
  });
  EXPECT_SAME_WORK(shape(Kind::dropout_backward), run.machine);
}

TEST(WorkRowwise, SoftmaxBackwardEqualsExecution) {
  Execution run;
  run.start();
  Array& p = run.machine.array(kAll, 2);
  for (std::int64_t r = 0; r < kRows; ++r) {
    Num sum(0);
    const Row dy = run.row(r);
    for (std::int64_t c = 0; c < kCols; ++c) sum += at(dy, c) * p[r * kCols + c];
    for (std::int64_t c = 0; c < kCols; ++c) run.put(r, c, (at(dy, c) - sum) * p[r * kCols + c]);
  }
  EXPECT_SAME_WORK(shape(Kind::softmax_backward), run.machine);
}

/// Forward of the fused training attention chain: scores, mask row and scale to the dropped-out probabilities.
void fused_forward(Execution& run, Array& mask, Array& log_sum, Num scale) {
  for (std::int64_t r = 0; r < kRows; ++r) {
    Row row = run.row(r);
    Num largest(-std::numeric_limits<double>::infinity()), sum(0);
    for (std::int64_t c = 0; c < kCols; ++c) {
      Num& v = row[static_cast<std::size_t>(c)];
      v = v * scale + mask[c];
      largest = max(largest, v);
    }
    for (Num& v : row) {
      v = exp(v - largest);
      sum += v;
    }
    const Num inverse = reciprocal(sum);
    log_sum.set(r, largest + log(sum));
    for (std::int64_t c = 0; c < kCols; ++c) {
      const bool keep = keeps(r * kCols + c);
      const Num dropped = at(row, c) * inverse * Num(kKept);
      run.put(r, c, keep ? dropped : Num(0));
    }
  }
}

/// Gradient of the scores: probabilities from scores and log-sum-exp, the same elements dropped.
void fused_backward(Execution& run, Array& dy, Array& mask, Array& log_sum, Num scale) {
  for (std::int64_t r = 0; r < kRows; ++r) {
    Row p = run.row(r), dp;
    Num sum(0);
    const Num shift = log_sum[r];
    for (std::int64_t c = 0; c < kCols; ++c) {
      Num& v = p[static_cast<std::size_t>(c)];
      v = exp(v * scale + mask[c] - shift);
      const bool keep = keeps(r * kCols + c);
      const Num kept = dy[r * kCols + c] * Num(kKept);
      dp.push_back(keep ? kept : Num(0));
      sum += dp.back() * v;
    }
    for (std::int64_t c = 0; c < kCols; ++c) run.put(r, c, (at(dp, c) - sum) * at(p, c) * scale);
  }
}

TEST(WorkRowwise, FusedAttentionChainEqualsExecution) {
  Execution forward;
  forward.start();
  Array& mask = forward.machine.array(kCols, 2);
  Array& log_sum = forward.machine.array(kRows, 4);
  fused_forward(forward, mask, log_sum, Num(0.125));
  EXPECT_SAME_WORK(shape(Kind::scale_mask_softmax_dropout), forward.machine);

  Execution backward;
  backward.start();
  Array& same_mask = backward.machine.array(kCols, 2);
  Array& same_log_sum = backward.machine.array(kRows, 4);
  Array& dy = backward.machine.array(kAll, 2);
  fused_backward(backward, dy, same_mask, same_log_sum, Num(0.125));
  EXPECT_SAME_WORK(shape(Kind::scale_mask_softmax_dropout_backward), backward.machine);
}

/// The executed backward is the derivative of the executed forward: sum(dy y) by central differences.
TEST(WorkRowwise, ExecutedChainBackwardIsTheDerivative) {
  const Num scale(0.125);
  const auto weighted = [&](std::int64_t bumped, double by, Row* log_sums) {
    Execution run;
    run.start();
    Array& mask = run.machine.array(kCols, 2);
    Array& log_sum = run.machine.array(kRows, 4);
    Array& dy = run.machine.array(kAll, 2);
    run.x->poke(bumped, run.x->peek(bumped) + by);
    fused_forward(run, mask, log_sum, scale);
    double total = 0;
    for (std::int64_t i = 0; i < kAll; ++i) total += run.y->peek(i) * dy.peek(i);
    for (std::int64_t r = 0; log_sums != nullptr && r < kRows; ++r) log_sums->push_back(Num(log_sum.peek(r)));
    return total;
  };
  Row log_sums;
  weighted(0, 0, &log_sums);
  Execution run;
  run.start();
  Array& mask = run.machine.array(kCols, 2);
  Array& log_sum = run.machine.array(kRows, 4);
  Array& dy = run.machine.array(kAll, 2);
  for (std::int64_t r = 0; r < kRows; ++r) log_sum.poke(r, at(log_sums, r).value());
  fused_backward(run, dy, mask, log_sum, scale);
  for (std::int64_t i = 0; i < kAll; ++i) {
    constexpr double kBy = 1e-4;
    const double slope = (weighted(i, kBy, nullptr) - weighted(i, -kBy, nullptr)) / (2 * kBy);
    EXPECT_NEAR(run.y->peek(i), slope, 1e-8) << i;
  }
}

TEST(WorkRowwise, FusingTheAttentionChainSavesItsBytes) {
  const double n = 1024.0 * 512;
  const auto bytes = [](Kind kind) { return work(Rowwise{kind, 1024, 512}).bytes().in(units::B); };
  const double forward = bytes(Kind::scale) + bytes(Kind::mask) + bytes(Kind::softmax) + bytes(Kind::dropout);
  const double backward = bytes(Kind::dropout_backward) + bytes(Kind::softmax_backward) + bytes(Kind::scale);
  EXPECT_DOUBLE_EQ(forward, 17 * n + 2 * 512);
  EXPECT_DOUBLE_EQ(backward, 15 * n);
  EXPECT_DOUBLE_EQ(bytes(Kind::scale_mask_softmax_dropout), 4 * n + 2 * 512 + 4 * 1024);
  EXPECT_DOUBLE_EQ(bytes(Kind::scale_mask_softmax_dropout_backward), 6 * n + 2 * 512 + 4 * 1024);
}

}  // namespace
}  // namespace plumbline::work_attention_chain_test
