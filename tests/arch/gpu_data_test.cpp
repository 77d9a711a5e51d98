// The descriptors on file: that they load, agree with their datasheets, and say where each number is from.
#include <filesystem>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "arch/error.hpp"
#include "arch/files.hpp"
#include "arch/gpu/checks.hpp"
#include "arch/gpu/fields.hpp"
#include "arch/gpu/gpu.hpp"
#include "arch/gpu/layers.hpp"
#include "arch/gpu/peaks.hpp"
#include "arch/json_reader.hpp"

namespace plumbline::gpu_data_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string gpu_folder() { return data_folder() + "/gpus"; }

class EachGpu : public testing::TestWithParam<std::string> {
 protected:
  Gpu gpu_ = load_gpu(GetParam());
};

INSTANTIATE_TEST_SUITE_P(Data, EachGpu, testing::ValuesIn(gpu_names()), [](const auto& card) { return card.param; });

TEST_P(EachGpu, IsNamedAsItsFile) { EXPECT_EQ(gpu_.name, GetParam()); }

TEST_P(EachGpu, DerivedPeaksAgreeWithTheDatasheet) {
  const double tolerance = gpu_.architecture.find("Blackwell") != std::string::npos ? 0.02 : 0.01;
  int compared = 0;
  for (std::size_t i = 0; i < kDTypeCount; ++i) {
    const auto type = static_cast<DType>(i);
    const FlopRate sheet = gpu_.datasheet_tensor_peak[type];
    if (sheet == FlopRate()) continue;
    ++compared;
    EXPECT_NEAR(tensor_peak(gpu_, type, descriptor::datasheet_clock(gpu_, type)) / sheet, 1.0, tolerance) << name(type);
  }
  EXPECT_GE(compared, 1);
  EXPECT_GT(gpu_.sm.tensor_flop_per_clk[DType::fp16], 0);
}

TEST_P(EachGpu, EveryNumberHasASource) {
  descriptor::GpuDescriptor d;
  d.gpu = gpu_;
  descriptor::visit_numbers(d, [&](std::string_view path, auto& number, descriptor::Need need) {
    const bool set = number != std::remove_reference_t<decltype(number)>();
    const auto source = gpu_.sources.find(descriptor::pointer_of(path));
    if (need == descriptor::Need::optional && !set) return;
    ASSERT_NE(source, gpu_.sources.end()) << path;
    EXPECT_THAT(source->second, Not(HasSubstr("no source given"))) << path;
    EXPECT_GT(source->second.size(), 5U) << path;
  });
}

TEST_P(EachGpu, EveryWordThatDecidesHasASource) {
  for (const std::string& path : descriptor::word_paths()) {
    const auto source = gpu_.sources.find(descriptor::pointer_of(path));
    ASSERT_NE(source, gpu_.sources.end()) << path;
    EXPECT_THAT(source->second, Not(HasSubstr("no source given"))) << path;
  }
}

/// What no one measured on a card is said in the report: a source that begins with "assumed" is of a number that the
/// card gives itself with an assumption beside it, or that it says to have inherited.
TEST_P(EachGpu, SaysWhichL2AndClusterFactsItTookOver) {
  for (const char* path : {"l2.far_latency_ratio", "l2.reuse_fraction", "clusters"}) {
    const bool clusters = std::string(path) == "clusters";
    const auto source = gpu_.sources.find(descriptor::pointer_of(clusters ? "clusters.of_8" : path));
    if (source == gpu_.sources.end() || source->second.find("assumed") == std::string::npos) continue;
    EXPECT_THAT(gpu_.assumptions, testing::Contains(HasSubstr(path))) << source->second;
  }
}

TEST_P(EachGpu, IsMarkedWhereItWasDerived) {
  for (const auto& [path, source] : gpu_.sources) {
    if (source.find("S: derived") == std::string::npos) continue;
    EXPECT_FALSE(gpu_.assumptions.empty()) << path;
  }
}

TEST_P(EachGpu, HasSaneMemoryLevels) {
  EXPECT_GT(gpu_.l2.bandwidth, gpu_.memory.bandwidth);
  EXPECT_LT(gpu_.l2.latency, gpu_.memory.latency);
  EXPECT_GT(smem_peak(gpu_, gpu_.boost_clock), gpu_.l2.bandwidth);
  EXPECT_LE(l2_peak(gpu_, gpu_.boost_clock), gpu_.l2.bandwidth);
  EXPECT_GT(gpu_.memory.capacity, gpu_.l2.size);
}

struct Anchor {
  const char* name;
  std::int64_t sms;
  double gib, gb_per_s, fp16_tflops, l2_mib, tdp_w;
};

