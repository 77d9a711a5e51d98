#include "validate/record/held_out.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "arch/files.hpp"
#include "ops/csv.hpp"
#include "ops/table/text.hpp"
#include "tests/support/hand_made_recording.hpp"
#include "tests/support/sampled.hpp"
#include "validate/cli/sides.hpp"
#include "validate/compare/accuracy.hpp"
#include "validate/compare/report.hpp"
#include "validate/fit/band_rows.hpp"
#include "validate/record/measurement_csv.hpp"
#include "validate/record/model_row.hpp"
#include "validate/record/recorded.hpp"
#include "validate/record/step.hpp"
#include "validate/record/study.hpp"

namespace plumbline::held_out_test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

TEST(Crc32, IsZlibs) {
  EXPECT_EQ(crc32(""), 0U);
  EXPECT_EQ(crc32("123456789"), 0xCBF43926U);  // the check value of the CRC catalogues
  EXPECT_EQ(crc32("gemm|K=4096;M=16;N=4096"), 0x245951F2U) << "python3: zlib.crc32";
}

// The expected sides are what the Python of the first edition said (zlib.crc32 by hand gives the same).
TEST(HeldOut, GoesByShapeByModelAndByTheCountOfGpus) {
  EXPECT_EQ(held_out("gemm", "M=1024;N=256;K=256"), HeldOut::by_size);
  EXPECT_EQ(held_out("gemm", "M=2;N=1280;K=8192"), HeldOut::by_model);
  EXPECT_EQ(held_out("gemm", "M=8192;N=8192;K=8192"), HeldOut::no);
  EXPECT_EQ(held_out("all_reduce", "bytes=256;gpus=4"), HeldOut::by_gpus);
  EXPECT_EQ(held_out("all_reduce", "bytes=256;gpus=8"), HeldOut::no);
}

TEST(HeldOut, KeysMayStandInAnyOrder) {
  for (int m = 1; m < 200; ++m) {
    const std::string rows = std::to_string(m);
    EXPECT_EQ(held_out("gemm", "M=" + rows + ";N=64;K=96"), held_out("gemm", "K=96;M=" + rows + ";N=64")) << m;
  }
}

TEST(HeldOut, WhatIsNoGeometryDoesNotCount) {
  int held = 0;
  for (int s = 1; s < 400; ++s) {
    const std::string shape = "B=1;Hq=32;Hkv=8;D=96;S=" + std::to_string(s);
    const HeldOut side = held_out("attention_decode", shape);
    held += side != HeldOut::no;
    for (const char* more : {";kv=fp8", ";page=64", ";append=1"}) {
      EXPECT_EQ(held_out("attention_decode", shape + more), side) << shape << more;
    }
    if (side == HeldOut::by_size) continue;
    EXPECT_EQ(held_out("attention_decode", shape + ";window=128") == HeldOut::by_size,
              crc32("attention_decode|B=1;D=96;Hkv=8;Hq=32;S=" + std::to_string(s) + ";window=128") % 5 == 0);
  }
  EXPECT_NEAR(held, 80, 30);  // one in five
}

TEST(HeldOut, AModelIsHeldOutWithAllItsSizes) {
  int models = 0, held = 0;
  for (int width = 64; width < 64 * 400; width += 64) {
    const std::string columns = ";cols=" + std::to_string(width);
    int of_model = 0;
    for (int rows = 1; rows <= 20; ++rows) {
      of_model += held_out("rmsnorm", "rows=" + std::to_string(rows) + columns) != HeldOut::no;
    }
    ++models;
    held += of_model == 20;
  }
  EXPECT_NEAR(static_cast<double>(held) / models, 0.1, 0.05);
}

TEST(HeldOut, RunsOfWholeModelsGoByTheirText) {
  for (int batch = 1; batch < 100; ++batch) {
    const ModelRun run{"llama-3.1-8b", "decode", 1, batch, 0, 4096, 0};
    const std::string text = "llama-3.1-8b|decode|1|" + std::to_string(batch) + "|0|4096|0";
    EXPECT_EQ(held_out(run), crc32(text) % 2 == 0 ? HeldOut::by_run : HeldOut::no) << text;
  }
}

TEST(HeldOut, AStepIsTheRunOfItsPhaseWhateverItsClockAndPage) {
  for (const StepCase& what :
       parse_step_study("model,phase,batch,context,prompt,page,clock\n"
                        "llama-3.2-1b,decode,8,512,,64,burst\nllama-3.2-1b,decode,8,512,,0,steady\n"
                        "llama-3.2-1b,prefill,2,,100,,steady\n",
                        "steps.csv")) {
    const bool decode = what.workload.phase == Phase::decode;
    const ModelRun run = decode ? ModelRun{"llama-3.2-1b", "decode", 1, 8, 0, 512, 0}
                                : ModelRun{"llama-3.2-1b", "prefill", 1, 2, 100, 0, 0};
    EXPECT_EQ(held_out(what), held_out(run)) << step_text(what);
  }
}

