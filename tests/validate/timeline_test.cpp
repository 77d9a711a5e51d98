// Profilers' timelines: their readers by hand, the alignment by laws, both sides in one trace.
#include "validate/timeline/timeline.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "arch/error.hpp"
#include "arch/files.hpp"
#include "model/report/report.hpp"
#include "tests/support/validate_command.hpp"
#include "validate/timeline/compare_timeline.hpp"

namespace plumbline::timeline_test {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

ModelRow decode_row() {
  ModelRow row;
  row.model = "llama-3.1-8b";
  row.phase = "decode";
  row.workload.phase = Phase::decode;
  row.workload.batch = 8;
  row.workload.context = 2000;
  row.layers = 4;
  return row;
}

ModelPricing on_h200() {
  ModelPricing pricing;
  pricing.gpu = "h200";
  pricing.stack = StackChoice("hf-sdpa");
  pricing.clock = ClockMode::burst;
  return pricing;
}

/// A step as its own list has it, each launch a microsecond behind the one before.
const TimelineReport& own_list() {
  static const TimelineReport kReport = [] {
    Timeline nothing;
    nothing.kernels.resize(1);
    nothing.kernels[0].duration = 1.0 * units::us;
    return compare_timeline(std::move(nothing), decode_row(), on_h200());
  }();
  return kReport;
}

TimelineKernel as_seen(const TimelineReport& report, std::size_t place, std::int64_t call) {
  const ExpectedLaunch& mine = report.expected[place];
  TimelineKernel kernel;
  kernel.call_number = call;
  kernel.kernel = "some_kernel";
  kernel.ctas = mine.ctas;
  kernel.threads = mine.threads;
  kernel.duration = kernel_time(report.step.nodes[static_cast<std::size_t>(mine.node)].op);
  if (mine.kind == LaunchKind::attention) kernel.call = "aten::_cudnn_attention_forward";
  if (mine.matrix) {
    kernel.call = "aten::mm";
    kernel.sizes = {{mine.matrix->M, mine.matrix->K}, {mine.matrix->K, mine.matrix->N}};
  }
  return kernel;
}

Timeline timeline_of(std::vector<TimelineKernel> kernels) {
  Timeline out;
  out.file = "by hand";
  Seconds now;
  for (TimelineKernel& kernel : kernels) {
    kernel.start = now;
    now += kernel.duration + 1.0 * units::us;
  }
  out.kernels = std::move(kernels);
  return out;
}

TEST(Timeline, AStepThatRanAsItsListSaysIsMatchedWholeAndAtRatioOne) {
  const TimelineReport& list = own_list();
  std::vector<TimelineKernel> kernels;
  for (int step = 0; step < 3; ++step) {
    for (std::size_t i = 0; i < list.expected.size(); ++i) {
      kernels.push_back(as_seen(list, i, static_cast<std::int64_t>(kernels.size())));
    }
  }
  const TimelineReport report = compare_timeline(timeline_of(std::move(kernels)), decode_row(), on_h200());
  EXPECT_EQ(report.alignment.steps, 3);
  EXPECT_EQ(report.unmatched_share(), 0);
  EXPECT_TRUE(report.left_over.empty());
  for (const TimelineRow& row : report.rows) {
    EXPECT_EQ(row.executions, row.expected) << row.name;
    EXPECT_NEAR(row.predicted / row.measured, 1, 1e-9) << row.name;
  }
  EXPECT_LT(by_operator(report).size(), report.rows.size());
}

/// Whatever is put between or left out, a product or attention that is there is matched with a list's launch of its size.
RC_GTEST_PROP(TimelineLaws, ForeignAndMissingLaunchesDoNotMoveTheOthers, ()) {
  const TimelineReport& list = own_list();
  std::vector<TimelineKernel> kernels;
  std::vector<int> from;  // place in the list; -1: foreign
  for (std::size_t i = 0; i < list.expected.size(); ++i) {
    if (*rc::gen::inRange(0, 12) == 0) {
      TimelineKernel foreign;
      foreign.kernel = "nobody_knows";
      foreign.duration = 3.0 * units::us;
      foreign.call_number = 10000 + static_cast<std::int64_t>(i);
      kernels.push_back(foreign);
      from.push_back(-1);
    }
    if (list.expected[i].kind == LaunchKind::other && *rc::gen::inRange(0, 12) == 0) continue;
    kernels.push_back(as_seen(list, i, static_cast<std::int64_t>(i)));
    from.push_back(static_cast<int>(i));
  }
  const Alignment found = align(list.expected, kernels);
  RC_ASSERT(found.steps == 1);
  std::vector<int> used(list.expected.size(), 0);
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    if (found.of[i].expected >= 0) ++used[static_cast<std::size_t>(found.of[i].expected)];
    if (from[i] < 0 || list.expected[static_cast<std::size_t>(from[i])].kind == LaunchKind::other) continue;
    RC_ASSERT(found.of[i].expected == from[i]);
  }
  for (const int times : used) RC_ASSERT(times <= 1);
}