// Retyped from the vendors' tables, not from the descriptors; memory of B200 and B300 as drivers report it, GDDR6X as it runs
// under CUDA.
TEST(GpuData, AgreesWithTheSpecTable) {
  const Anchor anchors[] = {
      {"v100_sxm", 80, 32, 900, 125, 6, 300},
      {"t4", 40, 16, 320, 65, 4, 70},
      {"a100_sxm_40gb", 108, 40, 1555, 312, 40, 400},
      {"a100_sxm", 108, 80, 2039, 312, 40, 400},
      {"a100_pcie", 108, 80, 1935, 312, 40, 300},
      {"a10", 72, 24, 600, 125, 6, 150},
      {"a40", 84, 48, 696, 149.7, 6, 300},
      {"rtx_3090", 82, 24, 912, 71, 6, 350},
      {"l4", 58, 24, 300, 121, 48, 72},
      {"l40s", 142, 48, 864, 366.5, 96, 350},
      {"rtx_4090", 128, 24, 984, 165.2, 72, 450},
      {"rtx_6000_ada", 142, 48, 960, 364.2, 96, 300},
      {"h100_sxm", 132, 80, 3352, 989.4, 50, 700},
      {"h100_pcie", 114, 80, 2039, 756, 50, 350},
      {"h100_nvl", 132, 94, 3938, 835, 50, 400},
      {"h20", 78, 96, 4000, 148, 60, 400},
      {"h800", 132, 80, 3352, 989.4, 50, 700},
      {"h200_sxm", 132, 141, 4800, 989.4, 60, 700},
      {"b200_sxm", 148, 180, 7672, 2250, 126, 1000},
      {"b300_sxm", 148, 270, 7672, 2250, 126, 1100},
      {"rtx_5090", 170, 32, 1792, 209.5, 96, 575},
      {"rtx_pro_6000", 188, 96, 1792, 503.8, 128, 600},
      {"mi210", 104, 64, 1638, 181, 8, 300},
      {"mi250x", 220, 128, 3277, 383, 16, 560},
      {"mi300x", 304, 192, 5300, 1307.4, 32, 750},
      {"mi325x", 304, 256, 6000, 1307.4, 32, 1000},
      {"mi355x", 256, 288, 8000, 2516.6, 32, 1400},
  };
  for (const Anchor& a : anchors) {
    const Gpu gpu = load_gpu(a.name);
    EXPECT_EQ(gpu.sm_count, a.sms) << a.name;
    EXPECT_DOUBLE_EQ(gpu.memory.capacity.in(units::GiB), a.gib) << a.name;
    EXPECT_DOUBLE_EQ(gpu.memory.bandwidth.in(units::GB_per_s), a.gb_per_s) << a.name;
    EXPECT_NEAR(gpu.datasheet_tensor_peak[DType::fp16].in(units::TFLOP_per_s), a.fp16_tflops, 0.01) << a.name;
    EXPECT_DOUBLE_EQ(gpu.l2.size.in(units::MiB), a.l2_mib) << a.name;
    EXPECT_DOUBLE_EQ(gpu.tdp.in(units::W), a.tdp_w) << a.name;
  }
}

/// How generations feed their tensor units, retyped from the vendors' instruction sets.
TEST(GpuData, GenerationsFeedTheirTensorUnitsAsTheirInstructionSetsSay) {
  const std::tuple<const char*, MatrixUnit, AsyncCopy, bool> cards[] = {
      {"v100_sxm", MatrixUnit::mma_sync, AsyncCopy::none, false},
      {"t4", MatrixUnit::mma_sync, AsyncCopy::none, false},
      {"a100_sxm", MatrixUnit::mma_sync, AsyncCopy::cp_async, false},
      {"a10", MatrixUnit::mma_sync, AsyncCopy::cp_async, false},
      {"l40s", MatrixUnit::mma_sync, AsyncCopy::cp_async, false},
      {"h200_sxm", MatrixUnit::wgmma, AsyncCopy::tma, true},
      {"h20", MatrixUnit::wgmma, AsyncCopy::tma, true},
      {"b200_sxm", MatrixUnit::tcgen05, AsyncCopy::tma, true},
      {"gb300", MatrixUnit::tcgen05, AsyncCopy::tma, true},
      {"rtx_5090", MatrixUnit::mma_sync, AsyncCopy::tma, false},
      {"mi300x", MatrixUnit::mfma, AsyncCopy::load_to_lds, false},
  };
  for (const auto& [name, unit, copy, clusters] : cards) {
    const Gpu gpu = load_gpu(name);
    EXPECT_EQ(gpu.sm.matrix_unit, unit) << name;
    EXPECT_EQ(gpu.sm.async_copy, copy) << name;
    EXPECT_EQ(gpu.clusters.sms > 0, clusters) << name;
  }
}

/// An XCD's compute units read their own L2; what two partitions of an NVIDIA L2 take from each other is not AMD's.
TEST(GpuData, AmdCardsHaveNoFarPartition) {
  int cards = 0;
  for (const std::string& name : gpu_names()) {
    const Gpu gpu = load_gpu(name);
    if (gpu.vendor != "AMD") continue;
    ++cards;
    EXPECT_EQ(gpu.l2.far_latency_ratio, 1) << name;
    EXPECT_EQ(gpu.clusters.sms, 0) << name;
  }
  EXPECT_GE(cards, 4);
  EXPECT_NEAR(load_gpu("a100_sxm").l2.far_latency_ratio, 400.0 / 205, 0.01);  // clk, RRZE-HPC/gpu-benches
}

