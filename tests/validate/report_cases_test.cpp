#include "validate/compare/report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "arch/error.hpp"
#include "arch/json_reader.hpp"
#include "tests/support/hand_made_recording.hpp"
#include "tests/support/places.hpp"
#include "tests/support/run_program.hpp"
#include "validate/compare/pricing.hpp"
#include "validate/record/study.hpp"

namespace plumbline::report_cases_test {
namespace {

using ::testing::HasSubstr;
using namespace testing_support;

constexpr const char* kDemands = R"({"schema": "plumbline.demands.v1", "gpu": "h200_sxm", "demands": [
  {"title": "GEMM bf16, 8192^3", "ops": ["gemm"], "dtype": "bf16", "where": ["M>=8192", "K>=8192"],
   "flop_rate": "700 TFLOP/s"},
  {"title": "GEMM bf16, beside cuBLAS", "ops": ["gemm"], "of_library": 0.94},
  {"title": "norms", "ops": ["rmsnorm"], "bytes_at_least": "256 MB", "bandwidth_fraction": 0.85},
  {"title": "copy", "ops": ["copy"], "bytes_at_least": "256 MB", "bandwidth_fraction": 0.85}]})";
constexpr const char* kFindings = R"({"schema": "plumbline.findings.v1", "gpu": "h200_sxm", "findings": [
  {"ops": ["rmsnorm"], "where": ["cols>=4096"], "reason": "two passes | ncu", "date": "2026-11-20"}]})";

Demands demands() { return parse_demands(kDemands, "demands.json", kFindings, "findings.json"); }

/// The engine's predictions replaced by round ones, so that whole reports can be held against text: a tenth too slow,
/// the roofline at three quarters.
std::unique_ptr<Report> round_report() {
  auto report = compare_recording(hand_made_recording(), {}, demands());
  for (ReportRow& row : report->rows) {
    row.compared.predicted = 1.1 * row.measured.time;
    if (row.compared.measured_power) row.compared.predicted_power = 0.95 * *row.compared.measured_power;
    row.compared.low = 0.9 * row.measured.time;
    row.compared.high = 1.5 * row.measured.time;
    row.compared.roofline = 0.75 * row.measured.time;
    row.compared.limiter = "dram";
    row.compared.provenance = "datasheet";
    row.compared.representative = true;
    row.reason.clear();
  }
  report->summary.files = {"recording.json"};
  report->summary.assumptions = {"something <was> assumed"};
  finish(*report, load_gpu("h200_sxm"), KernelSet::own);
  return report;
}

const ReportRow& row_of(const Report& report, const std::string& op, const std::string& mode) {
  for (const ReportRow& row : report.rows) {
    if (row.compared.op == op && row.compared.mode == mode) return row;
  }
  throw std::runtime_error("no such row");
}

TEST(CompareRecording, GivesTheNumbersOfTheRecording) {
  const Recording recording = hand_made_recording();
  const auto report = compare_recording(recording, {}, demands());
  ASSERT_EQ(report->rows.size(), 7U);  // nine own cases, one with a fault; two of the library beside theirs
  std::size_t at = 0;
  for (const Measurement& c : recording.cases) {
    if (c.kernels != KernelSet::own || !c.fault.empty()) continue;
    EXPECT_EQ(report->rows[at].compared.measured, c.time);
    EXPECT_EQ(report->rows[at].compared.shape, c.what.shape);
    ++at;
  }
  ASSERT_EQ(report->faults.size(), 1U);
  EXPECT_EQ(report->faults[0].text(),
            "heldout.csv:2: topk bf16 rows=4;cols=128256;k=50, cold burst: no kernel for <this> shape");
}

TEST(CompareRecording, PutsTheLibraryBesideItsOwnMode) {
  const auto report = compare_recording(hand_made_recording(), {}, demands());
  EXPECT_EQ(row_of(*report, "gemm", "cold burst").compared.library, 1425.0 * units::us);
  EXPECT_FALSE(row_of(*report, "gemm", "cold steady").compared.library);
  EXPECT_FALSE(row_of(*report, "copy", "cold burst").compared.library);
}

