// Scalars of a calibration as the families of a stack take them: whose stand in, how they go over to another card, which
// are not asked for.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "arch/error.hpp"
#include "model/machine/parts.hpp"
#include "model/stacks/common/gemm_tiles.hpp"
#include "model/stacks/cublas/plan_gemm.hpp"
#include "model/stacks/flash_attention/plan_attention.hpp"
#include "model/stacks/own/own_kernels.hpp"
#include "model/stacks/providers.hpp"
#include "model/stacks/trtllm/plan_attention.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/toy_machine.hpp"

namespace plumbline::read_scalars_test {
namespace {

using namespace testing_support;

/// A stack of these providers, and what a calibration gives it on the toy GPU.
struct Read {
  StackParts parts;
  std::vector<std::string> assumptions;
  RateScalars scalars;

  explicit Read(const Stack& stack, const Calibration& calibration = toy_calibration(),
                const MachineOptions& options = {})
      : parts(stack), scalars(read_rate_scalars(toy_gpu(), calibration, std::nullopt, options, parts, assumptions)) {}

  /// Family `which` of provider `provider` of the stack.
  const FamilyScalars& family(std::size_t which, std::size_t provider = 0) const {
    return scalars.base.families[parts.providers[provider].first_family + which];
  }
  const FamilyOrigin& origin(std::size_t which, std::size_t provider = 0) const {
    return parts.families[parts.providers[provider].first_family + which];
  }
};

Stack stack_of(const std::string& providers) {
  return parse_stack(R"({"schema": 1, "name": "mine", "title": "My stack", "providers": [)" + providers +
                         R"(], "prefill_appends": true, "fusion": "none", "runtime": "graph"})",
                     "mine.json");
}

Stack alone(const std::string& provider) { return stack_of(R"({"provider": ")" + provider + R"("})"); }

void set(Calibration& c, const std::string& family, const char* name, double value) {
  c.families[family][name] = Scalar{value, "a round number"};
}

TEST(FamilyScalars, AreReadByName) {
  Calibration c = toy_calibration();
  const char* names[] = {"efficiency_fraction",
                         "dram_share_fraction",
                         "half_lines_fraction",
                         "exposed",
                         "per_cta_s",
                         "step_s",
                         "step_clk",
                         "start_clk",
                         "merge_clk",
                         "issue_start_clk",
                         "issue_step_clk",
                         "in_flight_B",
                         "sm_in_flight_B",
                         "counter_s",
                         "tensor_burst_fraction",
                         "tensor_steady_fraction",
                         "clock_droop_fraction",
                         "gap_inside_s"};
  double value = 0.01;
  for (const char* name : names) set(c, "library.gemm", name, value += 0.01);
  const FamilyScalars f = Read(alone("cublas"), c).family(cublas::kGemm);
  EXPECT_DOUBLE_EQ(f.efficiency, 0.02);
  EXPECT_DOUBLE_EQ(f.dram_share, 0.03);
  EXPECT_DOUBLE_EQ(f.half_lines, 0.04);
  EXPECT_DOUBLE_EQ(f.exposed, 0.05);
  EXPECT_DOUBLE_EQ(f.per_cta.in(units::s), 0.06);
  EXPECT_DOUBLE_EQ(f.step.in(units::s), 0.07);
  EXPECT_DOUBLE_EQ(f.step_clk, 0.08);
  EXPECT_DOUBLE_EQ(f.start_clk, 0.09);
  EXPECT_DOUBLE_EQ(f.merge_clk, 0.10);
  EXPECT_DOUBLE_EQ(f.issue_start_clk, 0.11);
  EXPECT_DOUBLE_EQ(f.issue_step_clk, 0.12);
  EXPECT_DOUBLE_EQ(f.in_flight.in(units::B), 0.13);
  EXPECT_DOUBLE_EQ(f.sm_in_flight.in(units::B), 0.14);
  EXPECT_DOUBLE_EQ(f.counter.in(units::s), 0.15);
  EXPECT_DOUBLE_EQ(f.tensor_burst, 0.16);
  EXPECT_DOUBLE_EQ(f.tensor_steady, 0.17);
  EXPECT_DOUBLE_EQ(f.skipped_cycles, 0.18);
  EXPECT_DOUBLE_EQ(f.gap_inside.in(units::s), 0.19);
  EXPECT_DOUBLE_EQ(f.fixed.in(units::us), 1);
  EXPECT_TRUE(f.on_file);
}

/// What a family does not say of the tensor rate is the machine's; steadily, without energies, the share that lasts.
TEST(FamilyScalars, TakeTheMachinesSharesOfTheTensorRate) {
  Calibration c = toy_calibration();
  c.machine["tensor_burst_fraction"].value = 0.8;
  c.machine["tensor_steady_fraction"].value = 0.6;
  EXPECT_DOUBLE_EQ(Read(alone("cublas"), c).family(cublas::kGemm).tensor_burst, 0.8);
  EXPECT_DOUBLE_EQ(Read(alone("cublas"), c).family(cublas::kGemm).tensor_steady, 0.6);
  MachineOptions steady;
  steady.clock = ClockMode::steady;
  EXPECT_DOUBLE_EQ(Read(alone("cublas"), c, steady).family(cublas::kGemm).tensor_burst, 0.6);
  EXPECT_DOUBLE_EQ(Read(alone("cublas"), c, steady).scalars.base.tensor_fraction, 0.6);
  EXPECT_DOUBLE_EQ(Read(alone("cublas")).family(cublas::kGemm).efficiency, 1);
}

/// Families whose own scalars are not on file: another one's numbers, the family's own name.
TEST(StandIns, GiveTheirNumbersAndNotTheirName) {
  Calibration c = toy_calibration();
  c.families.erase("library.grouped_gemm");
  c.families["library.gemm"]["fixed_s"].value = 3e-6;
  const Read read(alone("cublas"), c);
  for (const auto which : {cublas::kGemmMma, cublas::kGrouped}) {
    EXPECT_DOUBLE_EQ(read.family(which).fixed.in(units::us), 3);
    EXPECT_TRUE(read.family(which).on_file);
    EXPECT_FALSE(read.origin(which).inherited);
  }
  EXPECT_STREQ(read.family(cublas::kGemmMma).name, "gemm_mma");
  set(c, "library.gemm_mma", "fixed_s", 5e-6);
  set(c, "library.gemm_mma", "overlap", 4);
  EXPECT_DOUBLE_EQ(Read(alone("cublas"), c).family(cublas::kGemmMma).fixed.in(units::us), 5);
}

/// What stands in goes over to another card as it does where it is itself; with scalars of its own a family goes by its
/// own rule.
TEST(StandIns, BringTheirOwnCarryOver) {
  constexpr CarryOver kOfGemm{
      .fixed_in_cycles = true, .in_flight_with_memory = true, .skips_as_rated = true, .cold_trips = gemm::kColdTrips};
  CarryOver by_cp_async = kOfGemm;
  by_cp_async.cold_trips = 0;
  Calibration c = toy_calibration();
  const Read stood_in(alone("cublas"), c);
  EXPECT_EQ(stood_in.family(cublas::kGemm).carry, kOfGemm);
  EXPECT_EQ(stood_in.family(cublas::kGemmMma).carry, by_cp_async) << "what its plan counts stays its own";
  EXPECT_EQ(stood_in.family(cublas::kGrouped).carry, (CarryOver{.cold_trips = gemm::kColdTrips})) << "on file: its own";
  set(c, "library.gemm_mma", "fixed_s", 5e-6);
  set(c, "library.gemm_mma", "overlap", 4);
  c.families.erase("library.grouped_gemm");
  const Read own(alone("cublas"), c);
  EXPECT_EQ(own.family(cublas::kGemmMma).carry, (CarryOver{.fixed_in_cycles = true, .skips_as_rated = true}));
  EXPECT_EQ(own.family(cublas::kGrouped).carry, kOfGemm);
}

/// Kernels that nobody measured are inherited for as long as another family stands in for them.
TEST(StandIns, MayMakePredictionsInherited) {
  Calibration c = toy_calibration();
  const Read stood_in(alone("flashinfer"), c);
  EXPECT_TRUE(stood_in.origin(flash_attention::kPrefill).inherited);
  EXPECT_TRUE(stood_in.origin(flash_attention::kDecode).inherited);
  EXPECT_FALSE(stood_in.origin(flash_attention::kCombine).inherited);
  EXPECT_FALSE(stood_in.origin(flash_attention::kAppend).inherited);
  c.families["library.flashinfer_decode"] = c.families["library.flash_decode"];
  const Read measured(alone("flashinfer"), c);
  EXPECT_TRUE(measured.origin(flash_attention::kPrefill).inherited);
  EXPECT_FALSE(measured.origin(flash_attention::kDecode).inherited);
}

/// A provider that is left only some operators has no need of the others' families, on file or not.
TEST(Families, OfOperatorsThatOthersRunAreNotRead) {
  const char* providers = R"({"provider": "trtllm", "ops": ["mla_decode"]}, {"provider": "flash_attention"})";
  Calibration c = toy_calibration();
  const Read read(stack_of(providers), c);
  EXPECT_FALSE(read.family(trtllm::kPrefill).on_file);
  EXPECT_FALSE(read.family(trtllm::kDecode).on_file);
  EXPECT_TRUE(read.family(trtllm::kMla).on_file);
  EXPECT_TRUE(read.family(trtllm::kCombine).on_file) << "of several operators";
  EXPECT_TRUE(read.family(flash_attention::kPrefill, 1).on_file);
  EXPECT_EQ(read.parts.providers[1].first_family, trtllm::kFamilies);
  c.families.erase("library.attention_prefill");
  EXPECT_NO_THROW(Read(stack_of(providers), c));
  c.families.erase("library.mla_decode");
  EXPECT_THROW(Read(stack_of(providers), c), BadInput);
}

TEST(Families, ThatNobodyNeedsMayBeAbsent) {
  const Read read(alone("trtllm"));
  EXPECT_FALSE(read.family(trtllm::kDecode8bit).on_file);
  EXPECT_STREQ(read.family(trtllm::kDecode8bit).name, "attention_decode_8bit");
  EXPECT_EQ(read.family(trtllm::kDecode8bit).fixed, Seconds{});
}

/// cuBLAS's as often as there is room for all of them, and not once more.
TEST(Families, BeyondTheRoomForThemAreRefused) {
  Stack stack = alone("cublas");
  stack.providers.resize(Rates::kMostFamilies / cublas::kFamilies, stack.providers[0]);
  EXPECT_EQ(Read(stack).parts.families.size(), Rates::kMostFamilies / cublas::kFamilies * cublas::kFamilies);
  stack.providers.push_back(stack.providers[0]);
  try {
    Read read(stack);
    FAIL() << "took more";
  } catch (const BadInput& error) {
    EXPECT_STREQ(error.what(), "stack mine: more than 128 kernel families");
  }
}

/// Where others stand in for our kernels, those whose absence matters are named, in order.
TEST(Families, WhoseAbsenceMattersAreNamed) {
  const char* providers = R"({"provider": "own"}, {"provider": "cublas", "stands_in": true})";
  Calibration c = toy_calibration();
  Read read(stack_of(providers), c);
  ASSERT_EQ(read.assumptions.size(), 2U);
  const std::string& first = read.assumptions[0];
  EXPECT_EQ(first.substr(first.find("coefficients: ")),
            "coefficients: gemm, attention_prefill, attention_decode, rowwise");
  EXPECT_FALSE(read.family(own::kGemm).on_file);
  EXPECT_TRUE(read.family(own::kReduce).on_file) << "the library's stands in";
  for (const char* name : kOwnFamilies) c.families[std::string("own.") + name] = c.families["library.gemm"];
  EXPECT_EQ(Read(stack_of(providers), c).assumptions.size(), 1U);
  EXPECT_TRUE(Read(alone("cublas")).assumptions.empty()) << "ours are not asked for";
}

/// Which operators a provider is left: all, its own, or those that the file names.
TEST(StackedProviders, RunWhatIsLeftToThem) {
  const StackParts parts(stack_of(R"({"provider": "own", "ops": ["rmsnorm"]}, {"provider": "cublas"},
                                     {"provider": "generic"})"));
  const auto runs = [&](std::size_t i, const char* op) { return parts.providers[i].runs(op); };
  EXPECT_TRUE(runs(0, "rmsnorm"));
  EXPECT_FALSE(runs(0, "layernorm")) << "the same shape, another kind";
  EXPECT_FALSE(runs(0, "gemm"));
  EXPECT_TRUE(runs(1, "gemm"));
  EXPECT_FALSE(runs(1, "rmsnorm"));
  EXPECT_TRUE(runs(2, "rmsnorm"));
  EXPECT_TRUE(runs(2, "mla_decode"));
}

TEST(IdealScalars, NeedNoCalibrationAndHaveNoPower) {
  MachineOptions options;
  EXPECT_EQ(Read(alone("ideal"), Calibration{}, options).scalars.dram_read, 1);
  options.power_cap = 100.0 * units::W;
  EXPECT_THROW(Read(alone("ideal"), Calibration{}, options), NotModelled);
}

}  // namespace
}  // namespace plumbline::read_scalars_test
