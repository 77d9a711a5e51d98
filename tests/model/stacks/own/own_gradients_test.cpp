// Our products of gradients: which kernel takes which shape, and what the plan says of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "arch/files.hpp"
#include "model/machines.hpp"
#include "model/predict.hpp"
#include "ops/csv.hpp"
#include "ops/plan/kernel_menu.hpp"
#include "ops/table/text.hpp"

namespace plumbline::own_gradients_test {
namespace {

Machine own_machine(const char* gpu = "h200_sxm") {
  MachineOptions options{"own"};
  options.clock = ClockMode::burst;
  return machines().get({gpu, options});
}

Op product(const std::string& shape) { return parse_op("gemm", "bf16", shape); }

bool on_menu(const GemmPlan& plan) {
  const auto menu = own_gradient_menu();
  return std::any_of(menu.begin(), menu.end(), [&](const GemmVariant& v) {
    return plan.tile_m == v.rows && plan.tile_n == v.cols && plan.stages == v.stages && plan.cluster_m == v.cluster;
  });
}

TEST(OwnGradients, RunOnTilesOfTheirOwnAndKeepTheirSides) {
  const Machine machine = own_machine();
  for (const char* kind : {";layout=kn", ";layout=kn;out=fp32", ";layout=kn;accumulate=1;out=fp32"}) {
    for (const char* shape : {"M=8192;N=2048;K=16384", "M=8;N=4096;K=4096", "M=256;N=8;K=100000", "M=136;N=72;K=8"}) {
      const OpPrediction p = predict(product(shape + std::string(kind)), machine);
      EXPECT_EQ(p.provider, "own") << shape << kind;
      EXPECT_EQ(p.family, "gemm");
      EXPECT_TRUE(on_menu(p.gemm_plan)) << shape << kind;
      EXPECT_FALSE(p.gemm_plan.swapped);
      EXPECT_GE(p.time, p.roofline);
    }
  }
}

TEST(OwnGradients, LeaveOtherShapesToTheNextProvider) {
  const Machine machine = own_machine();
  // rows of 16 bytes: of dY and W, or of dY and X, where K, the tokens, may be any number
  EXPECT_NE(predict(product("M=64;N=64;K=60;layout=kn"), machine).provider, "own");
  EXPECT_NE(predict(product("M=60;N=64;K=64;layout=kn;out=fp32"), machine).provider, "own");
  EXPECT_EQ(predict(product("M=64;N=64;K=61;layout=kn;out=fp32"), machine).provider, "own");
  // bf16 sums are not added to
  EXPECT_NE(predict(product("M=64;N=64;K=64;layout=kn;accumulate=1"), machine).provider, "own");
  // kernels for wgmma
  EXPECT_NE(predict(product("M=4096;N=4096;K=4096;layout=kn"), own_machine("a100_sxm_80gb")).provider, "own");
}

TEST(OwnGradients, AddingReadsWhatIsThere) {
  const Machine machine = own_machine();
  const OpPrediction fresh = predict(product("M=8192;N=4096;K=4096;layout=kn;out=fp32"), machine);
  const OpPrediction added = predict(product("M=8192;N=4096;K=4096;layout=kn;out=fp32;accumulate=1"), machine);
  EXPECT_NEAR((added.dram_read - fresh.dram_read).in(units::B), 8192.0 * 4096 * 4, 8192.0 * 4096 * 0.4);
  EXPECT_GE(added.time, fresh.time);
}

}  // namespace
}  // namespace plumbline::own_gradients_test