TEST(CompareRecording, LibraryMeasurementsCanBeComparedThemselves) {
  CompareOptions options;
  options.stack = usual_stack(KernelSet::library);
  const auto report = compare_recording(hand_made_recording(), options, demands());
  EXPECT_EQ(report->rows.size(), 2U);
  EXPECT_EQ(report->summary.kernels, "library");
  EXPECT_TRUE(report->results.empty());
}

TEST(CompareRecording, DoesNotDependOnTheOrderOfRows) {
  Recording recording = hand_made_recording();
  const auto report = compare_recording(recording, {}, demands());
  std::reverse(recording.cases.begin(), recording.cases.end());
  const auto reversed = compare_recording(recording, {}, demands());
  EXPECT_EQ(table_report(*report), table_report(*reversed));
  EXPECT_EQ(kernels_table(*report), kernels_table(*reversed));
}

TEST(CompareRecording, WarmCasesArePricedWithOperandsInL2) {
  Recording recording;
  recording.session = hand_made_session();
  recording.cases = {measured_case(study_case("copy", "bf16", "rows=1024;cols=4096"), 10),
                     measured_case(study_case("copy", "bf16", "rows=1024;cols=4096", CacheState::warm), 10)};
  const auto report = compare_recording(recording, {}, {});
  EXPECT_LT(report->rows[1].compared.predicted, 0.8 * report->rows[0].compared.predicted);
}

TEST(CompareRecording, ComparesOneExecutionAmongOthers) {
  const auto machine = make_machine(load_gpu("h200_sxm"), MachineOptions{"own"});
  const StudyCase what = study_case("rmsnorm", "bf16", "rows=64;cols=4096");
  const OpPrediction priced = predict(what.op, machine);
  Recording recording;
  recording.session = hand_made_session();
  recording.cases = {measured_case(what, 3)};
  const auto report = compare_recording(recording, {}, {});
  EXPECT_EQ(report->rows[0].compared.predicted, priced.time);
  EXPECT_EQ(report->rows[0].compared.roofline, roofline(what.op, load_gpu("h200_sxm")));
}

TEST(CompareRecording, FiltersChooseCases) {
  const auto rows = [](const std::vector<std::string>& where, const std::vector<std::string>& ops) {
    CompareOptions options;
    for (const std::string& text : where) options.where.push_back(parse_row_filter(text));
    options.ops = ops;
    return compare_recording(hand_made_recording(), options, {})->rows.size();
  };
  EXPECT_EQ(rows({"clock=steady"}, {}), 1U);
  EXPECT_EQ(rows({"cache=warm"}, {}), 1U);
  EXPECT_EQ(rows({"M>=8192"}, {}), 2U);
  EXPECT_EQ(rows({"study=heldout"}, {"copy"}), 2U);
  EXPECT_THROW(rows({"study=train"}, {}), BadInput);
  EXPECT_THROW(rows({"stack=x"}, {}), BadInput);
}

TEST(Finish, MarksRowsOfKernelsBelowTheirDemand) {
  const auto report = round_report();
  ASSERT_EQ(report->results.size(), 4U);
  EXPECT_TRUE(report->results[0].met());   // 733 TFLOP/s
  EXPECT_FALSE(report->results[1].met());  // 0.95 and 0.90: a geometric mean of 0.925
  EXPECT_NEAR(report->results[1].median, std::sqrt(0.95 * 0.9), 1e-12);
  EXPECT_EQ(report->results[1].below.size(), 1U);
  EXPECT_FALSE(report->results[2].met());  // 1.07 GB in 300 us: 3.6 TB/s
  EXPECT_EQ(report->results[2].reason, "two passes | ncu (2026-11-20)");
  EXPECT_TRUE(report->results[3].met());
  const ReportRow& norm = row_of(*report, "rmsnorm", "cold burst");
  EXPECT_FALSE(norm.compared.representative);
  EXPECT_EQ(norm.reason, "below 85.0 % of DRAM: two passes | ncu (2026-11-20)");
  EXPECT_TRUE(row_of(*report, "copy", "cold burst").compared.representative);
  EXPECT_TRUE(row_of(*report, "gemm", "cold steady").compared.representative);  // demands are on cold bursts
}

