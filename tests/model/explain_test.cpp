// The whiteboard text: the numbers that it shows are those of the prediction.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <sstream>
#include <string>

#include "arch/format.hpp"
#include "tests/support/random_gpu.hpp"

namespace plumbline {
namespace {

using namespace testing_support;

bool holds(const std::string& text, const std::string& words) { return text.find(words) != std::string::npos; }

/// Every launch with its time and its limiter, the total, and no number that is not one.
RC_GTEST_PROP(Explain, NamesEveryLaunchAndItsTime, ()) {
  const auto m = random_machine();
  for (int i = 0; i < 20; ++i) {
    const Op op = random_op_on(*m);
    const OpPrediction p = predict(op, *m);
    const std::string text = explain(op, p, *m);
    RC_LOG() << text;
    RC_ASSERT(holds(text, std::string(op_name(op))));
    RC_ASSERT(holds(text, shape_text(op)));
    RC_ASSERT(holds(text, "= " + format(p.time)));
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

/// The toy GEMM of one exact wave: 10 CTAs on 10 SMs, 100 steps of 4194.3 clk at 1 GHz.
TEST(Explain, ShowsTheArithmetic) {
  const auto m = toy_machine();
  const Op op = Gemm{1280, 256, 6400, 1, {}, false};
  const OpPrediction p = predict(op, *m);
  const std::string text = explain(op, p, *m);
  EXPECT_TRUE(holds(text, "M=1280;N=256;K=6400")) << text;
  EXPECT_TRUE(holds(text, "gemm: 422 us, bound by tensor")) << text;
  EXPECT_TRUE(holds(text, "SM clock 1000 MHz")) << text;
  EXPECT_TRUE(holds(text, "no K split")) << text;
  EXPECT_TRUE(holds(text, "compute-bound")) << text;
  EXPECT_TRUE(holds(text, "no measurement of this class is on file")) << text;
}

/// Ideal kernels launch nothing: a roofline and what rules it.
TEST(Explain, OfTheIdealIsItsRoofline) {
  const auto m = toy_machine(toy_gpu(), toy_calibration(), KernelSet::ideal);
  const Op op = Gemm{1280, 256, 6400, 1, {}, false};
  const std::string text = explain(op, predict(op, *m), *m);
  EXPECT_TRUE(holds(text, "datasheet roofline " + format(roofline(op, m->gpu)))) << text;
  EXPECT_TRUE(holds(text, "1.00 x")) << text;
  EXPECT_FALSE(holds(text, "launch(es)")) << text;
}

}  // namespace
}  // namespace plumbline