/// The descriptor's facts that the probes measure too, on the card that they were taken from.
TEST(GpuData, H200FactsAgreeWithItsProbes) {
  const Gpu gpu = load_gpu("h200_sxm");
  const JsonDocument file = JsonDocument::read_file(data_folder() + "/calibration/h200_sxm.json");
  const auto probed = [&](const char* name) { return file.root().at("probed").at(name).at("value").as_number(); };
  EXPECT_NEAR(gpu.l2.latency.in(units::s) / probed("l2_latency_s"), 1, 0.01);
  EXPECT_NEAR(gpu.l2.far_latency_ratio * gpu.l2.latency.in(units::s) / probed("l2_far_latency_s"), 1, 0.01);
}

TEST(GpuData, CoversTheCardsOfTheContract) {
  for (const char* name : {"v100_sxm",
                           "t4",
                           "a100_sxm",
                           "a100_sxm_40gb",
                           "l4",
                           "l40s",
                           "h100_sxm",
                           "h100_pcie",
                           "h20",
                           "h800",
                           "h200_sxm",
                           "gh200",
                           "b200_sxm",
                           "gb200",
                           "b300_sxm",
                           "gb300",
                           "rtx_4090",
                           "rtx_5090",
                           "rtx_pro_6000_server",
                           "mi300x"}) {
    EXPECT_NO_THROW(load_gpu(name)) << name;
  }
}

TEST(GpuData, NamesAliasesTitlesAndDriverNamesResolve) {
  const std::pair<const char*, const char*> pairs[] = {
      {"h200", "h200_sxm"},
      {"H200", "h200_sxm"},
      {"h100-sxm", "h100_sxm"},
      {"A100", "a100_sxm"},
      {"H200 SXM 141GB", "h200_sxm"},
      {"GB200 (per GPU)", "gb200"},
      {"NVIDIA H100 80GB HBM3", "h100_sxm"},
      {"NVIDIA A100-SXM4-80GB", "a100_sxm"},
      {"Tesla V100-SXM2-32GB", "v100_sxm"},
      {"NVIDIA GeForce RTX 4090", "rtx_4090"},
      {"NVIDIA RTX PRO 6000 Blackwell Server Edition", "rtx_pro_6000_server"},
      {"AMD Instinct MI300X", "mi300x"},
  };
  for (const auto& [text, name] : pairs) EXPECT_EQ(load_gpu(text).name, name) << text;
}

/// The index is a short cut: it may lack a card, but not name one that is not called so.
TEST(GpuData, TheAliasIndexAgreesWithTheDescriptors) {
  std::map<std::string, std::string> called;
  for (const std::string& name : gpu_names()) {
    const JsonDocument card = JsonDocument::read_file(gpu_folder() + "/" + name + ".json");
    std::set<std::string> words{descriptor::normalised_name(card.root().at("title").as_string())};
    for (const JsonValue& alias : card.root().at("aliases").elements()) {
      EXPECT_EQ(descriptor::normalised_name(alias.as_string()), alias.as_string()) << name;
      words.insert(alias.as_string());
    }
    for (const std::string& word : words) {
      EXPECT_TRUE(called.emplace(word, name).second) << word << " names " << called[word] << " and " << name;
      EXPECT_EQ(load_gpu(word).name, name) << word;
    }
  }
  const JsonDocument index = JsonDocument::read_file(gpu_folder() + "/index/aliases.json");
  EXPECT_GE(index.root().size(), 60U) << "most aliases are found without reading every card";
  for (const std::string& key : index.root().keys()) EXPECT_EQ(index.root().at(key).as_string(), called[key]) << key;
}

/// What nvidia-smi shows of them, in MiB, which is without what the driver keeps for itself (up to 16 MiB).
TEST(GpuData, CardsWithInlineCheckBitsHaveWhatTheyReport) {
  const std::pair<const char*, double> cards[] = {{"t4", 15360}, {"a10", 23028}, {"l4", 23034}, {"l40s", 46068}};
  for (const auto& [name, reported] : cards) {
    const double usable = load_gpu(name).memory.usable_capacity().in(units::MiB);
    EXPECT_NEAR(usable, reported + 8, 8) << name;
  }
  for (const char* name : {"h200_sxm", "a100_sxm", "rtx_a6000", "rtx_pro_6000"}) {
    const DeviceMemory& memory = load_gpu(name).memory;
    EXPECT_EQ(memory.usable_capacity(), memory.capacity) << name;
    EXPECT_EQ(memory.data_bandwidth(), memory.bandwidth) << name;
  }
}

TEST(GpuData, CalibrationFallbacksAreCardsOnFile) {
  std::set<std::string> named;
  for (const std::string& name : gpu_names()) named.insert(load_gpu(name).calibration);
  for (const std::string& name : named) EXPECT_NO_THROW(load_gpu(name)) << name;
  EXPECT_EQ(load_gpu("h800").calibration, "h100_sxm");
  EXPECT_EQ(load_gpu("t4").calibration, "a100_sxm");
  EXPECT_EQ(load_gpu("mi300x").calibration, "h100_sxm");
}

}  // namespace
}  // namespace plumbline::gpu_data_test
