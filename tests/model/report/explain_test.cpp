// The whiteboard text: the numbers that it shows are those of the prediction.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <sstream>
#include <string>

#include "arch/format.hpp"
#include "model/engine/timing.hpp"
#include "tests/support/equation.hpp"
#include "tests/support/random_gpu.hpp"

namespace plumbline::explain_test {
namespace {

using namespace testing_support;

bool holds(const std::string& text, const std::string& words) { return text.find(words) != std::string::npos; }

/// Every launch with its time and its limiter, the total, and no number that is not one.
RC_GTEST_PROP(Explain, NamesEveryLaunchAndItsTime, ()) {
  const auto m = random_machine();
  for (int i = 0; i < 20; ++i) {
    const Op op = random_op_on(m);
    const OpPrediction p = predict(op, m);
    const std::string text = explain(op, p, m);
    RC_LOG() << text;
    RC_ASSERT(holds(text, std::string(op_name(op))));
    RC_ASSERT(holds(text, shape_text(op)));
    RC_ASSERT(p.launch_count == 0 || holds(text, "    total "));
    RC_ASSERT(holds(text, std::string(name(p.bound)) + "-bound"));
    for (int k = 0; k < p.launch_count; ++k) {
      const LaunchPrediction& l = p.launches[static_cast<std::size_t>(k)];
      RC_ASSERT(holds(text, std::string(l.kernel) + ": " + format(l.time.total) + ", bound by " +
                                std::string(name(l.time.limiter))));
    }
    RC_ASSERT(!holds(text, "nan") && !holds(text, "inf "));
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) RC_ASSERT(!line.empty() && line.size() < 500);
  }
}

/// Every equation of a text, and how many there are.
struct Checked {
  std::string wrong;
  int equations = 0;
  double widest = 0;
};
Checked check_equations(const std::string& text) {
  EquationReader reader;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::string wrong = reader.check(line);
    if (!wrong.empty()) return {wrong, reader.equations(), reader.widest()};
  }
  return {"", reader.equations(), reader.widest()};
}

/// Cards of every generation and both kernel sets, at the boost clock and as the cap leaves it.
const std::vector<Machine>& ten_cards() {
  static const std::vector<Machine> cards = [] {
    std::vector<Machine> out;
    for (const char* card : {"h200_sxm", "h100_sxm", "h100_pcie", "a100_sxm", "a40", "l40s", "b200_sxm", "rtx_4090",
                             "v100_sxm", "mi300x"}) {
      MachineOptions options;
      options.stack = out.size() % 2 == 0 ? "own" : "trt-llm";
      options.clock = out.size() % 3 == 0 ? ClockMode::steady : ClockMode::burst;
      if (out.size() % 4 == 3) options.stack = "vllm";
      out.push_back(make_machine(load_gpu(card), options));
    }
    return out;
  }();
  return cards;
}

/// What is printed adds up: 2,000 operators on ten cards (20 of each of RapidCheck's 100 cases).
RC_GTEST_PROP(Explain, EveryEquationAddsUp, ()) {
  for (int i = 0; i < 20; ++i) {
    const Op op = *rc::gen::resize(rc::kNominalSize, rc::gen::exec(random_op));
    for (const auto& m : ten_cards()) {
      const auto p = try_predict(op, m);
      if (!p) continue;
      const std::string text = explain(op, *p, m);
      const Checked checked = check_equations(text);
      if (!checked.wrong.empty()) RC_FAIL(checked.wrong + "\n" + text);
      RC_ASSERT(checked.equations >= 1 + p->launch_count);
      RC_ASSERT(checked.widest < 0.01);  // digits enough to tell a wrong term
    }
  }
}

/// The record is the price: the same number to the last bit.
RC_GTEST_PROP(Explain, TheRecordIsThePrice, ()) {
  const auto m = random_machine();
  for (int i = 0; i < 20; ++i) {
    const OpPrediction p = predict(random_op_on(m), m);
    for (int k = 0; k < p.launch_count; ++k) {
      const LaunchPrediction& l = p.launches[static_cast<std::size_t>(k)];
      LaunchRecord record;
      RC_ASSERT(price(l.demand, m.rates(), *l.family, l.speeds, record).total == l.time.total);
      RC_ASSERT(record.total == l.time.total);
    }
  }
}

/// The reader sees what does not add up: a wrong digit, a wrong unit, a missing name.
TEST(EquationReader, RefusesWhatDoesNotAddUp) {
  EquationReader r;
  EXPECT_EQ(r.check("  l2 176.2 us = 512 CTAs x 64 steps x 48 KiB / 9.140 TB/s L2"), "");
  EXPECT_NE(r.check("  l2 94.80 us = 512 CTAs x 64 steps x 48 KiB / 9.170 TB/s L2"), "");
  EXPECT_NE(r.check("  l2 176.2 us = 512 CTAs x 64 steps x 48 KiB"), "");
  EXPECT_NE(r.check("  wave 176.2 us = (l3^8 + l2^8)^(1/8)"), "");
  EXPECT_EQ(r.check("  a 3 us = 1 us + 2 us"), "");
  EXPECT_EQ(r.check("  b 4 us = 4 clk / 1 MHz"), "");
  EXPECT_EQ(r.check("  c 5 us = (a^2 + b^2)^(1/2)"), "");
  EXPECT_NE(r.check("  c 7 us = (a^2 + b^2)^(1/2)"), "");
}

/// The toy GEMM of one exact wave: 10 CTAs on 10 SMs, 100 steps of 4194.3 clk at 1 GHz.
TEST(Explain, ShowsTheArithmetic) {
  const auto m = toy_machine();
  const Op op = Gemm{1280, 256, 6400, 1, {}, false};
  const OpPrediction p = predict(op, m);
  const std::string text = explain(op, p, m);
  EXPECT_TRUE(holds(text, "M=1280;N=256;K=6400")) << text;
  EXPECT_TRUE(holds(text, "gemm: 422 us, bound by tensor")) << text;
  EXPECT_TRUE(holds(text, "SM clock 1000 MHz")) << text;
  EXPECT_TRUE(holds(text, "no K split")) << text;
  EXPECT_TRUE(holds(text, "100 steps x 4194.3 clk / 1000 MHz")) << text;
  EXPECT_TRUE(holds(text, "compute-bound")) << text;
  EXPECT_TRUE(holds(text, "no measurement of this class is on file")) << text;
}

/// Ideal kernels launch nothing: a roofline and what rules it.
TEST(Explain, OfTheIdealIsItsRoofline) {
  const auto m = toy_machine(toy_gpu(), toy_calibration(), KernelSet::ideal);
  const Op op = Gemm{1280, 256, 6400, 1, {}, false};
  const std::string text = explain(op, predict(op, m), m);
  EXPECT_TRUE(holds(text, "datasheet roofline " + format(roofline(op, m.gpu())))) << text;
  EXPECT_TRUE(holds(text, "1.00 x")) << text;
  EXPECT_FALSE(holds(text, "launch(es)")) << text;
}

}  // namespace
}  // namespace plumbline::explain_test