TEST(HeldOut, AFlagIsEnough) {
  StudyCase what = testing_support::study_case("gemm", "bf16", "M=8192;N=8192;K=8192");
  EXPECT_EQ(held_out(what), HeldOut::no);
  what.held_out = true;
  EXPECT_EQ(held_out(what), HeldOut::by_flag);
  Recording recording = testing_support::hand_made_recording();
  recording.cases.front().what.held_out = true;
  const Recording again = parse_recording(recording_json(recording), "r.json");
  EXPECT_TRUE(again.cases.front().what.held_out);
  EXPECT_FALSE(again.cases[2].what.held_out);
  EXPECT_TRUE(parse_study("op,dtype,shape,held_out\ngemm,bf16,M=1;N=1;K=1,yes\n", "a.csv").front().held_out);
  EXPECT_FALSE(parse_study("op,dtype,shape,held_out\ngemm,bf16,M=1;N=1;K=1,no\n", "a.csv").front().held_out);
  EXPECT_THROW(parse_study("op,dtype,shape,held_out\ngemm,bf16,M=1;N=1;K=1,maybe\n", "a.csv"), BadInput);
  EXPECT_TRUE(parse_step_study("model,phase,batch,context,held_out\nx,decode,1,5,yes\n", "a.csv").front().held_out);
}

TEST(RefuseHeldOut, SaysWhereAndWhyAndKeepsTheRest) {
  std::vector<Measurement> rows(3);
  rows[0].what.place = "a.csv:2";
  rows[1].what.place = "a.csv:3";
  rows[1].held_out = HeldOut::by_size;
  rows[2].what.place = "a.csv:4";
  rows[2].held_out = HeldOut::by_flag;
  EXPECT_THAT(refuse_held_out(rows, "validate fit"),
              testing::ElementsAre("a.csv:3: held out: CRC32 of its shape is a multiple of 5",
                                   "a.csv:4: held out: its list says held_out"));
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].what.place, "a.csv:2");
  rows[0].held_out = HeldOut::by_model;
  EXPECT_THROW(refuse_held_out(rows, "validate fit"), BadInput);
}

// --- the committed files ---------------------------------------------------------------------------------------------

/// Every file of operator rows below data/measurements whose name says a side.
std::vector<std::string> committed(const std::string& end) {
  std::vector<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(fs::path(data_folder()) / "measurements")) {
    if (entry.path().string().ends_with(end)) files.push_back(entry.path().string());
  }
  EXPECT_GE(files.size(), 60U) << end;  // else the laws below would hold of nothing
  return files;
}

struct SideOf {
  std::string place, side, rule;
};
std::vector<SideOf> sides_of(const std::string& file) {
  std::istringstream none;
  const std::string text = sides_text({file}, none);
  CsvReader reader(text, file);
  const CsvHeader header(reader);
  std::vector<SideOf> sides;
  while (reader.next()) {
    sides.push_back(
        {std::string(reader.fields()[0]), std::string(reader.fields()[1]), std::string(reader.fields()[2])});
  }
  return sides;
}

TEST(CommittedMeasurements, TheRuleDealtEveryRowToItsFile) {
  std::size_t rows = 0;
  for (const bool held : {false, true}) {
    for (const std::string& file : committed(held ? ".heldout.csv" : ".train.csv")) {
      if (file.ends_with("h200/ragged.train.csv")) continue;  // drawn at random: 60 of its rows are refused by fits
      for (const SideOf& row : sides_of(file)) {
        ASSERT_EQ(row.side, held ? "heldout" : "train") << row.place << " " << row.rule;
        ++rows;
      }
    }
  }
  EXPECT_GT(rows, 70000U);
}

/// Its side goes by the published text, which is no text of this project's operator (validate/record/published.hpp).
bool is_in_words_of_others(const Measurement& row) {
  const auto* product = std::get_if<Gemm>(&row.what.op);
  if (product != nullptr && product->block > 0) return true;
  if (product != nullptr && product->precision.weight == DType::int8 && product->precision.math == DType::fp16)
    return true;
  const auto* groups = std::get_if<GroupedGemm>(&row.what.op);
  if (groups != nullptr && groups->skew > 0) return true;  // drawn around the stated rows
  return std::holds_alternative<Moe>(row.what.op) || std::holds_alternative<GemmDynamic>(row.what.op) ||
         row.origin.scope == "static_scale";
}

// Recordings have the canonical text of a shape, files as it was published. They differ where a key that may be left
// out is written with its usual value (Skv = S).
TEST(CommittedMeasurements, HowAShapeIsSpeltHardlyEverMatters) {
  std::size_t differing = 0;
  for (const char* side : {".train.csv", ".heldout.csv"}) {
    for (const std::string& file : test::sampled(committed(side))) {
      const std::string text = read_text_file(file);
      if (is_model_rows(text, file)) continue;
      Measurements known;
      read_measurements(text, file, {}, known);
      for (const Measurement& row : known.rows) {
        if (row.held_out == HeldOut::by_flag || is_in_words_of_others(row)) continue;
        if (held_out(op_name(row.what.op), row.what.shape) == row.held_out) continue;
        EXPECT_THAT(row.what.shape + " " + row.what.place, HasSubstr("llmservingsim/a6000/attention_prefill"));
        ++differing;
      }
    }
  }
  EXPECT_LE(differing, 30U);
}

