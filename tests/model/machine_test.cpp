// Machines: descriptor x calibration x kernel set x clock. Every card on file makes one.
#include "model/machine.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "arch/calibration/names.hpp"
#include "arch/error.hpp"
#include "arch/files.hpp"
#include "arch/gpu/peaks.hpp"
#include "model/bands/bands.hpp"
#include "model/engine/rates.hpp"
#include "tests/support/planners.hpp"
#include "tests/support/sampled.hpp"
#include "tests/support/toy_machine.hpp"

namespace plumbline::machine_test {
namespace {

using testing_support::scalars_of;

using testing_support::toy_calibration;
using testing_support::toy_machine;

bool says(const std::vector<std::string>& lines, const std::string& words) {
  return std::any_of(lines.begin(), lines.end(),
                     [&](const std::string& line) { return line.find(words) != std::string::npos; });
}

std::vector<std::string> calibrated_gpus() { return json_file_names(data_folder() + "/calibration"); }

std::vector<std::string> tested_gpus() { return test::sampled(gpu_names()); }

class EveryGpu : public ::testing::TestWithParam<std::string> {};

TEST_P(EveryGpu, MakesAMachineOfEveryKernelSetAndClock) {
  const Gpu gpu = load_gpu(GetParam());
  for (const KernelSet kernels : {KernelSet::own, KernelSet::library, KernelSet::ideal}) {
    for (const ClockMode clock : {ClockMode::burst, ClockMode::steady}) {
      const auto m = make_machine(gpu, MachineOptions{usual_stack(kernels), clock, std::nullopt});
      EXPECT_EQ(m.kernels(), kernels);
      EXPECT_EQ(m.rates().clock, gpu.boost_clock);
      EXPECT_FALSE(m.assumptions().empty());
      const OpPrediction p = predict(Rowwise{RowwiseKind::rmsnorm, 4096, 8192}, m);
      EXPECT_TRUE(std::isfinite(p.time.in(units::s)) && p.time > Seconds{});
      EXPECT_TRUE(p.low <= p.time && p.time <= p.high);
      const OpPrediction host = predict(Transfer{TransferKind::h2d, 1 << 20}, m);
      EXPECT_TRUE(std::isfinite(host.time.in(units::s)) && host.time > Seconds{});
    }
  }
}

/// Only the GPU whose file it is may call the calibration its own; another says whose fractions it runs on.
TEST_P(EveryGpu, SaysWhoseCalibrationItHas) {
  const Gpu gpu = load_gpu(GetParam());
  const std::vector<std::string> files = calibrated_gpus();
  const bool own_file = std::find(files.begin(), files.end(), gpu.name) != files.end();
  const auto m = make_machine(gpu, MachineOptions{"trt-llm", ClockMode::burst, std::nullopt});
  EXPECT_EQ(m.provenance() == Provenance::measured, own_file);
  EXPECT_EQ(says(m.assumptions(), "fractions of peak taken over from " + m.calibration().gpu), !own_file);
  EXPECT_EQ(m.calibration().gpu, own_file ? gpu.name : gpu.calibration);
}

/// A card that takes another's scalars over has the bands that such cards were found to have.
TEST_P(EveryGpu, InheritsTransferBands) {
  const Gpu gpu = load_gpu(GetParam());
  const auto m = make_machine(gpu, MachineOptions{"trt-llm", ClockMode::burst, std::nullopt});
  if (m.provenance() == Provenance::measured) return;
  const bool near = load_gpu(m.calibration().gpu).generation == gpu.generation;
  const BandTable table(m.calibration(), near ? BandSection::near : BandSection::far);
  for (const std::int64_t rows : {1, 64, 4096, 65536}) {
    const OpPrediction p = predict(Gemm{rows, 4096, 4096, 1, *parse_precision("fp16"), false}, m);
    const Band& band = table.find(KernelSet::library, p.band_class, p.time, p.bound);
    EXPECT_GT(p.band_rows, 0);
    EXPECT_EQ(p.band_rows, band.rows);
    const BandEnds ends = table.ends(KernelSet::library, p.band_class, p.time, p.bound, p.roofline / p.time);
    // whether what other cards' residuals have in common carries over, nobody knows
    EXPECT_EQ(p.low, std::max(p.roofline, p.time * std::exp(std::min({0.0, ends.low, ends.low - band.middle}))));
    EXPECT_EQ(p.high, p.time * std::exp(std::max({0.0, ends.high, ends.high - band.middle})));
  }
}

TEST_P(EveryGpu, RatesAreSharesOfItsPeaks) {
  const Gpu gpu = load_gpu(GetParam());
  const auto m = make_machine(gpu, MachineOptions{"trt-llm", ClockMode::burst, std::nullopt});
  for (const Bandwidth rate : {m.rates().dram_read, m.rates().dram_write}) {
    EXPECT_GT(rate, 0.5 * gpu.memory.bandwidth);
    EXPECT_LE(rate, gpu.memory.bandwidth);
  }
  EXPECT_GT(m.rates().l2, m.rates().dram_read) << "a cache slower than what it caches";
  EXPECT_LE(m.rates().l2, l2_peak(gpu, m.rates().clock));
  EXPECT_LE(m.rates().l2_capacity, gpu.l2.size);
  EXPECT_GT(m.rates().tensor_fraction, 0.3);
  EXPECT_LE(m.rates().tensor_fraction, 1.0);
  EXPECT_LE(m.rates().tensor_steady_fraction, m.rates().tensor_fraction);
  EXPECT_GE(m.rates().gap_stream, m.rates().gap_graph);
  for (const FamilyScalars* f :
       {&scalars_of(m, "library.gemm"), &scalars_of(m, "library.grouped_gemm"),
        &scalars_of(m, "library.attention_prefill"), &scalars_of(m, "library.attention_decode"),
        &scalars_of(m, "library.attention_decode_single"), &scalars_of(m, "library.mla_decode"),
        &scalars_of(m, "library.rowwise"), &scalars_of(m, "library.reduce"), &scalars_of(m, "library.combine")}) {
    EXPECT_GT(f->fixed, Seconds{});
    EXPECT_LT(f->fixed, 20.0 * units::us);
    EXPECT_GE(f->overlap, 1);
    EXPECT_TRUE(f->efficiency > 0 && f->efficiency <= 1);
    // A share, so at most 1 by its definition. Fits on A100 and H200 have put up to 4.8 there (GEMM: stores slower than
    // the L2 port that they are counted at; A100 prefill 2.3: more than no overlap at all, so it stands in for
    // something else). Only nonsense is refused here until those terms are told apart.
    EXPECT_TRUE(f->exposed >= 0 && f->exposed <= 6);
  }
}

INSTANTIATE_TEST_SUITE_P(Data, EveryGpu, ::testing::ValuesIn(tested_gpus()), [](const auto& gpu) { return gpu.param; });

TEST(CalibrationFiles, AreReadAndNameThemselves) {
  const std::vector<std::string> files = calibrated_gpus();
  ASSERT_FALSE(files.empty());
  for (const std::string& name : files) {
    const Calibration c = load_calibration(name, "");
    EXPECT_EQ(c.gpu, name);
    EXPECT_FALSE(c.inherited);
    EXPECT_NO_THROW(load_gpu(name));
    for (const auto& [key, band] : c.bands) {
      EXPECT_LE(band.low, band.high) << name << " " << key;
      EXPECT_LT(band.high - band.low, 4) << name << " " << key;  // A100: decode that falls to a kernel 20 times slower
    }
  }
}

// --- missing numbers -------------------------------------------------------------------------------------------------

std::string refusal(const Calibration& c, const char* stack = "trt-llm") {
  MachineOptions options;
  options.stack = stack;
  try {
    (void)make_machine(toy_gpu(), c, options);
  } catch (const BadInput& error) {
    return error.what();
  }
  return "";
}

/// Every name that a file may have under "machine" is one without which, or with another value of which, the machine is
/// another one.
TEST(MachineScalars, EachIsReadByTheEngine) {
  for (const std::string_view name : machine_scalar_names()) {
    Calibration without = toy_calibration();
    without.machine.erase(std::string(name));
    if (name == "kernel_change_s") {  // a step's, which a card may lack
      without.machine["kernel_change_s"] = Scalar{1e-6, "a round number"};
      EXPECT_DOUBLE_EQ(toy_machine(toy_gpu(), without).rates().kernel_change.in(units::us), 1);
      continue;
    }
    EXPECT_NE(refusal(without).find("missing scalar '" + std::string(name) + "'"), std::string::npos) << name;
  }
}

TEST(MissingScalars, OfTheMachineAreNamed) {
  const Calibration whole = toy_calibration();
  EXPECT_EQ(refusal(whole), "");
  for (const auto& [name, scalar] : whole.machine) {
    Calibration c = whole;
    c.machine.erase(name);
    const std::string message = refusal(c);
    EXPECT_NE(message.find("'" + name + "'"), std::string::npos) << message;
    EXPECT_NE(message.find("calibration of toy"), std::string::npos) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos);
  }
}

TEST(MissingScalars, OfAFamilyAreNamed) {
  for (const char* family : testing_support::kFamilies) {
    const std::string key = std::string("library.") + family;
    const bool flash = std::string_view(family).substr(0, 6) == "flash_";
    const auto refused = [flash](const Calibration& without) { return refusal(without, flash ? "vllm" : "trt-llm"); };
    Calibration c = toy_calibration();
    c.families.erase(key);
    if (key == "library.grouped_gemm") {  // priced as one GEMM until it has rows of its own
      const auto m = toy_machine(toy_gpu(), c);
      EXPECT_EQ(scalars_of(m, "library.grouped_gemm").fixed, scalars_of(m, "library.gemm").fixed);
      EXPECT_STREQ(scalars_of(m, "library.grouped_gemm").name, "grouped_gemm");
      continue;
    }
    EXPECT_NE(refused(c).find("'" + key + "'"), std::string::npos) << refused(c);
    for (const char* scalar : {"fixed_s", "overlap"}) {
      c = toy_calibration();
      c.families[key].erase(scalar);
      const std::string message = refused(c);
      EXPECT_NE(message.find(key), std::string::npos) << message;
      EXPECT_NE(message.find("'" + std::string(scalar) + "'"), std::string::npos) << message;
    }
    c = toy_calibration();
    c.families[key].erase("step_s");  // not every family uses it
    EXPECT_EQ(refused(c), "");
  }
}

/// A format that a card has no path for has no roof: every stack refuses it, the ideal too.
TEST(Ideal, RefusesFormatsThatOthersRefuse) {
  const Gpu h100 = load_gpu("h100_sxm");
  for (const char* stack : {"ideal", "trt-llm"}) {
    const auto m = make_machine(h100, MachineOptions{stack, ClockMode::burst, std::nullopt});
    EXPECT_THROW((void)predict(Gemm{64, 64, 64, 1, *parse_precision("nvfp4"), false}, m), BadInput) << stack;
    EXPECT_THROW((void)predict(AttentionDecode{1, 8, 8, 128, 128, 64, 0, 0, DType::fp4, DType::bf16}, m), BadInput)
        << stack;
    EXPECT_NO_THROW((void)predict(Gemm{64, 64, 64, 1, *parse_precision("fp8"), false}, m)) << stack;
  }
}

/// The ideal kernels need no calibration at all.
TEST(MissingScalars, DoNotMatterToTheIdeal) { EXPECT_EQ(refusal(Calibration{}, "ideal"), ""); }

// --- scalars ---------------------------------------------------------------------------------------------------------

TEST(Machines, AreSharesOfTheDescriptor) {
  Calibration c = toy_calibration();
  c.machine["dram_read_fraction"].value = 0.9;
  c.machine["dram_loaded_latency_ratio"].value = 2;
  c.machine["l2_usable_fraction"].value = 0.5;
  c.machine["pcie_fraction"].value = 0.8;
  const auto m = toy_machine(toy_gpu(), c);
  EXPECT_DOUBLE_EQ(m.rates().dram_read.in(units::TB_per_s), 0.9);
  EXPECT_DOUBLE_EQ(m.rates().dram_write.in(units::TB_per_s), 1);
  EXPECT_DOUBLE_EQ(m.rates().dram_latency.in(units::ns), 1000);
  EXPECT_DOUBLE_EQ(m.rates().l2_capacity.in(units::MiB), 16);
  EXPECT_DOUBLE_EQ(m.rates().pcie.in(units::GB_per_s), 20);
  EXPECT_DOUBLE_EQ(m.rates().l2.in(units::TB_per_s), 10);
  EXPECT_DOUBLE_EQ(m.rates().sm_count, 10);
}

/// Burst 0.8, steady 0.6, lag 50 ms. Ten launches of 5 ms last one lag: the mean of e^-x over [0, 1] is 1 - 1/e.
TEST(Machines, TheClockSinksOverABurst) {
  Calibration c = toy_calibration();
  c.machine["tensor_burst_fraction"].value = 0.8;
  c.machine["tensor_steady_fraction"].value = 0.6;
  c.machine["regulator_lag_s"].value = 0.05;
  const auto burst = toy_machine(toy_gpu(), c);
  EXPECT_DOUBLE_EQ(burst.rates().sustained_fraction(Seconds{}), 0.8);
  EXPECT_NEAR(burst.rates().sustained_fraction(5.0 * units::ms), 0.6 + 0.2 * (1 - std::exp(-1.0)), 1e-12);
  EXPECT_NEAR(burst.rates().sustained_fraction(100.0 * units::s), 0.6, 1e-4);
  for (double t = 1e-9; t < 10; t *= 3) {
    EXPECT_LE(burst.rates().sustained_fraction(3 * t * units::s),
              burst.rates().sustained_fraction(t * units::s) + 1e-9);
  }
  const auto steady = make_machine(toy_gpu(), c, MachineOptions{"trt-llm", ClockMode::steady, std::nullopt});
  EXPECT_DOUBLE_EQ(steady.rates().tensor_fraction, 0.6);
  EXPECT_DOUBLE_EQ(steady.rates().sustained_fraction(1.0 * units::s), 0.6);
}

TEST(Machines, OwnKernelsUseTheirOwnScalarsWhenThereAreAny) {
  Calibration c = toy_calibration();
  const auto borrowed = toy_machine(toy_gpu(), c, KernelSet::own);
  const Op gemm = Gemm{256, 256, 256, 1, {}, false};
  EXPECT_EQ(predict(gemm, borrowed).provider, "cublas");
  EXPECT_TRUE(says(borrowed.assumptions(), "priced with the library kernels' coefficients"));
  for (const char* family : testing_support::kFamilies) {
    c.families[std::string("own.") + family] = c.families[std::string("library.") + family];
    c.families[std::string("own.") + family]["fixed_s"].value = 3e-6;
  }
  const auto own = toy_machine(toy_gpu(), c, KernelSet::own);
  EXPECT_EQ(predict(gemm, own).provenance, Provenance::measured);
  ASSERT_TRUE(scalars_of(own, "own.gemm").on_file);
  EXPECT_DOUBLE_EQ(scalars_of(own, "own.gemm").fixed.in(units::us), 3);
  EXPECT_DOUBLE_EQ(scalars_of(own, "library.gemm").fixed.in(units::us), 1);  // of shapes that no kernel of ours runs
  EXPECT_DOUBLE_EQ(scalars_of(toy_machine(toy_gpu(), c), "library.gemm").fixed.in(units::us), 1);
}

TEST(Machines, APowerCapIsNotModelledYet) {
  MachineOptions options;
  options.power_cap = 500.0 * units::W;
  options.clock = ClockMode::steady;
  EXPECT_THROW(make_machine(toy_gpu(), toy_calibration(), options), NotModelled);
}

TEST(Machines, AnUnknownGpuHasNoCalibration) {
  Gpu gpu = toy_gpu();
  gpu.calibration = "no_such_card";
  EXPECT_THROW(make_machine(gpu, MachineOptions{}), BadInput);
}

}  // namespace
}  // namespace plumbline::machine_test
