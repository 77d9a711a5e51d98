// Laws of the recordings under data/measurements/h200: as the card gave them, and replayed anywhere. What they say
// about accuracy is for the report, not for a test: a better model must not have to change this file.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "arch/files.hpp"
#include "validate/compare/report.hpp"
#include "validate/record/recorded.hpp"
#include "validate/record/step.hpp"
#include "validate/record/study.hpp"

namespace plumbline::recorded_h200_test {
namespace {

std::vector<std::string> recordings() {
  std::vector<std::string> files;
  const std::filesystem::path folder = std::filesystem::path(data_folder()) / "measurements" / "h200";
  for (const std::string& name : json_file_names(folder.string())) {
    files.push_back((folder / (name + ".json")).string());
    if (is_step_recording(read_text_file(files.back()))) files.pop_back();  // step_test.cpp has those
  }
  EXPECT_FALSE(files.empty()) << folder;  // else every law below would hold of nothing
  return files;
}

/// Of a recording of the library alone, the library's.
KernelSet measured_set(const Recording& recording) {
  for (const Measurement& c : recording.cases) {
    if (c.kernels == KernelSet::own) return KernelSet::own;
  }
  return KernelSet::library;
}

TEST(RecordedH200, FilesAreAsTheyWereWritten) {
  for (const std::string& file : recordings()) {
    EXPECT_TRUE(recording_json(read_recording(file)) == read_text_file(file)) << file << " was edited";
  }
}

TEST(RecordedH200, NoProfilerRecordsWereDropped) {
  for (const std::string& file : recordings()) EXPECT_EQ(read_recording(file).session.dropped_records, 0U) << file;
}

TEST(RecordedH200, ReplaysGiveEveryNumberBack) {
  for (const std::string& file : recordings()) {
    const Recording recording = read_recording(file);
    CompareOptions options;
    options.stack = usual_stack(measured_set(recording));
    const auto report = compare_recording(recording, options, read_demands());
    std::size_t at = 0;
    for (const Measurement& c : recording.cases) {
      if (c.kernels != measured_set(recording) || !c.fault.empty()) continue;
      ASSERT_LT(at, report->rows.size());
      const Comparison& row = report->rows[at++].compared;
      EXPECT_EQ(row.measured, c.time) << case_text(c.what);
      EXPECT_EQ(row.error, "") << case_text(c.what);
      EXPECT_GT(row.predicted, Seconds{}) << case_text(c.what);
    }
    EXPECT_EQ(at, report->rows.size());
    EXPECT_NE(html_report(*report).find("</html>"), std::string::npos);
  }
}

TEST(RecordedH200, NothingColdIsFasterThanPhysics) {
  for (const std::string& file : recordings()) {
    const Recording recording = read_recording(file);
    CompareOptions options;
    options.stack = usual_stack(measured_set(recording));
    const auto report = compare_recording(recording, options, {});
    for (const ReportRow& row : report->rows) {
      if (row.measured.what.cache != CacheState::cold) continue;
      // Outputs may stay in L2 while the next case is timed, and the datasheet's bandwidth is nominal: a tenth of room.
      EXPECT_GT(row.compared.measured, 0.9 * row.compared.roofline) << case_text(row.measured.what);
    }
  }
}

}  // namespace
}  // namespace plumbline::recorded_h200_test
