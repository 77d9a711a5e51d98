// Pages of studies: heat map, roofs, tables that sort, inputs with checksums, plots alone, and what a browser makes of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <regex>
#include <string>
#include <vector>

#include "arch/files.hpp"
#include "arch/sha256.hpp"
#include "model/report/html/heat_map.hpp"
#include "model/report/html/script.hpp"
#include "tests/support/run_program.hpp"
#include "tests/support/strict_markup.hpp"

namespace plumbline::study_page_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Words = std::vector<std::string>;

std::string study(Words more, int code = 0) {
  Words words{"sweep",   "llm",    "--model", "llama-3.1-8b", "--gpu",     "h200",
              "--phase", "decode", "--batch", "1:256:x2",     "--context", "1k,4k,16k"};
  words.insert(words.end(), more.begin(), more.end());
  const test::ProgramResult result = test::run_program("predict-model", words);
  EXPECT_EQ(result.code, code) << result.err;
  return code == 0 ? result.out : result.err;
}

TEST(HeatMap, ShadesGoByTheLogarithmAndEmptyCellsStayEmpty) {
  html::HeatMap map;
  map.x_name = "batch";
  map.y_name = "<b>";
  map.what = "latency_s";
  map.x = {"1", "2", "4"};
  map.y = {"a", "&"};
  map.values = {{1.0, 10.0, 100.0}, {std::nullopt, 10.0, 1.0}};
  map.texts = {{"1 s", "10 s", "100 s"}, {"", "10 s", "1 s"}};
  const std::string svg = html::heat_map(map);
  ASSERT_NO_THROW(test::read_markup("<!doctype html>\n" + svg));
  std::vector<std::string> shades;
  const std::regex shade("fill-opacity:([0-9.]+)");
  for (std::sregex_iterator it(svg.begin(), svg.end(), shade), end; it != end; ++it) shades.push_back((*it)[1]);
  EXPECT_EQ(shades, (std::vector<std::string>{"0.08", "0.54", "1.00", "0.54", "0.08"}));
  EXPECT_THAT(svg, HasSubstr("&lt;b&gt; a, batch 4: latency_s 100 s"));
  EXPECT_THAT(svg, Not(HasSubstr("<b>")));
}

TEST(StudyPage, HasPlotsTablesAndInputsByFileAndChecksum) {
  const std::string page = study({"--columns", "latency_s,tokens_per_s,flops,dram_bytes", "--format", "html"});
  test::Markup read;
  ASSERT_NO_THROW(read = test::read_markup(page));
  for (const char* heading : {"latency_s by batch", "latency_s over two axes", "Under the roofs", "Points", "Inputs"}) {
    EXPECT_TRUE(read.has_text(heading)) << heading;
  }
  EXPECT_THAT(page, HasSubstr("<table class=\"sorts\">"));
  for (const char* file : {"models/llama-3.1-8b", "gpus/h200_sxm", "calibration/h200_sxm", "stacks/trt-llm"}) {
    EXPECT_TRUE(read.has_text(std::string("data/") + file + ".json")) << file;
    EXPECT_TRUE(read.has_text(Sha256::of(read_text_file(data_folder() + "/" + file + ".json")))) << file;
  }
  EXPECT_LT(page.size(), 1'000'000U);
  EXPECT_EQ(html::kTableScript.find_first_of("<&"), std::string_view::npos);
}