TEST(CommittedMeasurements, CasesAreOnTheSideThatTheirListSays) {
  std::size_t held = 0;
  for (const std::string& name : json_file_names(data_folder() + "/measurements/h200")) {
    const std::string file = data_folder() + "/measurements/h200/" + name + ".json";
    if (is_step_recording(read_text_file(file))) continue;
    for (const Measurement& c : read_recording(file).cases) {
      const std::set<std::string> training{"train", "train2", "power", "rowwise.train", "study"};
      const std::set<std::string> heldout{"heldout", "random", "fresh.rowwise"};
      if (training.count(c.what.study) > 0) {
        EXPECT_EQ(held_out(c.what), HeldOut::no) << file << " " << c.what.place;
      }
      if (heldout.count(c.what.study) > 0) {
        EXPECT_NE(held_out(c.what), HeldOut::no) << file << " " << c.what.place;
        ++held;
      }
    }
  }
  EXPECT_GT(held, 1000U);
}

TEST(CommittedMeasurements, BandsAreFoundWithoutTheHeldOutRowsOfATrainingFile) {
  const auto list = [](const std::string& rows) {
    return parse_band_sources(R"({"sources": [{"gpu": "h200_sxm", "kernels": "own", "rows": ")" + rows + "\"}]}",
                              "list");
  };
  const BandRows ragged = read_band_rows(list("h200/ragged"), Half::train);
  EXPECT_EQ(ragged.rows.size(), 138U);
  EXPECT_EQ(ragged.refused.size(), 60U);
  EXPECT_THAT(ragged.refused.front(), HasSubstr("ragged.train.csv:"));
  EXPECT_THAT(ragged.refused.front(), HasSubstr(": held out: CRC32 of its shape"));
  EXPECT_TRUE(read_band_rows(list("infersim/h800/gemm"), Half::train).refused.empty());
}

TEST(CommittedMeasurements, NoRowOfTheAccuracyTableMayBeFitted) {
  for (const AccuracySet& set : test::sampled(read_accuracy_sets(data_folder() + "/studies/accuracy.json"))) {
    const std::string file = data_folder() + "/" + set.file;
    if (file.ends_with(".csv")) {
      for (const SideOf& row : sides_of(file)) ASSERT_EQ(row.side, "heldout") << row.place;
      continue;
    }
    for (const Measurement& c : read_recording(file).cases) {
      if (!keeps_case(set.where, c.what, c.kernel)) continue;  // some recordings hold both sides
      EXPECT_NE(held_out(c.what), HeldOut::no) << file << " " << c.what.place;
    }
  }
}

TEST(CommittedMeasurements, ASideIsAFilter) {
  const std::vector<RowFilter> heldout{parse_row_filter("side=heldout")}, train{parse_row_filter("side=train")};
  long kept = 0;
  for (const Measurement& c : read_recording(data_folder() + "/measurements/h200/portable.json").cases) {
    const bool held = held_out(c.what) != HeldOut::no;
    EXPECT_EQ(keeps_case(heldout, c.what, c.kernel), held);
    EXPECT_EQ(keeps_case(train, c.what, c.kernel), !held);
    kept += held ? 1 : 0;
  }
  EXPECT_EQ(kept, 62);
}

// --- validate sides --------------------------------------------------------------------------------------------------

std::string printed_sides(const std::string& csv) {
  std::istringstream in(csv);
  return sides_text({"-"}, in);
}

TEST(Sides, ALineARowOfOperatorsAndOfRuns) {
  EXPECT_EQ(
      printed_sides("shape,op\nM=1024;N=256;K=256,gemm\nM=8192;N=8192;K=8192,gemm\nbytes=256;gpus=4,all_reduce\n"),
      "place,side,rule\n-:2,heldout,size\n-:3,train,\n-:4,heldout,gpus\n");
  const std::string odd = crc32("m|decode|1|1|0|7|0") % 2 == 0 ? "heldout,run" : "train,";
  EXPECT_EQ(printed_sides("model,phase,context\nm,decode,7\n"), "place,side,rule\n-:2," + odd + "\n");
  EXPECT_EQ(printed_sides("op,shape,held_out\nwarp_drive,x=1,yes\n"), "place,side,rule\n-:2,heldout,flag\n");
}

TEST(Sides, RefusesWhatHasNeither) {
  for (const char* csv : {"a,b\n1,2\n", "op,dtype\ngemm,bf16\n", "model,batch\nm,1\n", "op,shape\ngemm\n",
                          "model,phase,batch\nm,decode,many\n", ""}) {
    EXPECT_THROW(printed_sides(csv), BadInput) << csv;
  }
}

}  // namespace
}  // namespace plumbline::held_out_test