TEST(Finish, GivesTheGeometricMeanBesideTheLibrary) {
  const auto report = round_report();
  for (const ClassSummary& c : report->summary.classes) {
    if (c.op != "gemm" || c.size != SizeClass::all) continue;
    EXPECT_EQ(c.library_count, 2);
    EXPECT_NEAR(c.library_ratio, std::sqrt(0.95 * 0.9), 1e-12);
    EXPECT_NEAR(c.mape, 0.1, 1e-12);
    EXPECT_NEAR(c.roofline_mape, 0.25, 1e-12);
  }
  EXPECT_TRUE(report->behind_roofline().empty());
}

// --- writers ---------------------------------------------------------------------------------------------------------

/// After a change that is meant: UPDATE_GOLDEN=1 build/bin/validate_tests --gtest_filter='CaseReports*'
TEST(CaseReports, AreAsReviewed) {
  const auto report = round_report();
  const std::vector<std::pair<std::string, std::string>> files{{"validate_cases_table.txt", table_report(*report)},
                                                               {"validate_cases_json.txt", json_report(*report)},
                                                               {"validate_cases_csv.txt", csv_report(*report)},
                                                               {"validate_kernels_table.txt", kernels_table(*report)}};
  const char* update = std::getenv("UPDATE_GOLDEN");
  for (const auto& [name, text] : files) {
    const std::string path = testing_support::tests_folder() + "/golden/" + name;
    if (update != nullptr && *update == '1') test::put_file(path, text);
    EXPECT_EQ(text, test::whole_file(path)) << name;
  }
}

TEST(CaseReports, JsonHasFourTimesSideBySide) {
  const JsonDocument document = JsonDocument::parse(json_report(*round_report()), "report");
  const JsonValue first = document.root().at("cases").elements().at(0);
  EXPECT_NEAR(first.at("measured_s").as_number(), 1500e-6, 1e-15);
  EXPECT_NEAR(first.at("library_s").as_number(), 1425e-6, 1e-15);
  EXPECT_NEAR(first.at("predicted_s").as_number(), 1650e-6, 1e-15);
  EXPECT_NEAR(first.at("roofline_s").as_number(), 1125e-6, 1e-15);
  EXPECT_NEAR(first.at("of_library").as_number(), 0.95, 1e-12);
  EXPECT_EQ(document.root().at("schema").as_string(), "plumbline.validate.v1");
}

TEST(CaseReports, CsvHasAsManyFieldsInEveryLine) {
  std::string text = csv_report(*round_report());
  bool quoted = false;
  for (char& c : text) {  // commas inside quotes do not part fields
    if (c == '"') quoted = !quoted;
    if (c == ',' && quoted) c = ' ';
  }
  std::istringstream lines(text);
  std::string line;
  std::getline(lines, line);
  const auto fields = std::count(line.begin(), line.end(), ',');
  while (std::getline(lines, line)) EXPECT_EQ(std::count(line.begin(), line.end(), ','), fields) << line;
}

TEST(HtmlReport, IsOnePageThatAsksForNothing) {
  const std::string page = html_report(*round_report());
  for (const char* outside : {"http:", "https:", "src=", "<link", "@import", "url(h"}) {
    EXPECT_THAT(page, Not(HasSubstr(outside))) << outside;
  }
  EXPECT_THAT(page, HasSubstr("<svg"));
  EXPECT_THAT(page, HasSubstr("prefers-color-scheme: dark"));
  EXPECT_THAT(page, HasSubstr("NVIDIA H200"));
  EXPECT_THAT(page, HasSubstr("power cap"));
}

TEST(HtmlReport, EscapesNames) {
  const std::string page = html_report(*round_report());
  EXPECT_THAT(page, HasSubstr("something &lt;was&gt; assumed"));
  EXPECT_THAT(page, HasSubstr("no kernel for &lt;this&gt; shape"));
  EXPECT_THAT(page, Not(HasSubstr("<this>")));
}