std::vector<TimelineKernel> whole_list(const TimelineReport& list) {
  std::vector<TimelineKernel> kernels;
  for (std::size_t i = 0; i < list.expected.size(); ++i)
    kernels.push_back(as_seen(list, i, static_cast<std::int64_t>(i)));
  return kernels;
}

TEST(Timeline, ProductsOfOtherSizesAreNobodys) {
  const TimelineReport& list = own_list();
  std::vector<TimelineKernel> kernels = whole_list(list);
  for (TimelineKernel& kernel : kernels) {
    if (kernel.sizes.size() == 2) kernel.sizes[1][1] *= 2;
  }
  const Alignment found = align(list.expected, kernels);
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    if (list.expected[i].matrix) {
      EXPECT_EQ(found.of[i].expected, -1) << i;
    }
  }
}

TEST(Timeline, LaunchesOfOneCallAndSumsOverPartsAreTheirOperators) {
  const TimelineReport& list = own_list();
  std::vector<TimelineKernel> kernels;
  for (std::size_t i = 0; i < list.expected.size(); ++i) {
    kernels.push_back(as_seen(list, i, static_cast<std::int64_t>(i)));
    if (list.expected[i].kind != LaunchKind::attention) continue;
    TimelineKernel reduction = kernels.back();
    reduction.kernel = "void cudnn::fusion::lean_reduction_kernel<false>()";
    kernels.push_back(reduction);
  }
  const Alignment found = align(list.expected, kernels);
  for (const Alignment::Match& match : found.of) EXPECT_GE(match.expected, 0);
}

TEST(Timeline, KindsGoByTheFrameworksCallThenByNames) {
  const auto kind = [](const char* call, const char* name) {
    TimelineKernel kernel;
    kernel.call = call;
    kernel.kernel = name;
    return kind_of(kernel);
  };
  EXPECT_EQ(kind("aten::mm", "nvjet_sm90_tst_64x8"), LaunchKind::matrix);
  EXPECT_EQ(kind("", "sm80_xmma_gemm_bf16bf16"), LaunchKind::matrix);
  EXPECT_EQ(kind("", "void flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits>"), LaunchKind::attention);
  EXPECT_EQ(kind("", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"), LaunchKind::collective);
  EXPECT_EQ(kind("aten::cat", "void at::native::CatArrayBatchedCopy<x, cutlass>"), LaunchKind::other);
  EXPECT_EQ(kind("aten::mm", "void cublasLt::splitKreduce_kernel<32>"), LaunchKind::other);
  EXPECT_EQ(kind("aten::mul", "vectorized_elementwise_kernel"), LaunchKind::other);
}

// --- readers --------------------------------------------------------------------------------------------------------

constexpr const char* kTrace = R"t({"schemaVersion": 1,
 "deviceProperties": [{"id": 0, "name": "NVIDIA H200", "totalGlobalMem": 150110011392, "computeMajor": 9,
   "computeMinor": 0, "numSms": 132}],
 "traceEvents": [
  {"ph": "X", "cat": "cpu_op", "name": "aten::addmm", "pid": 1, "tid": 1, "ts": 1.5, "dur": 9,
   "args": {"External id": 7, "Input Dims": [[8], [4, 16], [16, 8], [], [[2, 3], [5, 3]]]}},
  {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 20.25, "dur": 4.5,
   "args": {"External id": 7, "device": 0, "stream": 7, "grid": [2, 3, 1], "block": [128, 1, 1]}},
  {"ph": "X", "cat": "gpu_memset", "name": "Memset (Device)", "pid": 0, "tid": 7, "ts": 10, "dur": 1,
   "args": {"device": 0, "stream": 7}},
  {"ph": "X", "cat": "kernel", "name": "of another rank", "pid": 1, "tid": 7, "ts": 30, "dur": 4,
   "args": {"device": 1, "stream": 7}},
  {"ph": "s", "cat": "ac2g", "id": 7, "pid": 1, "tid": 1, "ts": 2},
  {"ph": "M", "name": "process_name", "pid": 0, "args": {"name": "python"}}]})t";

