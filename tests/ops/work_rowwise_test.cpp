// Row-wise operators: the formula against an execution of the definition.
#include <gtest/gtest.h>

#include <limits>

#include "ops/facts/work.hpp"
#include "tests/support/brute_force.hpp"

namespace plumbline::work_rowwise_test {
namespace {

using brute::Array;
using brute::Machine;
using brute::Num;
using Row = std::vector<Num>;
using Kind = RowwiseKind;

constexpr std::int64_t kRows = 3, kCols = 5, kAll = kRows * kCols;

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

Rowwise shape(Kind kind, bool residual = false, DType in = DType::bf16, DType out = DType::bf16) {
  return Rowwise{kind, kRows, kCols, residual, in, out};
}

Num at(const Row& row, std::int64_t c) { return row[static_cast<std::size_t>(c)]; }

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

TEST(WorkRowwise, SoftmaxEqualsExecution) {
  Execution run;
  run.start();
  for (std::int64_t r = 0; r < kRows; ++r) {
    Row row = run.row(r);
    Num largest(-std::numeric_limits<double>::infinity()), sum(0);
    for (Num v : row) largest = max(largest, v);
    for (Num& v : row) {
      v = exp(v - largest);
      sum += v;
    }
    const Num inverse = reciprocal(sum);
    for (std::int64_t c = 0; c < kCols; ++c) run.put(r, c, at(row, c) * inverse);
  }
  EXPECT_SAME_WORK(shape(Kind::softmax), run.machine);
  double sum = 0;
  for (std::int64_t c = 0; c < kCols; ++c) sum += run.y->peek(c);
  EXPECT_NEAR(sum, 1, 1e-12);
}

Num silu(Num x) { return x * reciprocal(Num(1) + exp(-x)); }

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

TEST(WorkRowwise, GradientsOfActivationsEqualExecution) {
  const auto check = [](Kind kind, auto f) {
    Execution run;
    run.start();
    Array& dy = run.machine.array(kAll, run.in);
    run.each([&](Num x, std::int64_t i) { return f(dy[i], x); });
    SCOPED_TRACE(name(kind));
    EXPECT_SAME_WORK(shape(kind), run.machine);
  };
  const auto sigmoid = [](Num x) { return reciprocal(Num(1) + exp(-x)); };
  check(Kind::silu_backward, [&](Num dy, Num x) {
    const Num s = sigmoid(x);
    return dy * (s * (Num(1) + x * (Num(1) - s)));
  });
  check(Kind::gelu_backward, [](Num dy, Num x) {
    const Num below = (Num(1) + erf(x * Num(std::sqrt(0.5)))) * Num(0.5);
    const Num density = exp(x * x * Num(-0.5)) * Num(0.3989422804);
    return dy * (below + x * density);
  });
  check(Kind::relu_backward, [](Num dy, Num x) { return x.value() > 0 ? dy : Num(0); });
}

TEST(WorkRowwise, SwigluBackwardEqualsExecution) {
  Execution run;
  run.start();  // dy, and the gate's gradient
  Array& gate = run.machine.array(kAll, run.in);
  Array& up = run.machine.array(kAll, run.in);
  Array& d_up = run.machine.array(kAll, run.out);
  run.each([&](Num dy, std::int64_t i) {
    const Num s = reciprocal(Num(1) + exp(-gate[i])), a = gate[i] * s;
    d_up.set(i, dy * a);
    return dy * up[i] * (s + a * (Num(1) - s));
  });
  EXPECT_SAME_WORK(shape(Kind::swiglu_backward), run.machine);
}

TEST(WorkRowwise, SumsOfColumnsEqualExecution) {
  Execution run;
  run.x = &run.machine.array(kAll, run.in);
  Array& sums = run.machine.array(kCols, 4);
  for (std::int64_t c = 0; c < kCols; ++c) {
    Num sum = sums[c];
    for (std::int64_t r = 0; r < kRows; ++r) sum += (*run.x)[r * kCols + c];
    sums.set(c, sum);
  }
  EXPECT_SAME_WORK(shape(Kind::sum_columns), run.machine);
}

/// Losses, and where asked their gradients over the logits: a (exp(x - lse) - [the target's]).
void losses(Execution& run, bool forward, bool backward, Array* to) {
  Array& targets = run.machine.array(kRows, 4);
  Array& lse = run.machine.array(kRows, 4);
  Array* loss = forward ? &run.machine.array(kRows, 4) : nullptr;
  for (std::int64_t r = 0; r < kRows; ++r) {
    targets.poke(r, static_cast<double>(r % kCols));
    const std::int64_t target = targets.index(r);
    const Row x = run.row(r);
    if (forward) {
      Num most(-std::numeric_limits<double>::infinity()), sum(0);
      for (Num v : x) most = max(most, v);
      for (Num v : x) sum += exp(v - most);
      lse.set(r, most + log(sum));
      loss->set(r, lse[r] - at(x, target));
    }
    if (!backward) continue;
    const Num whole = lse[r];
    for (std::int64_t c = 0; c < kCols; ++c) {
      const Num p = exp(at(x, c) - whole);
      to->set(r * kCols + c, Num(0.5) * (c == target ? p - Num(1) : p));
    }
  }
}

TEST(WorkRowwise, LossesEqualExecution) {
  for (const Kind kind : {Kind::cross_entropy, Kind::cross_entropy_backward, Kind::cross_entropy_fused}) {
    Execution run;
    run.x = &run.machine.array(kAll, run.in);
    const bool backward = kind != Kind::cross_entropy;
    Array* to = backward ? &run.machine.array(kAll, run.out) : nullptr;
    losses(run, kind != Kind::cross_entropy_backward, backward, to);
    SCOPED_TRACE(name(kind));
    EXPECT_SAME_WORK(shape(kind), run.machine);
  }
}

TEST(WorkRowwise, ElementwiseEqualsExecution) {
  const auto check = [](Kind kind, auto f) {
    Execution run;
    run.start();
    run.each(f);
    SCOPED_TRACE(name(kind));
    EXPECT_SAME_WORK(shape(kind), run.machine);
  };
  check(Kind::silu, [](Num x, std::int64_t) { return silu(x); });
  check(Kind::sigmoid, [](Num x, std::int64_t) { return reciprocal(Num(1) + exp(-x)); });
  check(Kind::gelu, [](Num x, std::int64_t) { return x * Num(0.5) * (Num(1) + erf(x * Num(std::sqrt(0.5)))); });
  check(Kind::copy, [](Num x, std::int64_t) { return x; });
  check(Kind::relu, [](Num x, std::int64_t) { return max(x, Num(0)); });
  check(Kind::squared_relu, [](Num x, std::int64_t) {
    const Num positive = max(x, Num(0));
    return positive * positive;
  });
  check(Kind::scale, [](Num x, std::int64_t) { return x * Num(0.125); });
}

TEST(WorkRowwise, TwoInputsEqualExecution) {
  for (Kind kind : {Kind::add, Kind::swiglu, Kind::mask}) {
    Execution run;
    run.start();
    Array& other = run.machine.array(kind == Kind::mask ? kCols : kAll, 2);
    run.each([&](Num x, std::int64_t i) {
      if (kind == Kind::add) return x + other[i];
      if (kind == Kind::swiglu) return silu(x) * other[i];
      return x + other[i % kCols];
    });
    SCOPED_TRACE(name(kind));
    EXPECT_SAME_WORK(shape(kind), run.machine);
  }
}

TEST(WorkRowwise, TransposeEqualsExecution) {
  Execution run;
  run.start();
  for (std::int64_t i = 0; i < kAll; ++i) run.y->set(i % kCols * kRows + i / kCols, (*run.x)[i]);
  EXPECT_SAME_WORK(shape(Kind::transpose_copy), run.machine);
}

TEST(WorkRowwise, RowReductionsEqualExecution) {
  Execution sums;
  sums.x = &sums.machine.array(kAll, 2);
  sums.y = &sums.machine.array(kRows, 4);
  for (std::int64_t r = 0; r < kRows; ++r) {
    Num sum(0);
    for (Num v : sums.row(r)) sum += v;
    sums.y->set(r, sum);
  }
  EXPECT_SAME_WORK(shape(Kind::sum_rows, false, DType::bf16, DType::fp32), sums.machine);

  Execution best;
  best.x = &best.machine.array(kAll, 2);
  best.y = &best.machine.array(kRows, 4);
  for (std::int64_t r = 0; r < kRows; ++r) {
    Num largest(-std::numeric_limits<double>::infinity());
    std::int64_t where = 0;
    const Row row = best.row(r);
    for (std::int64_t c = 0; c < kCols; ++c) {
      if (at(row, c) > largest) largest = at(row, c), where = c;
    }
    best.y->set(r, Num(static_cast<double>(where)));
  }
  EXPECT_SAME_WORK(shape(Kind::argmax), best.machine);
}

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

TEST(WorkRowwise, QuantizeEqualsExecution) {
  Execution run;
  run.out = 1;
  run.start();
  Array& scales = run.machine.array(kRows, 4);
  for (std::int64_t r = 0; r < kRows; ++r) {
    const Row row = run.row(r);
    Num largest(0);
    for (Num v : row) largest = max(largest, abs(v));
    const Num scale = largest * Num(1.0 / 448);
    scales.set(r, scale);
    const Num inverse = reciprocal(scale);
    for (std::int64_t c = 0; c < kCols; ++c) run.put(r, c, at(row, c) * inverse);
  }
  EXPECT_SAME_WORK(shape(Kind::quantize, false, DType::bf16, DType::fp8), run.machine);
}

TEST(WorkRowwise, AdamwEqualsExecution) {
  for (DType out : {DType::bf16, DType::fp32}) {
    Machine machine;
    Array& gradient = machine.array(kAll, 4);
    Array& weight = machine.array(kAll, 4);
    Array& m = machine.array(kAll, 4);
    Array& v = machine.array(kAll, 4);
    Array& copy = machine.array(kAll, 2);
    const Num b1(0.9), b2(0.95), c1(0.1), c2(0.05), decay(0.999), correction(1.1), eps(1e-8), step(1e-3);
    for (std::int64_t i = 0; i < kAll; ++i) {
      v.poke(i, 0.5);
      const Num g = gradient[i];
      const Num first = b1 * m[i] + c1 * g, second = b2 * v[i] + c2 * g * g;
      const Num root = sqrt(second) * correction + eps;
      const Num updated = weight[i] * decay - step * first * reciprocal(root);
      m.set(i, first), v.set(i, second), weight.set(i, updated);
      if (out == DType::bf16) copy.set(i, updated);
    }
    EXPECT_SAME_WORK(shape(Kind::adamw, false, DType::fp32, out), machine);
  }
}

TEST(WorkRowwise, RopeEqualsExecution) {
  const Rope s{3, 2, 6, DType::bf16};
  Machine machine;
  Array& x = machine.array(3 * 2 * 6, 2);
  Array& position = machine.array(3, 4);
  Array& frequency = machine.array(3, 4);
  double before = 0, after = 0;
  for (std::int64_t i = 0; i < 36; ++i) before += x.peek(i) * x.peek(i);
  for (std::int64_t t = 0; t < 3; ++t) {
    Row sine, cosine;
    for (std::int64_t f = 0; f < 3; ++f) {
      const Num angle = position[t] * frequency[f];
      sine.push_back(sin(angle)), cosine.push_back(cos(angle));
    }
    for (std::int64_t h = 0; h < 2; ++h) {
      for (std::int64_t f = 0; f < 3; ++f) {
        const std::int64_t i = (t * 2 + h) * 6 + f;
        const Num a = x[i], b = x[i + 3];
        x.set(i, a * at(cosine, f) - b * at(sine, f));
        x.set(i + 3, b * at(cosine, f) + a * at(sine, f));
      }
    }
  }
  EXPECT_SAME_WORK(s, machine);
  for (std::int64_t i = 0; i < 36; ++i) after += x.peek(i) * x.peek(i);
  EXPECT_NEAR(after, before, 1e-9);  // a rotation
}

}  // namespace
}  // namespace plumbline::work_rowwise_test