/// Names that go together are one axis of the map, and long ones stand left of it, not below.
TEST(StudyPage, HasAHeatMapOfAxesNotOfNamesThatGoTogether) {
  const test::TemporaryFolder folder;
  test::put_file(folder / "study.json",
                 R"({"schema": 1, "base": {"command": "llm", "model": "llama-3.2-1b", "gpu": "h200",
    "phase": "decode"}, "axes": [{"name": "batch", "values": [1, 2]}, {"zip": [{"name": "label", "values":
    ["as it is, a long name", "quicker memory, a long name", "many more SMs, a long name", "another one, a long name",
     "fifth", "sixth", "seventh"]}, {"name": "set.tdp", "values":
     ["500W", "550W", "600W", "650W", "700W", "750W", "800W"]}]}],
    "columns": ["latency_s"]})");
  const test::ProgramResult page =
      test::run_program("predict-model", {"sweep", folder / "study.json", "--format", "html"});
  ASSERT_EQ(page.code, 0) << page.err;
  ASSERT_NO_THROW(test::read_markup(page.out));
  EXPECT_THAT(page.out, HasSubstr("label quicker memory, a long name, batch 2: latency_s "));
  EXPECT_THAT(page.out, HasSubstr(">quicker memory, a lo...<"));
  EXPECT_THAT(page.out, HasSubstr("<li><svg role=\"img\" aria-label=\"colour\"><rect class=\"c6\""));
}

TEST(StudyPage, PlotsStandAlone) {
  for (const char* plot : {"points", "heat"}) {
    const std::string svg = study({"--columns", "latency_s", "--format", "svg", "--plot", plot});
    ASSERT_NO_THROW(test::read_markup("<!doctype html>\n" + svg)) << plot;
    EXPECT_THAT(svg, ::testing::StartsWith("<svg xmlns=\"http://www.w3.org/2000/svg\"")) << plot;
  }
  EXPECT_THAT(study({"--plot", "heat"}, 2), HasSubstr("--plot"));
  const test::ProgramResult one = test::run_program(
      "predict-model",
      {"sweep", "op", "gemm", "M=1,2,4", "N=64", "K=64", "--gpu", "h200", "--format", "svg", "--plot", "heat"});
  EXPECT_EQ(one.code, 2);
  EXPECT_THAT(one.err, HasSubstr("two axes"));
}

/// In headless Chromium, where there is one: nothing on the console, and a heading that is clicked twice sorts downwards.
TEST(StudyPage, SortsInABrowserWithoutAWordOnTheConsole) {
  if (std::system("command -v chromium > /dev/null 2>&1") != 0) GTEST_SKIP() << "no chromium here";
  std::string page = study({"--columns", "latency_s,tokens_per_s", "--format", "html"});
  const std::string clicks =
      "<script>var heading = document.querySelectorAll('table.sorts th')[2]; heading.click(); heading.click();"
      "var field = document.querySelector('input.filter'); field.value = '16k'; "
      "field.dispatchEvent(new Event('input'));</script></body>";
  page.replace(page.rfind("</body>"), 7, clicks);
  std::string folder = (std::filesystem::temp_directory_path() / "plumbline-XXXXXX").string();
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  test::put_file(folder + "/page.html", page);
  const std::string command =
      "timeout 60 chromium --headless=new --no-sandbox --disable-gpu --enable-logging=stderr "
      "--user-data-dir='" +
      folder + "/profile' --dump-dom 'file://" + folder + "/page.html' > '" + folder + "/dom' 2> '" + folder + "/log'";
  const int status = std::system(command.c_str());
  const std::string dom = test::whole_file(folder + "/dom"), log = test::whole_file(folder + "/log");
  std::filesystem::remove_all(folder);
  if (status != 0) GTEST_SKIP() << "chromium does not run here: " << log.substr(0, 300);
  EXPECT_THAT(log, Not(HasSubstr("CONSOLE")));
  const std::size_t table = dom.find("class=\"sorts\"");
  ASSERT_NE(table, std::string::npos);
  EXPECT_THAT(dom, HasSubstr("aria-sort=\"descending\""));
  const std::string rows = dom.substr(dom.find("<tbody>", table));
  // the slowest point first: most sequences, longest contexts
  EXPECT_LT(rows.find(">256<"), rows.find(">128<"));
  EXPECT_LT(rows.find(">16k<"), rows.find(">1k<"));
  std::size_t hidden = 0;
  for (std::size_t at = 0; (at = rows.find("<tr hidden", at)) != std::string::npos; ++at) ++hidden;
  EXPECT_EQ(hidden, 18U);
}

}  // namespace
}  // namespace plumbline::study_page_test