TEST(Timeline, ATraceOfPyTorchsIsReadWithItsCalls) {
  const Timeline read = read_pytorch_trace(kTrace, "t.json");
  ASSERT_EQ(read.kernels.size(), 3U);
  EXPECT_EQ(read.card.name, "NVIDIA H200");
  EXPECT_EQ(descriptor_of(read.card), "h200_sxm");
  const TimelineKernel& gemm = read.kernels.front();
  EXPECT_EQ(gemm.call, "aten::addmm");
  EXPECT_EQ(gemm.call_number, 7);
  EXPECT_EQ(gemm.ctas, 6);
  EXPECT_EQ(gemm.threads, 128);
  EXPECT_DOUBLE_EQ(gemm.duration.in(units::us), 4.5);
  ASSERT_EQ(gemm.sizes.size(), 6U);  // the list of two counts as two
  const MatrixSizes expected{4, 8, 16, 1};
  EXPECT_EQ(matrix_sizes(gemm), expected);
  EXPECT_TRUE(read.kernels[1].copy);
}

class TimelineFiles : public testing_support::ValidateCommand {};

TEST_F(TimelineFiles, WhatAFileIsIsSeenByItsBeginning) {
  const std::string trace = file("t.json", kTrace).string();
  EXPECT_TRUE(is_timeline(trace));
  EXPECT_FALSE(is_timeline(file("rows.csv", testing_support::kGood).string()));
  EXPECT_FALSE(is_timeline(file("r.json", R"({"schema": "plumbline.measurements.v1", "cases": []})").string()));
  EXPECT_FALSE(is_timeline((folder_ / "nothing").string()));
  const Timeline read = read_timeline(trace);
  EXPECT_EQ(read.other_devices, 1);
  ASSERT_EQ(read.kernels.size(), 2U);
  EXPECT_EQ(read.kernels.front().kernel, "Memset (Device)");
  EXPECT_DOUBLE_EQ(read.kernels.front().start.in(units::us), 0);
  EXPECT_DOUBLE_EQ(read.span().in(units::us), 14.75);
  EXPECT_THROW(read_timeline(file("e.json", R"({"traceEvents": []})").string()), BadInput);
}

constexpr const char* kRaw =
    "==PROF== Connected to process 7 (/usr/bin/python3)\n"
    "a program's own line, with a comma\n"
    "\"ID\",\"Process ID\",\"Process Name\",\"Host Name\",\"Kernel Name\",\"Context\",\"Stream\",\"Block Size\",\"Grid "
    "Size\",\"Device\",\"CC\",\"dram__bytes_read.sum\",\"dram__bytes_write.sum\",\"gpu__time_duration.sum\"\n"
    "\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"Mbyte\",\"Kbyte\",\"us\"\n"
    "\"0\",\"7\",\"python3\",\"h\",\"gemm<a, b>\",\"1\",\"7\",\"(128, 1, 1)\",\"(2, 66, "
    "1)\",\"0\",\"9.0\",\"117.5\",\"500\",\"1,031.5\"\n"
    "\"1\",\"7\",\"python3\",\"h\",\"copy\",\"1\",\"7\",\"(32, 16, 1)\",\"(4, 1, "
    "1)\",\"0\",\"9.0\",\"0\",\"0\",\"2\"\n";
