#include "model/bands/bands.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "ops/llm/llm.hpp"
#include "tests/support/random_gpu.hpp"
#include "tests/support/toy_machine.hpp"

namespace plumbline::bands_test {
namespace {

using namespace testing_support;

const Op kLargeCopy = Rowwise{RowwiseKind::copy, 1000, 32768};  // 1 us + 131.072 us + 1 us, bound by memory
const Op kSmallCopy = Rowwise{RowwiseKind::copy, 1, 8};

Calibration with_bands(std::map<std::string, Band> bands) {
  Calibration c = toy_calibration();
  c.bands = std::move(bands);
  return c;
}

TEST(BandClasses, AreKernelsAndTheirKindsFormATree) {
  for (std::size_t i = 0; i < band_class_count(); ++i) {
    std::size_t up = i;
    int steps = 0;
    while (band_parent(up) != up && steps < 5) {
      up = band_parent(up);
      ++steps;
    }
    EXPECT_LE(steps, 2) << band_class_name(i);
    EXPECT_EQ(band_class_name(up), "all");
    EXPECT_EQ(band_class_of_name(band_class_name(i)), i);
  }
  for (int kind = 0; kind < static_cast<int>(RowwiseKind::count_); ++kind) {
    const Op op = Rowwise{static_cast<RowwiseKind>(kind), 1, 8};
    EXPECT_EQ(band_class_name(band_class_of_operator(op)), op_name(op));
  }
  EXPECT_EQ(band_class_name(band_class_of_operator(Spmv{})), "rowwise");
}

std::string class_on(const Op& op, const char* stack, bool ours = false) {
  Calibration c = toy_calibration();
  for (const char* name : kOwnFamilies) {
    if (ours) c.families[std::string("own.") + name] = c.families.at("library.gemm");
  }
  MachineOptions options;
  options.stack = stack;
  return std::string(band_class_name(predict(op, make_machine(toy_gpu(), c, options)).band_class));
}

TEST(Bands, NarrowProductsAreAClassOfTheirOwn) {
  EXPECT_EQ(class_on(Gemm{64, 64, 64, 1, *parse_precision("fp8"), false}, "trt-llm"), "gemm_8bit");
  EXPECT_EQ(class_on(Gemm{64, 64, 64, 1, *parse_precision("int8"), false}, "trt-llm"), "gemm_int8");
  EXPECT_EQ(class_on(Gemm{64, 64, 64, 1, {}, false}, "trt-llm"), "gemm");
  EXPECT_EQ(class_on(GemmSparse24{64, 64, 64, *parse_precision("fp8")}, "trt-llm"), "gemm_sparse24");
  EXPECT_EQ(class_on(Gemm{64, 64, 128, 1, *parse_precision("fp8"), false}, "own", true), "gemm_8bit");
}

/// A library's attention is of the class whose rows are like it; ours is of its family's, whatever it works on.
TEST(Bands, LibraryAttentionHasClassesByWhatItWorksOn) {
  AttentionPrefill prefill{1, 32, 8, 128, 128, 512, 512};
  EXPECT_EQ(class_on(prefill, "trt-llm"), "attention_prefill");
  EXPECT_EQ(class_on(prefill, "vllm"), "flash_prefill");
  prefill.append = 0;  // the scalars are of launches that rotate and append
  EXPECT_EQ(class_on(prefill, "trt-llm"), "attention_prefill_alone");
  EXPECT_EQ(class_on(prefill, "vllm"), "flash_prefill");
  prefill.kv_dtype = DType::fp8;
  EXPECT_EQ(class_on(prefill, "trt-llm"), "attention_prefill_8bit");
  prefill.append = -1;
  EXPECT_EQ(class_on(prefill, "trt-llm"), "attention_prefill_8bit");
  EXPECT_EQ(class_on(prefill, "vllm"), "flash_prefill_8bit");
  prefill.dtype = DType::fp8;
  EXPECT_EQ(class_on(prefill, "trt-llm"), "attention_prefill_fp8");
  prefill.dtype = prefill.kv_dtype = DType::bf16;
  prefill.causal = false;
  EXPECT_EQ(class_on(prefill, "trt-llm"), "attention_encoder");
  EXPECT_EQ(class_on(prefill, "vllm"), "flash_encoder");
  EXPECT_EQ(class_on(prefill, "own", true), "attention_prefill");
  prefill.kv_len = 1024;  // a chunk over a cache
  EXPECT_EQ(class_on(prefill, "trt-llm"), "attention_prefill");
  prefill.qk_dim = 192;
  EXPECT_EQ(class_on(prefill, "trt-llm"), "mla_prefill");

  AttentionDecode decode{4, 32, 2, 128, 128, 127};
  EXPECT_EQ(class_on(decode, "trt-llm"), "attention_decode");
  decode.q_heads = 34;
  EXPECT_EQ(class_on(decode, "trt-llm"), "attention_decode_wide");
  EXPECT_EQ(class_on(decode, "vllm"), "flash_decode_wide");
  decode.q_heads = 66;  // beyond what the kernel of grouped heads packs
  EXPECT_EQ(class_on(decode, "trt-llm"), "attention_decode_wide");
  decode.context = 126;
  EXPECT_EQ(class_on(decode, "trt-llm"), "attention_decode_short");
  EXPECT_EQ(class_on(decode, "vllm"), "flash_decode_short");
  decode = {4, 32, 2, 128, 128, 4096};
  decode.kv_dtype = DType::int8;
  EXPECT_EQ(class_on(decode, "trt-llm"), "attention_decode_8bit");
  EXPECT_EQ(class_on(decode, "vllm"), "flash_decode_8bit");
  decode.q_heads = decode.kv_heads;
  EXPECT_EQ(class_on(decode, "trt-llm"), "attention_decode_single_8bit");

  MlaDecode latent{4, 128, 4096, 512, 64};
  EXPECT_EQ(class_on(latent, "trt-llm"), "mla_decode");
  latent.kv_dtype = DType::fp8;
  EXPECT_EQ(class_on(latent, "trt-llm"), "mla_decode_8bit");
}

/// Boxes that reach beyond K make our GEMM less sure; of libraries we know no such class.
TEST(BandClass, OurGemmWhoseKEndsWithinAStepIsOneOfItsOwn) {
  const Gpu h200 = load_gpu("h200_sxm");
  const auto class_of = [&](KernelSet kernels, std::int64_t k) {
    const auto machine = make_machine(h200, MachineOptions{usual_stack(kernels), ClockMode::burst, {}});
    return std::string(band_class_name(predict(Gemm{512, 1024, k, 1, {}, false}, machine).band_class));
  };
  EXPECT_EQ(class_of(KernelSet::own, 1024), "gemm");
  EXPECT_EQ(class_of(KernelSet::own, 1032), "gemm_ragged");
  EXPECT_EQ(class_of(KernelSet::library, 1032), "gemm");
}

/// From the narrowest class on file to the widest.
TEST(BandTable, TakesTheNextWiderClass) {
  std::map<std::string, Band> on_file;
  const std::vector<std::string> keys{"library.all.any",      "library.all.large",  "library.stream.any",
                                      "library.stream.large", "library.copy.large", "library.copy.large.memory"};
  long rows = 0;
  for (const std::string& key : keys) {
    on_file[key] = Band{-0.1, 0.2, ++rows};
    const OpPrediction p = predict(kLargeCopy, toy_machine(toy_gpu(), with_bands(on_file)));
    EXPECT_EQ(p.band_rows, rows) << key;
    EXPECT_DOUBLE_EQ(p.low.in(units::s), std::max(p.roofline, p.time * std::exp(-0.1)).in(units::s));
    EXPECT_DOUBLE_EQ(p.high / p.time, std::exp(0.2));
  }
  // another size, another bound, another kernel set
  for (const char* other :
       {"library.copy.10us", "library.copy.large.latency", "own.copy.large", "library.gemm.large"}) {
    const OpPrediction p = predict(kLargeCopy, toy_machine(toy_gpu(), with_bands({{other, Band{-0.1, 0.2, 9}}})));
    EXPECT_EQ(p.band_rows, 0) << other;
    EXPECT_DOUBLE_EQ(p.high / p.time, std::exp(0.5));
  }
  EXPECT_EQ(predict(kSmallCopy, toy_machine(toy_gpu(), with_bands(on_file))).band_rows, 3);  // stream, any size
}

/// Residuals that are all on one side do not put the prediction outside its own band.
TEST(BandTable, ABandHoldsThePrediction) {
  const auto c = with_bands({{"library.copy.large", Band{0.05, 0.2, 9, 0.1}}});
  const OpPrediction p = predict(kLargeCopy, toy_machine(toy_gpu(), c));
  EXPECT_EQ(p.low, p.time);
  EXPECT_GT(p.high, p.time);
}

TEST(BandTable, AnHeirTakesTheTransferBandOfItsDistance) {
  Calibration c = with_bands({{"library.copy.large", Band{-0.1, 0.1, 1}}});
  c.transfer_bands["near.library.copy.large"] = Band{-0.2, 0.2, 2};
  c.transfer_bands["far.library.copy.large"] = Band{-0.4, 0.4, 3};
  const auto rows = [&](const Calibration& calibration, BandSection section) {
    return BandTable(calibration, section)
        .find(KernelSet::library, band_class_of_operator(kLargeCopy), 1.0 * units::ms, Bound::memory)
        .rows;
  };
  EXPECT_EQ(rows(c, BandSection::own_card), 1);
  EXPECT_EQ(rows(c, BandSection::near), 2);
  EXPECT_EQ(rows(c, BandSection::far), 3);
  Calibration no_residuals = c;
  no_residuals.bands.clear();  // measured scalars, no residuals of the card yet
  EXPECT_EQ(rows(no_residuals, BandSection::own_card), 2);
  c.transfer_bands.erase("near.library.copy.large");
  EXPECT_EQ(rows(c, BandSection::near), 3);  // none of the same capability was ever compared
}

/// A class that was never compared at this distance is at least as uncertain as at the other.
TEST(BandTable, AClassUnknownAtItsDistanceTakesTheHull) {
  Calibration c = with_bands({});
  c.transfer_bands["near.library.all.any"] = Band{-0.1, 0.3, 2};
  c.transfer_bands["far.library.copy.large"] = Band{-0.4, 0.1, 3};
  c.transfer_bands["far.library.all.any"] = Band{-0.9, 0.9, 4};
  const BandTable near(c, BandSection::near), far(c, BandSection::far);
  const std::size_t copy = band_class_of_operator(kLargeCopy), gemm = band_class_of_name("gemm");
  const Band& hull = near.find(KernelSet::library, copy, 1.0 * units::ms, Bound::memory);
  EXPECT_EQ(hull.low, -0.4);
  EXPECT_EQ(hull.high, 0.3);
  EXPECT_EQ(near.find(KernelSet::library, gemm, 1.0 * units::ms, Bound::memory).rows, 2);
  EXPECT_EQ(far.find(KernelSet::library, copy, 1.0 * units::ms, Bound::memory).low, -0.4);
}

/// Three pairs of one generation reach further than one of another did: a card of another is no better known.
TEST(BandTable, AnotherGenerationIsNowhereNarrowerThanTheSame) {
  Calibration c = with_bands({});
  c.transfer_bands["near.library.gemm.large"] = Band{-0.3, 0.3, 3};
  c.transfer_bands["far.library.gemm.large"] = Band{-0.2, 0.2, 4};
  const auto band = [&](BandSection section) {
    return BandTable(c, section).find(KernelSet::library, band_class_of_name("gemm"), 1.0 * units::ms, Bound::memory);
  };
  EXPECT_EQ(band(BandSection::far).low, -0.3);
  EXPECT_EQ(band(BandSection::far).high, 0.3);
  c.transfer_bands["far.library.gemm.large"] = Band{-0.5, 0.5, 4};
  EXPECT_EQ(band(BandSection::near).high, 0.3);
  EXPECT_EQ(band(BandSection::far).high, 0.5);
}

/// What was measured on no card is nowhere narrower than its kind on cards of another generation, and 1.4 times as wide: the
/// kernel is a further draw as well as the card. Where all kernels are the nearest that is known, it is half as wide again.
TEST(BandTable, WhatWasNeverMeasuredIsAsWideAsItsKind) {
  Calibration c = with_bands({});
  c.transfer_bands["far.library.gemm.large"] = Band{-0.1, 0.1, 3};
  c.transfer_bands["far.library.matrix.large"] = Band{-0.4, 0.4, 4};
  c.transfer_bands["far.library.all.any"] = Band{-0.2, 0.2, 5};
  const auto high = [&](BandSection section, const char* band_class) {
    return BandTable(c, section)
        .find(KernelSet::library, band_class_of_name(band_class), 1.0 * units::ms, Bound::memory)
        .high;
  };
  EXPECT_EQ(high(BandSection::far, "gemm"), 0.1);
  EXPECT_DOUBLE_EQ(high(BandSection::never, "gemm"), 0.4 * 1.4);
  EXPECT_DOUBLE_EQ(high(BandSection::never, "flash_decode"), 0.2 * 1.5);
}

/// The data sheet's part of a time is known on a card of another generation, what was measured near it as well.
TEST(BandTable, AnotherGenerationIsNarrowerWhereTheRooflineTakesTheTime) {
  EXPECT_DOUBLE_EQ(unknown_share(0), 1);
  EXPECT_DOUBLE_EQ(unknown_share(0.75), 0.5);
  EXPECT_DOUBLE_EQ(unknown_share(0.8), 1);
  Calibration c = with_bands({{"own.gemm.large", Band{-0.01, 0.25, 2}}});
  c.transfer_bands["far.library.gemm.large"] = Band{-0.4, 0.4, 3};
  const auto high = [&](BandSection section, double share, KernelSet kernels = KernelSet::library) {
    return BandTable(c, section).ends(kernels, band_class_of_name("gemm"), 1.0 * units::ms, Bound::memory, share).high;
  };
  EXPECT_DOUBLE_EQ(high(BandSection::far, 0), 0.4);
  EXPECT_DOUBLE_EQ(high(BandSection::far, 0.75), 0.2);
  EXPECT_DOUBLE_EQ(high(BandSection::never, 0.75), 0.3);
  EXPECT_DOUBLE_EQ(high(BandSection::far, 0.75, KernelSet::own), 0.25);  // its own rows say that much
  c.transfer_bands["near.library.gemm.large"] = Band{-0.3, 0.3, 3};
  EXPECT_DOUBLE_EQ(high(BandSection::near, 0.75), 0.3);
  EXPECT_DOUBLE_EQ(high(BandSection::far, 0.5), 0.3);
  EXPECT_DOUBLE_EQ(high(BandSection::far, 0), 0.4);
}

/// H100 and H200 are near to each other, not to an A100: it has no measured card beside it.
TEST(BandTable, NothingIsOfTheA100sGenerationButItself) {
  for (const auto& [name, formats] : load_calibration("a100_sxm", "").measured) {
    EXPECT_FALSE(name.starts_with("near.")) << name;
  }
  EXPECT_TRUE(load_calibration("h200_sxm", "").measured.contains("near.library.gemm"));
}

/// Our kernels were measured on one card only: elsewhere they are at least as uncertain as the library's.
TEST(BandTable, OurKernelsOnAnHeirTakeTheWiderOfBoth) {
  Calibration c = with_bands({{"own.copy.large", Band{-0.3, 0.05, 1}}});
  c.transfer_bands["far.library.all.any"] = Band{-0.2, 0.4, 7};
  const Band band = BandTable(c, BandSection::far)
                        .find(KernelSet::own, band_class_of_operator(kLargeCopy), 1.0 * units::ms, Bound::memory);
  EXPECT_EQ(band.low, -0.3);
  EXPECT_EQ(band.high, 0.4);
}

/// A card whose descriptor was changed is not the one that was measured.
TEST(BandTable, AnOverriddenCardIsDerived) {
  const Gpu changed = load_gpu("h200_sxm", {{"memory.bandwidth", "6 TB/s"}});
  const auto m = make_machine(changed, MachineOptions{"trt-llm", ClockMode::burst, std::nullopt});
  const OpPrediction p = predict(Gemm{4096, 4096, 4096, 1, Precision{}, false}, m);
  EXPECT_EQ(p.provenance, Provenance::same_generation);
  const BandTable near(m.calibration(), BandSection::near);
  EXPECT_EQ(p.band->low, near.find(KernelSet::library, p.band_class, p.time, p.bound).low);
}

// --- steps ----------------------------------------------------------------------------------------------------------

/// Three operators of 1, 2 and 2 ms, the last two of one class. Widths below 0.1, 0.4, 0.2 ms; correlations 0.5 and
/// 0.25: W^2 = .01 + .16 + .04 + 2 (.25 x .1 x .4 + .25 x .1 x .2 + .5 x .4 x .2) = 0.32.
TEST(StepBandSum, ByHand) {
  const auto band = [](double part) { return Band{std::log(1 - part), std::log(1 + part), 9}; };
  StepBandSum sum;
  sum.add(3, 1.0 * units::ms, band(0.1));
  sum.add(4, 2.0 * units::ms, band(0.2));
  sum.add(4, 2.0 * units::ms, band(0.1));
  const BandCorrelation r{0.5, 0.25, 9, 0};
  EXPECT_NEAR(sum.low(5.0 * units::ms, r).in(units::ms), 5 - std::sqrt(0.32), 1e-12);
  EXPECT_NEAR(sum.high(5.0 * units::ms, r).in(units::ms), 5 + std::sqrt(0.32), 1e-12);
  EXPECT_NEAR(sum.high(5.0 * units::ms, {0, 0, 9, 0}).in(units::ms), 5 + std::sqrt(0.21), 1e-12);
  EXPECT_NEAR(sum.high(5.0 * units::ms, {1, 1, 9, 0}).in(units::ms), 5.7, 1e-12);
  // and 2 % of 5 ms that the card adds: 0.32 + 0.01
  EXPECT_NEAR(sum.low(5.0 * units::ms, {0.5, 0.25, 9, 0.02}).in(units::ms), 5 - std::sqrt(0.33), 1e-12);
  EXPECT_NEAR(sum.high(5.0 * units::ms, {0.5, 0.25, 9, 0.02}).in(units::ms), 5 + std::sqrt(0.33), 1e-12);
}

/// Known biases do not cancel like chance: a hundred operators that are each 0 to 10 % slower than predicted, evenly,
/// make a step that is 5 % slower, not one as likely right.
TEST(StepBandSum, MiddlesAdd) {
  StepBandSum sum;
  for (int i = 0; i < 100; ++i) sum.add(1, 1.0 * units::ms, Band{0, std::log(1.1), 9, std::log(1.05)});
  const Seconds low = sum.low(100.0 * units::ms, {0, 0, 9, 0}), high = sum.high(100.0 * units::ms, {0, 0, 9, 0});
  EXPECT_EQ(low, 100.0 * units::ms);  // by widening
  EXPECT_NEAR(high.in(units::ms), 105 + std::sqrt(100 * 0.05 * 0.05), 1e-9);
}

RC_GTEST_PROP(StepBandLaws, BetweenIndependentAndFullyCorrelated, ()) {
  StepBandSum sum;
  double total = 0, least = 0, most = 0;
  const int count = *rc::gen::inRange(1, 12);
  for (int i = 0; i < count; ++i) {
    const double ms = *rc::gen::inRange(1, 1000) * 1e-2;
    const double low = *rc::gen::inRange(-500, 400) * 1e-3, width = *rc::gen::inRange(0, 500) * 1e-3;
    const Band band{low, low + width, 9, low + width * *rc::gen::inRange(0, 11) * 0.1};
    sum.add(static_cast<std::size_t>(*rc::gen::inRange(0, 5)), ms * units::ms, band);
    total += ms;
    least += ms * std::exp(band.low);
    most += ms * std::exp(band.high);
  }
  const double same = *rc::gen::inRange(0, 11) * 0.1, other = same * *rc::gen::inRange(0, 11) * 0.1;
  const Seconds t = total * units::ms;
  const Seconds low = sum.low(t, {same, other, 9}), high = sum.high(t, {same, other, 9});
  constexpr double kRounding = 1e-9;
  RC_ASSERT(low <= t && t <= high);
  RC_ASSERT(low * (1 - kRounding) <= sum.low(t, {0, 0, 9, 0}) && high * (1 + kRounding) >= sum.high(t, {0, 0, 9, 0}));
  RC_ASSERT(low * (1 + kRounding) >= sum.low(t, {1, 1, 9, 0}) && high * (1 - kRounding) <= sum.high(t, {1, 1, 9, 0}));
  RC_ASSERT(std::abs(sum.low(t, {1, 1, 9, 0}).in(units::ms)-std::min(total, least)) < 1e-6);
  RC_ASSERT(std::abs(sum.high(t, {1, 1, 9, 0}).in(units::ms)-std::max(total, most)) < 1e-6);
  if (count == 1) RC_ASSERT(std::abs(low.in(units::ms)-std::min(total, least)) < 1e-6);
}

TEST(StepBand, OfAModelLiesBetweenItsOperatorsSumsAndHoldsThePrediction) {
  const Llm llm = load_llm("llama-3.1-8b");
  for (const char* gpu : {"h200_sxm", "b200_sxm"}) {
    const auto m = make_machine(load_gpu(gpu), MachineOptions{"own", ClockMode::steady, std::nullopt});
    Workload workload;
    workload.batch = 32;
    workload.context = 4096;
    const StepPrediction step = predict(llm, workload, m, RunOptions{});
    Seconds low, high, widest;
    for (const NodePrediction& n : step.nodes) {
      const auto count = static_cast<double>(n.node->count);
      low += count * (std::exp(n.op.band_range.low) * n.op.time + n.gap);  // its floor is not in the step's sum
      high += count * (n.op.high + n.gap);
      widest = std::max(widest, count * (n.op.high - n.op.low));
    }
    EXPECT_LE(step.low, step.latency);
    EXPECT_GE(step.high, step.latency);
    EXPECT_GE(step.low, low * (1 - 1e-9)) << gpu;
    EXPECT_LE(step.high, high * (1 + 1e-9)) << gpu;
    EXPECT_LT(step.high - step.low, high - low) << gpu;
    EXPECT_GT(step.high - step.low, 0.5 * widest) << gpu;
  }
}

}  // namespace
}  // namespace plumbline::bands_test
