// Row-wise kernels of serving stacks (model/stacks/serving_rows): who runs them, how a row is cut, what that costs.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "model/kernel_time.hpp"
#include "model/machines.hpp"
#include "model/predict.hpp"
#include "ops/table/text.hpp"

namespace plumbline::serving_rows_test {
namespace {

OpPrediction on(const std::string& op, const std::string& shape, const std::string& stack,
                const std::string& dtype = "bf16", const std::string& gpu = "h200_sxm") {
  MachineOptions options{stack};
  options.clock = ClockMode::burst;
  return predict(parse_op(op, dtype, shape), machines().get({gpu, options}));
}
double us(const OpPrediction& p) { return kernel_time(p).in(units::us); }
std::int64_t ctas(const OpPrediction& p) { return p.launches[0].demand.plan.ctas; }

TEST(ServingRows, EachStackHasItsOwn) {
  EXPECT_EQ(on("rmsnorm", "rows=64;cols=4096;residual=1", "trt-llm").provider, "flashinfer_rows");
  EXPECT_EQ(on("swiglu", "rows=64;cols=4096", "sglang").provider, "flashinfer_rows");
  EXPECT_EQ(on("rope", "tokens=64;heads=40;D=128", "sglang").provider, "flashinfer_rows");
  EXPECT_EQ(on("rope", "tokens=64;heads=40;D=128", "trt-llm").provider, "generic") << "its own kernel: not measured";
  EXPECT_EQ(on("rmsnorm", "rows=64;cols=4096", "vllm").provider, "generic") << "Inductor's: not measured";
  EXPECT_EQ(on("rmsnorm", "rows=64;cols=4096", "vllm-custom-ops").provider, "vllm_rows");
  EXPECT_EQ(on("argmax", "rows=1;cols=128256", "vllm").provider, "pytorch_rows");
  EXPECT_EQ(on("embedding", "rows=64;cols=4096", "vllm").provider, "generic");
  EXPECT_EQ(on("rmsnorm", "rows=64;cols=4096", "trt-llm", "fp32").provider, "generic") << "of 16 bits alone";
}

/// 256 values a thread and more are cut into CTAs of a row (PyTorch's setReduceConfig()): a cliff at 512 x 256 values.
TEST(ServingRows, ARowOfLogitsIsOneCtasUntilItIsCut) {
  const OpPrediction below = on("argmax", "rows=1;cols=130560", "trt-llm"),
                     above = on("argmax", "rows=1;cols=131072", "trt-llm");
  EXPECT_EQ(ctas(below), 1);
  EXPECT_EQ(ctas(above), 16);
  EXPECT_GT(us(below), 3 * us(above));
  EXPECT_EQ(ctas(on("argmax", "rows=38;cols=262144", "trt-llm")), 38 * 14);
  EXPECT_EQ(on("argmax", "rows=512;cols=1000", "trt-llm").provider, "generic") << "rows side by side in a CTA";
}

TEST(ServingRows, WhatIsNoWholeTurnOfAGatedUnitIsGoneThroughAgain) {
  EXPECT_GT(us(on("swiglu", "rows=1;cols=14336", "sglang")), 1.4 * us(on("swiglu", "rows=1;cols=8192", "sglang")));
}

TEST(ServingRows, ElementsOneByOneCostVllmTwice) {
  EXPECT_GT(us(on("swiglu", "rows=4096;cols=8192", "vllm-custom-ops")),
            1.7 * us(on("swiglu", "rows=4096;cols=8192", "sglang")));
  EXPECT_GT(us(on("rope", "tokens=4096;heads=40;D=128", "vllm-custom-ops")),
            1.7 * us(on("rope", "tokens=4096;heads=40;D=128", "sglang")));
}

/// 0.602 ns a CTA, and twice that of FlashInfer's norms (H200: 241 and 122 us).
TEST(ServingRows, NormsOfHeadsWaitForTheirCtasToBegin) {
  EXPECT_NEAR(us(on("rmsnorm", "rows=198912;cols=128", "sglang")), 241, 15);
  EXPECT_NEAR(us(on("rmsnorm", "rows=198912;cols=128", "vllm-custom-ops")), 122, 40);
}

TEST(ServingRows, OtherCardsTakeTheScalarsOver) {
  for (const char* gpu : {"h100_sxm", "a100_sxm", "b200_sxm", "l40s"}) {
    EXPECT_GT(us(on("rmsnorm", "rows=1024;cols=4096;residual=1", "sglang", "bf16", gpu)),
              us(on("rmsnorm", "rows=64;cols=4096;residual=1", "sglang", "bf16", gpu)))
        << gpu;
  }
}

}  // namespace
}  // namespace plumbline::serving_rows_test