constexpr const char* kDetails =
    "\"ID\",\"Process ID\",\"Process Name\",\"Host Name\",\"Kernel Name\",\"Context\",\"Stream\",\"Block Size\",\"Grid "
    "Size\",\"Device\",\"CC\",\"Section Name\",\"Metric Name\",\"Metric Unit\",\"Metric Value\"\n"
    "\"0\",\"7\",\"python3\",\"h\",\"gemm<a, b>\",\"1\",\"7\",\"(128, 1, 1)\",\"(2, 66, "
    "1)\",\"0\",\"9.0\",\"GPU Speed Of Light\",\"Duration\",\"ms\",\"1.0315\"\n"
    "\"0\",\"7\",\"python3\",\"h\",\"gemm<a, b>\",\"1\",\"7\",\"(128, 1, 1)\",\"(2, 66, "
    "1)\",\"0\",\"9.0\",\"Command line profiler metrics\",\"dram__bytes.sum\",\"Mbyte\",\"118\"\n"
    "\"1\",\"7\",\"python3\",\"h\",\"copy\",\"1\",\"7\",\"(32, 16, 1)\",\"(4, 1, "
    "1)\",\"0\",\"9.0\",\"GPU Speed Of Light\",\"Duration\",\"nsecond\",\"2,000\"\n";

TEST(Timeline, BothPagesOfNsightComputeSayTheSame) {
  for (const char* page : {kRaw, kDetails}) {
    const Timeline read = read_ncu_csv(page, "n.csv");
    ASSERT_EQ(read.kernels.size(), 2U);
    EXPECT_EQ(read.kernels[0].kernel, "gemm<a, b>");
    EXPECT_EQ(read.kernels[0].ctas, 132);
    EXPECT_EQ(read.kernels[1].threads, 512);
    EXPECT_NEAR(read.kernels[0].duration.in(units::us), 1031.5, 1e-9);
    EXPECT_NEAR(read.kernels[1].duration.in(units::us), 2, 1e-12);
    EXPECT_NEAR(read.kernels[1].start.in(units::us), 1031.5, 1e-9);
    ASSERT_TRUE(read.kernels[0].dram.has_value());
    EXPECT_NEAR(read.kernels[0].dram->in(units::MB), 118, 1e-9);
  }
  EXPECT_THROW(read_ncu_csv("\"ID\",\"Kernel Name\"\n\"0\",\"gemm\"\n", "n.csv"), BadInput);
}

/// Made by hand from the documented schema (Nsight Systems, SQLite Export Schema Reference): no export was at hand.
constexpr const char* kExport =
    "CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);"
    "INSERT INTO StringIds VALUES (4, 'gemm'), (5, 'copy_kernel');"
    "CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT, totalMemory INTEGER, smCount INTEGER, computeMajor INTEGER, "
    "computeMinor INTEGER);"
    "INSERT INTO TARGET_INFO_GPU VALUES (0, 'NVIDIA H200', 150110011392, 132, 9, 0);"
    "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER, gridX "
    "INTEGER, gridY INTEGER, gridZ INTEGER, blockX INTEGER, blockY INTEGER, blockZ INTEGER, demangledName INTEGER, "
    "shortName INTEGER);"
    "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (5000, 9000, 0, 7, 2, 66, 1, 384, 1, 1, 4, 4), "
    "(1000, 3500, 0, 7, 4, 1, 1, 128, 1, 1, 5, 5);"
    "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER, bytes "
    "INTEGER);"
    "INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET VALUES (500, 700, 0, 7, 64);";

