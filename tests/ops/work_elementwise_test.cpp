// Operators that treat each element alone, and rotary embedding: the formula against an execution of the definition.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/executed_rows.hpp"

namespace plumbline::work_elementwise_test {
namespace {

using namespace executed_rows;

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
}  // namespace plumbline::work_elementwise_test