TEST(HtmlReport, ClosesWhatItOpens) {
  const std::string page = html_report(*round_report());
  const auto count = [&](const std::string& text) {
    long found = 0;
    for (std::size_t at = 0; (at = page.find(text, at)) != std::string::npos; at += text.size()) ++found;
    return found;
  };
  for (const std::string tag : {"table", "tr", "td", "th", "div", "svg", "ul", "dl", "button", "select"}) {
    EXPECT_EQ(count("<" + tag + ">") + count("<" + tag + " "), count("</" + tag + ">")) << tag;
  }
}

TEST(HtmlReport, StandsWithoutRows) {
  Report empty;
  EXPECT_THAT(html_report(empty), HasSubstr("No case was modelled"));
  EXPECT_NE(table_report(empty), "");
}

TEST(Conditions, ReasonsAreWords) {
  EXPECT_EQ(reasons_text(0), "none");
  EXPECT_EQ(reasons_text(0x44), "power cap, hardware thermal");
}

// --- demands ---------------------------------------------------------------------------------------------------------

std::string refusal(const std::string& json) {
  try {
    parse_demands(json, "d.json", "", "");
  } catch (const BadInput& error) {
    return error.what();
  }
  return "";
}

TEST(Demands, OfThisProjectAreSound) {
  const Demands own = read_demands();
  EXPECT_EQ(own.gpu, "h200_sxm");
  EXPECT_GE(own.demands.size(), 10U);
}

TEST(Demands, RefusalsNameThePlace) {
  const std::string head = R"({"schema": "plumbline.demands.v1", "gpu": "h200_sxm", "demands": [{"title": "t", )";
  EXPECT_THAT(refusal(head + R"("ops": ["gem"], "of_copy": 0.9}]})"), HasSubstr("did you mean 'gemm'"));
  EXPECT_THAT(refusal(head + R"("ops": ["gemm"]}]})"), HasSubstr("expected one of flop_rate"));
  EXPECT_THAT(refusal(head + R"("ops": ["gemm"], "of_copy": 0.9, "of_library": 1}]})"), HasSubstr("/demands/0"));
  EXPECT_THAT(refusal(head + R"("ops": ["gemm"], "of_copy": -1}]})"), HasSubstr("above 0"));
  EXPECT_THAT(refusal(head + R"("ops": ["gemm"], "of_copy": 1, "where": ["stack=x"]}]})"), HasSubstr("on the shape"));
  EXPECT_THAT(refusal(head + R"("ops": ["gemm"], "of_copies": 1}]})"), HasSubstr("of_copy"));
}

TEST(Demands, TransposeIsHeldAgainstOurCopy) {
  const Demands d = parse_demands(
      R"({"schema": "plumbline.demands.v1", "gpu": "h200_sxm", "demands": [
        {"title": "t", "ops": ["transpose_copy"], "bytes_at_least": "256 MB", "of_copy": 0.88}]})",
      "d.json", "", "");
  const auto achieved = [](const char* op, const char* shape, double us) {
    return achieved_by(study_case(op, "bf16", shape), us * units::us, {});
  };
  const std::vector<AchievedCase> cases{achieved("copy", "rows=65536;cols=4096", 250),
                                        achieved("copy", "rows=16;cols=4096", 3),  // too small to count
                                        achieved("transpose_copy", "rows=65536;cols=4096", 275)};
  const auto results = hold_against(d, cases, "h200_sxm", 4.8 * units::TB_per_s);
  ASSERT_EQ(results.size(), 1U);
  EXPECT_NEAR(results[0].median, 250.0 / 275.0, 1e-12);
  EXPECT_TRUE(results[0].met());
  EXPECT_EQ(results[0].cases, std::vector<std::size_t>{2});
}

TEST(Demands, RatesAreOfTheirCardOnly) {
  const std::vector<AchievedCase> cases{
      achieved_by(study_case("gemm", "bf16", "M=8192;N=8192;K=8192"), 5.0 * units::ms, {})};
  EXPECT_EQ(hold_against(demands(), cases, "h200_sxm", 4.8 * units::TB_per_s).size(), 1U);
  EXPECT_TRUE(hold_against(demands(), cases, "a100_sxm", 2.0 * units::TB_per_s).empty());
}

}  // namespace
}  // namespace plumbline::report_cases_test