TEST_F(TimelineFiles, NsightSystemsExportIsReadByItsSchema) {
  const std::string database = (folder_ / "e.sqlite").string();
  file("e.sql", kExport);
  if (run_shell("python3 -c \"import sqlite3; sqlite3.connect('" + database + "').executescript(open('" +
                (folder_ / "e.sql").string() + "').read())\"") != 0) {
    GTEST_SKIP() << "python3 has no sqlite3 here";
  }
  ASSERT_TRUE(is_timeline(database));
  const Timeline read = read_timeline(database);
  EXPECT_EQ(read.source, TimelineSource::nsys);
  EXPECT_EQ(descriptor_of(read.card), "h200_sxm");
  ASSERT_EQ(read.kernels.size(), 3U);
  EXPECT_TRUE(read.kernels[0].copy);
  EXPECT_EQ(read.kernels[1].kernel, "copy_kernel");
  EXPECT_EQ(read.kernels[2].kernel, "gemm");
  EXPECT_EQ(read.kernels[2].ctas, 132);
  EXPECT_DOUBLE_EQ(read.kernels[2].start.in(units::us), 4.5);
  EXPECT_DOUBLE_EQ(read.kernels[2].duration.in(units::us), 4);
}

// --- recorded ones --------------------------------------------------------------------------------------------------

/// PyTorch on an H200 (data/measurements/h200/profiles): the bar is 95 % of the kernels' time.
TEST(Timeline, RecordedTracesAreMatchedByTheirStacks) {
  const std::string folder = data_folder() + "/measurements/h200/profiles/";
  struct Run {
    const char *file, *model, *stack, *phase;
    std::int64_t batch, tokens;
    int steps;
  };
  for (const Run& run : {Run{"llama_sdpa_prefill", "llama-3.1-8b", "hf-sdpa", "prefill", 1, 2048, 1},
                         Run{"llama_sdpa_three_steps", "llama-3.1-8b", "hf-sdpa", "decode", 1, 1024, 3},
                         Run{"llama_compile_decode", "llama-3.1-8b", "torch-compile", "decode", 8, 2000, 1}}) {
    ModelRow row = decode_row();
    row.model = run.model;
    row.phase = run.phase;
    row.layers = 8;
    row.workload.phase = row.phase == "decode" ? Phase::decode : Phase::prefill;
    row.workload.batch = run.batch;
    row.workload.context = row.workload.prompt = run.tokens;
    ModelPricing pricing;  // the card is the file's
    pricing.stack = StackChoice(run.stack);
    pricing.clock = ClockMode::burst;
    const TimelineReport report = compare_timeline(read_timeline(folder + run.file + ".json.gz"), row, pricing);
    EXPECT_EQ(report.gpu, "h200_sxm");
    EXPECT_EQ(report.alignment.steps, run.steps) << run.file;
    EXPECT_LT(report.unmatched_share(), 0.05) << run.file;
    EXPECT_NEAR(report.predicted_matched() / report.matched(), 1, 0.1) << run.file;
    // where sizes are on file, no product is matched with one of other sizes
    for (std::size_t i = 0; i < report.timeline.kernels.size(); ++i) {
      const int place = report.alignment.of[i].expected;
      const auto sizes = matrix_sizes(report.timeline.kernels[i]);
      if (place < 0 || !sizes || kind_of(report.timeline.kernels[i]) != LaunchKind::matrix) continue;
      const auto& mine = report.expected[static_cast<std::size_t>(place)].matrix;
      if (mine) {
        EXPECT_NEAR(mine->products() / sizes->products(), 1, 0.05) << run.file << " " << i;
      }
    }
  }
}

