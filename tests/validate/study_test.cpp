#include "validate/record/study.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>

#include "arch/error.hpp"
#include "arch/files.hpp"
#include "ops/table/text.hpp"
#include "tests/support/places.hpp"
#include "tests/support/run_program.hpp"

namespace plumbline::study_test {
namespace {

using ::testing::HasSubstr;

std::string refusal(const std::string& csv) {
  try {
    parse_study(csv, "folder/mine.csv");
  } catch (const BadInput& error) {
    return error.what();
  }
  return "";
}

TEST(Study, ReadsCasesWithTheirModes) {
  const auto cases = parse_study(
      "op,dtype,shape,cache,clock\ngemm,fp8,K=64;M=16;N=32,warm,steady\nrmsnorm,,rows=4;cols=8,,\n", "folder/mine.csv");
  ASSERT_EQ(cases.size(), 2U);
  EXPECT_EQ(cases[0].shape, "M=16;N=32;K=64");
  EXPECT_EQ(cases[0].cache, CacheState::warm);
  EXPECT_EQ(cases[0].clock, ClockMode::steady);
  EXPECT_EQ(cases[0].study, "mine");
  EXPECT_EQ(cases[1].place, "mine.csv:3");
  EXPECT_EQ(cases[1].cache, CacheState::cold);
  EXPECT_EQ(cases[1].clock, ClockMode::burst);
  EXPECT_EQ(case_text(cases[0]), "gemm fp8 M=16;N=32;K=64, warm steady");
}

TEST(Study, CacheAndClockMayBeLeftOut) {
  EXPECT_EQ(parse_study("shape,dtype,op\nM=1;N=1;K=1,bf16,gemm\n", "a.csv").size(), 1U);
}

TEST(Study, SaysWhereARowIsWrong) {
  EXPECT_THAT(refusal("op,dtype,shape\ngem,bf16,M=1;N=1;K=1\n"), HasSubstr("folder/mine.csv:2: "));
  EXPECT_THAT(refusal("op,dtype,shape\ngem,bf16,M=1;N=1;K=1\n"), HasSubstr("gemm"));
  EXPECT_THAT(refusal("op,dtype,shape,cache\ngemm,bf16,M=1;N=1;K=1,cool\n"),
              HasSubstr("expected cold, warm or read-through, found 'cool'"));
  EXPECT_THAT(refusal("op,dtype,shape,clock\ngemm,bf16,M=1;N=1;K=1,brust\n"), HasSubstr("burst"));
  EXPECT_THAT(refusal("op,dtype,shape\ngemm,bf16\n"), HasSubstr("expected 3 fields, found 2"));
  EXPECT_THAT(refusal("op,dtype\ngemm,bf16\n"), HasSubstr("shape"));
  EXPECT_THAT(refusal("op,dtype,shape\n"), HasSubstr("found none"));
}

TEST(Study, RefusesACaseThatStandsThereTwice) {
  EXPECT_THAT(refusal("op,dtype,shape\ngemm,bf16,M=1;N=2;K=3\ngemm,bf16,K=3;N=2;M=1\n"), HasSubstr("mine.csv:3"));
  EXPECT_EQ(refusal("op,dtype,shape,cache\ngemm,bf16,M=1;N=2;K=3,cold\ngemm,bf16,M=1;N=2;K=3,warm\n"), "");
}

TEST(Study, KeepsTheOperatorsAskedFor) {
  const auto cases = parse_study("op,dtype,shape\ngemm,bf16,M=1;N=2;K=3\nadd,bf16,rows=1;cols=2\n", "a.csv");
  EXPECT_EQ(cases_of_ops(cases, {}).size(), 2U);
  ASSERT_EQ(cases_of_ops(cases, {"add", "copy"}).size(), 1U);
  EXPECT_THROW(cases_of_ops(cases, {"adds"}), BadInput);
  EXPECT_THROW(cases_of_ops(cases, {"copy"}), BadInput);
}

TEST(Study, OnlyDenseGemmsHaveALibraryKernel) {
  EXPECT_TRUE(has_library_kernel(parse_op("gemm", "bf16", "M=1;N=2;K=3")));
  EXPECT_TRUE(has_library_kernel(parse_op("gemm", "fp8", "M=1;N=2;K=3")));
  EXPECT_FALSE(has_library_kernel(parse_op("gemm", "w4a16", "M=1;N=2;K=32")));
  EXPECT_FALSE(has_library_kernel(parse_op("rmsnorm", "bf16", "rows=1;cols=2")));
}

// --- the lists of this project ---------------------------------------------------------------------------------------

std::string shape_key(const StudyCase& what) { return std::string(op_name(what.op)) + "|" + what.shape; }

TEST(StudyLists, TrainAndHeldOutShareNoShape) {
  std::set<std::string> train;
  for (const StudyCase& what : read_study(study_file("train"))) train.insert(shape_key(what));
  for (const StudyCase& what : read_study(study_file("heldout"))) {
    EXPECT_EQ(train.count(shape_key(what)), 0U) << what.place << " " << case_text(what);
  }
}

TEST(StudyLists, QuickIsAPartOfThem) {
  std::set<std::string> known;
  for (const char* list : {"train", "heldout"}) {
    for (const StudyCase& what : read_study(study_file(list))) known.insert(case_key(what));
  }
  const auto quick = read_study(study_file("quick"));
  for (const StudyCase& what : quick) EXPECT_EQ(known.count(case_key(what)), 1U) << case_text(what);
  EXPECT_GE(quick.size(), 50U);
  EXPECT_LE(quick.size(), 80U);
}

TEST(StudyLists, EveryOperatorIsOnBothSidesAndInQuick) {
  std::map<std::string, std::set<std::string>> ops;
  for (const char* list : {"train", "heldout", "quick"}) {
    for (const StudyCase& what : read_study(study_file(list))) {
      ops[list].insert(std::string(op_name(what.op)) + " " + std::string(dtype_text(what.op)));
    }
  }
  EXPECT_EQ(ops["train"], ops["heldout"]);
  EXPECT_EQ(ops["train"], ops["quick"]);
}

TEST(StudyLists, AreAsLongAsTheyAreMeantToBe) {
  const auto train = read_study(study_file("train")), heldout = read_study(study_file("heldout"));
  EXPECT_GE(train.size(), 400U);
  EXPECT_GE(heldout.size(), 400U);
  EXPECT_LE(train.size() + heldout.size(), 1200U);
  const auto steady = [](const StudyCase& what) { return what.clock == ClockMode::steady; };
  EXPECT_GE(std::count_if(heldout.begin(), heldout.end(), steady), 60);
}

TEST(StudyLists, AreWhatTheirScriptWrites) {
  if (std::system("python3 -c '' 2>/dev/null") != 0) GTEST_SKIP() << "no python3";
  const test::TemporaryFolder folder;
  const std::string script = testing_support::tests_folder() + "/../tools/make_studies.py";
  ASSERT_EQ(std::system(("PLUMBLINE_BUILD='" + testing_support::programs_folder() +
                         "/..' PYTHONDONTWRITEBYTECODE=1 python3 '" + script + "' '" + folder / "" + "' >/dev/null")
                            .c_str()),
            0);
  for (const char* list : {"train", "heldout", "quick"}) {
    EXPECT_TRUE(read_text_file(folder / (std::string(list) + ".csv")) == read_text_file(study_file(list))) << list;
  }
}

}  // namespace
}  // namespace plumbline::study_test