TEST(Timeline, RecordedPagesOfNsightComputeSayTheSame) {
  const std::string folder = data_folder() + "/measurements/h200/profiles/";
  const Timeline raw = read_timeline(folder + "ncu_raw.csv.gz"), details = read_timeline(folder + "ncu_details.csv.gz");
  ASSERT_EQ(raw.kernels.size(), 150U);
  ASSERT_EQ(details.kernels.size(), 150U);
  for (std::size_t i = 0; i < raw.kernels.size(); ++i) {
    EXPECT_EQ(raw.kernels[i].kernel, details.kernels[i].kernel);
    EXPECT_EQ(raw.kernels[i].ctas, details.kernels[i].ctas);
    EXPECT_NEAR(raw.kernels[i].duration / details.kernels[i].duration, 1, 0.005);  // two digits behind the point
  }
  EXPECT_EQ(read_timeline(folder + "ncu_stdout.csv.gz").kernels.size(), 3U);
}

// --- both sides in one trace ----------------------------------------------------------------------------------------

/// Slices of a track either hold one another or are apart.
void expect_nested(const std::string& text) {
  const auto trace = nlohmann::json::parse(text);
  std::map<std::pair<int, int>, std::vector<std::pair<std::int64_t, std::int64_t>>> tracks;
  for (const auto& event : trace.at("traceEvents")) {
    if (event.at("ph") != "X") continue;
    const auto from = static_cast<std::int64_t>(std::llround(1000 * event.at("ts").get<double>()));
    const auto to = from + static_cast<std::int64_t>(std::llround(1000 * event.at("dur").get<double>()));
    EXPECT_LE(from, to);
    tracks[{event.at("pid"), event.at("tid")}].emplace_back(from, to);
  }
  EXPECT_GE(tracks.size(), 2U);
  for (auto& [track, slices] : tracks) {
    std::sort(slices.begin(), slices.end(), [](const auto& a, const auto& b) {
      return a.first != b.first ? a.first < b.first : a.second > b.second;
    });
    std::vector<std::int64_t> open;
    for (const auto& [from, to] : slices) {
      while (!open.empty() && open.back() <= from) open.pop_back();
      if (!open.empty()) {
        EXPECT_LE(to, open.back()) << track.first << "/" << track.second << " at " << from;
      }
      open.push_back(to);
    }
  }
}

TEST(Timeline, BothTracesAreOneThatNests) {
  const TimelineReport& list = own_list();
  std::vector<TimelineKernel> kernels;
  for (std::size_t i = 0; i < list.expected.size(); ++i)
    kernels.push_back(as_seen(list, i, static_cast<std::int64_t>(i)));
  kernels[3].kernel = "\"</script>\x1b";
  Timeline timeline = timeline_of(std::move(kernels));
  timeline.kernels[5].start -= 1.002 * units::us;  // clocks of profilers overlap by some nanoseconds
  expect_nested(both_traces(compare_timeline(std::move(timeline), decode_row(), on_h200())));
}

TEST_F(TimelineFiles, ATimelineNeedsItsModelAndRefusesWhatIsOfRows) {
  const std::string trace = file("t.json", kTrace).string();
  EXPECT_EQ(run("compare " + trace), 2);
  EXPECT_THAT(err_, HasSubstr("--model"));
  EXPECT_EQ(run("compare " + trace + " --model llama-3.1-8b"), 2);
  EXPECT_THAT(err_, HasSubstr("--phase"));
  const std::string step = " --model llama-3.1-8b --phase decode --layers 2";
  EXPECT_EQ(run("compare " + trace + step + " --ops gemm"), 2);
  EXPECT_EQ(run("compare " + trace + " " + trace + step), 2);
  EXPECT_EQ(run("compare " + file("a.csv", testing_support::kGood).string() + " --gpu h200" + step), 2);
  EXPECT_THAT(err_, HasSubstr("has no meaning"));
  EXPECT_EQ(run("compare " + trace + step + " --stack hf-sdpa --out '" + (folder_ / "both.json").string() + "'"), 0)
      << err_;
  EXPECT_THAT(out_, StartsWith("PyTorch profiler trace"));
  expect_nested(read_text_file((folder_ / "both.json").string()));
  for (const char* format : {"json", "csv"}) EXPECT_EQ(run("compare " + trace + step + " --format " + format), 0);
  EXPECT_EQ(run("compare " + trace + step + " --fail-over 10"), 1);
}

}  // namespace
}  // namespace plumbline::timeline_test
