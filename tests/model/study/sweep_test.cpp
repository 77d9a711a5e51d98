// Sweeps: lists, points, lines, what is left, and that neither threads nor a kill change a byte.
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "arch/error.hpp"
#include "arch/gpu/number.hpp"
#include "model/machines.hpp"
#include "model/predict.hpp"
#include "model/study.hpp"
#include "tests/support/places.hpp"
#include "tests/support/run_program.hpp"
#include "tests/support/sampled.hpp"

namespace plumbline::sweep_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Words = std::vector<std::string>;
using Json = nlohmann::ordered_json;

std::string refused(const std::function<void()>& work) {
  try {
    work();
  } catch (const BadInput& bad) {
    return bad.what();
  }
  return "";
}

TEST(Lists, AreValuesRangesAndUnits) {
  EXPECT_THAT(expand_list("x", "1,2,4"), ElementsAre("1", "2", "4"));
  EXPECT_THAT(expand_list("x", "3:4:0.5TB/s"), ElementsAre("3TB/s", "3.5TB/s", "4TB/s"));
  EXPECT_THAT(expand_list("x", "1:64:x4"), ElementsAre("1", "4", "16", "64"));
  EXPECT_THAT(expand_list("x", "1:7:3,10"), ElementsAre("1", "4", "7", "10"));
  EXPECT_THAT(expand_list("x", "3,6TB/s"), ElementsAre("3TB/s", "6TB/s"));
  EXPECT_THAT(expand_list("x", "1k:3k:1k"), ElementsAre("1k", "2k", "3k"));
  EXPECT_THAT(expand_list("x", "-10:10:10%"), ElementsAre("-10%", "+0%", "+10%"));
  EXPECT_THAT(expand_list("x", "120,+10%"), ElementsAre("120", "+10%"));
  EXPECT_THAT(expand_list("x", "h100,h200"), ElementsAre("h100", "h200"));
  EXPECT_THAT(expand_list("x", "power:1.2"), ElementsAre("power:1.2"));
  EXPECT_THAT(expand_list("x", "0.1:0.5:0.1").back(), "0.5");  // not 0.5000000000000001, and it is there
  for (const char* wrong :
       {"1,,2", "4:1:1", "1:4:0", "1:4:x1", "0:4:x2", "1:1e9:1", "1,2,8k", "1:8:1k", "1GB/s:2:1TB/s"}) {
    EXPECT_THAT(refused([&] { (void)expand_list("--batch", wrong); }), HasSubstr("--batch: expected")) << wrong;
  }
}

Study small_study() {
  Study study;
  study.base = {{"model", "llama-3.2-1b"}, {"gpu", "h200"}, {"phase", "decode"}};
  study.axes = {axis("context", "512,2048"), axis("set.memory.bandwidth", "4,4.8,6TB/s"),
                axis("set.sm_count", "120,+10%"), axis("batch", "1:64:x4"), axis("tp", "1,3")};
  study.columns = {"latency_s", "tokens_per_s", "energy_J", "fits", "bound"};
  return study;
}

std::string swept(const Study& study, const SweepOptions& options = {}) {
  std::string all;
  sweep(study, options, [&](std::string_view text) { all += text; });
  return all;
}

Words lines_of(const std::string& text) {
  Words lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

TEST(Sweep, PutsThePointsInOrderTheLastAxisFastest) {
  Study study = small_study();
  study.axes.pop_back();
  study.columns = {"fits"};
  const Words lines = lines_of(swept(study));
  ASSERT_EQ(lines.size(), 1U + 2 * 3 * 2 * 4);
  EXPECT_EQ(lines[0], "context,set.memory.bandwidth,set.sm_count,batch,fits,error");
  EXPECT_EQ(lines[1], "512,4TB/s,120,1,true,");
  EXPECT_EQ(lines[2], "512,4TB/s,120,4,true,");
  EXPECT_EQ(lines[5], "512,4TB/s,+10%,1,true,");
  EXPECT_EQ(lines.back(), "2048,6TB/s,+10%,64,true,");
}

/// Each point is what a machine with those overrides answers, to the last bit.
TEST(Sweep, AnswersWhatSinglePredictionsAnswer) {
  Study study = small_study();
  study.axes.pop_back();
  SweepOptions options;
  options.format = SweepFormat::json_lines;
  const Llm llm = load_llm("llama-3.2-1b");
  for (const std::string& line : lines_of(swept(study, options))) {
    const Json point = Json::parse(line);
    MachineKey key{"h200"};
    key.options.clock = ClockMode::steady;
    for (const char* path : {"memory.bandwidth", "sm_count"}) {
      const Json& value = point.at("set." + std::string(path));
      key.overrides.push_back({path, value.is_string() ? value.get<std::string>() : value.dump()});
    }
    Workload workload;
    workload.batch = point.at("batch");
    workload.context = point.at("context");
    const StepPrediction step = predict(llm, workload, machines().get(key), RunOptions{});
    EXPECT_EQ(point.at("latency_s").get<double>(), step.latency.in(units::s)) << line;
    EXPECT_EQ(point.at("tokens_per_s").get<double>(), step.tokens_per_s);
    EXPECT_EQ(point.at("energy_J").get<double>(), step.energy->in(units::J));
  }
}

TEST(Sweep, KeepsTheLineOfAPointThatIsRefused) {
  Study study = small_study();
  const std::string text = swept(study);
  const Words lines = lines_of(text);
  ASSERT_EQ(lines.size(), 1U + 96);
  EXPECT_THAT(lines[2], HasSubstr("512,4TB/s,120,1,3,,,,,,"));
  EXPECT_THAT(lines[2], HasSubstr("tp 3"));
  SweepProgress seen;
  SweepOptions options;
  options.progress = [&](const SweepProgress& p) { seen = p; };
  swept(study, options);
  EXPECT_EQ(seen.refused, 48);
  EXPECT_EQ(seen.kept, 96);
  EXPECT_EQ(seen.bugs, 0);
  study.where = {"tp<=1", "latency_s<=0.001"};
  for (const std::string& line : lines_of(swept(study))) EXPECT_THAT(line, Not(HasSubstr("tp 3")));
  study.where = {"latency_s<=1e-9"};  // nobody knows whether a refused point would hold it
  EXPECT_EQ(lines_of(swept(study)).size(), 1U + 48);
}

/// Any number of threads, blocks of any size, gone on with at any block: the same bytes.
class SweepParts : public ::testing::TestWithParam<std::tuple<int, int, SweepFormat, int>> {};

TEST_P(SweepParts, DoNotChangeAByte) {
  const auto& [threads, block, format, stop] = GetParam();
  Study study = small_study();
  study.where = {"batch!=4", "tokens_per_s>=100"};
  SweepOptions options;
  options.format = format;
  const std::string whole = swept(study, options);
  options.threads = threads;
  options.block = block;
  EXPECT_EQ(swept(study, options), whole);
  // as if it had been killed after some block
  std::string so_far, first;
  SweepProgress then;
  const std::int64_t last = stop;
  options.progress = [&](const SweepProgress& p) {
    if (p.done <= last) first = so_far, then = p;
  };
  sweep(study, options, [&](std::string_view text) { so_far += text; });
  options.before = then;
  options.progress = {};
  EXPECT_EQ((then.done > 0 ? first : "") + swept(study, options), whole);
}
INSTANTIATE_TEST_SUITE_P(Some, SweepParts,
                         ::testing::Values(std::tuple(1, 7, SweepFormat::csv, 0),
                                           std::tuple(3, 1, SweepFormat::json_lines, 95),
                                           std::tuple(4, 40, SweepFormat::csv, 50)));

/// The front is what comparing all with all leaves, the best are those of a sort.
TEST(Sweep, TheBestAreThoseOfAllPoints) {
  Study study = small_study();
  study.columns = {"tokens_per_s", "energy_per_token_J", "fits"};
  const StudyRows all = best_points(study, 0, {}, 1000);
  SweepOptions options;
  options.threads = 3;
  options.block = 11;
  const auto value = [](const StudyRow& row, std::size_t i) { return std::get<double>(row.figures[i]); };
  study.pareto = {"tokens_per_s", "energy_per_token_J"};
  std::vector<std::int64_t> front;
  for (const StudyRow& a : all.rows) {
    if (!a.error.empty()) continue;
    bool beaten = false;
    for (const StudyRow& b : all.rows) {
      if (!b.error.empty()) continue;
      const double more = value(b, 0) - value(a, 0), less = value(a, 1) - value(b, 1);
      beaten = beaten || (more >= 0 && less >= 0 && (more > 0 || less > 0));
    }
    if (!beaten) front.push_back(a.point);
  }
  std::vector<std::int64_t> found;
  for (const StudyRow& row : best_points(study, 0, options, 1000).rows) found.push_back(row.point);
  std::sort(found.begin(), found.end());
  EXPECT_EQ(found, front);
  EXPECT_FALSE(front.empty());
  study.pareto.clear();
  study.objective = "min energy_per_token_J";
  constexpr std::int64_t top = 7;
  std::vector<StudyRow> sorted;
  for (const StudyRow& row : all.rows) {
    if (row.error.empty()) sorted.push_back(row);
  }
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](const StudyRow& a, const StudyRow& b) { return value(a, 1) < value(b, 1); });
  const StudyRows best = best_points(study, top, options, 1000);
  ASSERT_EQ(static_cast<std::int64_t>(best.rows.size()), top);
  for (std::size_t i = 0; i < best.rows.size(); ++i) EXPECT_EQ(best.rows[i].point, sorted[i].point);
}

/// Numbers that are put together are those that one reading gives.
RC_GTEST_PROP(SweepLaws, OverridesTogetherAreThoseOfOneReading, ()) {
  static const std::vector<GpuParameter> parameters = gpu_parameters();
  static const GpuChanges h200("h200"), b200("b200");
  static std::map<std::tuple<bool, std::string, std::string>, std::optional<GpuChanges::Alone>> known;
  const bool first = *rc::gen::arbitrary<bool>();
  std::vector<Override> overrides;
  for (const std::size_t i :
       *rc::gen::unique<std::vector<std::size_t>>(3, rc::gen::inRange<std::size_t>(0, parameters.size()))) {
    overrides.push_back({parameters[i].path, *rc::gen::element<std::string>("+10%", "x0.9")});
  }
  const GpuChanges& changes = first ? h200 : b200;
  std::vector<const GpuChanges::Alone*> all;
  for (const Override& each : overrides) {
    const auto [at, fresh] = known.try_emplace({first, each.path, each.value});
    try {
      if (fresh) at->second = changes.alone(each);
    } catch (const BadInput&) {  // nothing there to change, or more than there can be
    }
    if (!at->second) return;
    all.push_back(&*at->second);
  }
  std::optional<GpuNumbers> together;
  try {
    together = changes.together(all);
  } catch (const BadInput&) {
    EXPECT_THROW((void)load_gpu(first ? "h200" : "b200", overrides), BadInput);
    return;
  }
  if (!together) return;  // left to a reading
  const Gpu read = load_gpu(first ? "h200" : "b200", overrides);
  RC_ASSERT(static_cast<const GpuNumbers&>(read) == *together);
}

/// Training's flags are axes too, and its stack stands where none is given.
TEST(Sweep, TrainsWithTheFlagsOfTraining) {
  Study study;
  study.base = {{"model", "llama-3.2-1b"}, {"gpu", "h200"}, {"phase", "train"}, {"batch", "8"}, {"prompt", "512"}};
  study.axes = {axis("recompute", "none,full")};
  study.columns = {"latency_s"};
  const Words lines = lines_of(swept(study));
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_LT(std::stod(lines[1].substr(lines[1].find(',') + 1)), std::stod(lines[2].substr(lines[2].find(',') + 1)));
  const std::string by_default = swept(study);
  study.base.push_back({"stack", "megatron"});
  EXPECT_EQ(swept(study), by_default);
  study.base[2].value = "prefill";
  EXPECT_THAT(swept(study), HasSubstr("--recompute: has no meaning with --phase prefill"));
}

TEST(StudyFiles, HaveRangesZipsAndConditions) {
  const Study study = parse_study(R"json({"schema": 1,
    "base": {"command": "llm", "model": "llama-3.2-1b", "gpu": "h200", "phase": "decode", "context": 4096, "sp": false,
             "set": {"tdp": "650 W"}},
    "axes": [{"name": "tp", "values": [1, 2]}, {"name": "set.memory.bandwidth", "from": "3 TB/s", "to": "9 TB/s", "count": 3},
             {"zip": [{"name": "gpu", "values": ["h100", "b200"]}, {"name": "dtype", "values": ["fp8", "nvfp4"]}]},
             {"name": "batch", "from": 1, "to": 4, "factor": 2}],
    "where": ["fits"], "columns": ["latency_s"], "objective": "max tokens_per_s", "pareto": ["tokens_per_s", "energy_J"]})json",
                                  "s.json");
  EXPECT_EQ(point_count(study), 2 * 3 * 2 * 3);
  EXPECT_THAT(study.axes[1].values, ElementsAre(Words{"3TB/s"}, Words{"6TB/s"}, Words{"9TB/s"}));
  EXPECT_THAT(study.axes[2].values, ElementsAre(Words{"h100", "fp8"}, Words{"b200", "nvfp4"}));
  const std::string text = swept(study);
  EXPECT_THAT(text, HasSubstr("tp,set.memory.bandwidth,gpu,dtype,batch,latency_s,error\n1,3TB/s,h100,fp8,1,0.00"));
  const auto refusal = [](const std::string& rest) {
    return refused([&] {
      (void)parse_study(
          R"({"schema": 1, "base": {"model": "llama-3.2-1b", "gpu": "h200", "phase": "decode"}, )" + rest + "}",
          "s.json");
    });
  };
  EXPECT_THAT(refusal(R"("axis": [])"), HasSubstr("did you mean 'axes'"));
  EXPECT_THAT(refusal(R"("axes": [{"name": "bach", "values": [1]}])"), HasSubstr("did you mean 'batch'"));
  EXPECT_THAT(refusal(R"("axes": [{"name": "batch", "values": [1, 1]}])"), HasSubstr("twice"));
  EXPECT_THAT(refusal(R"("axes": [{"name": "batch"}])"), HasSubstr("/axes/0: expected values"));
  EXPECT_THAT(refusal(R"("axes": [{"name": "gpu", "values": ["h2000"]}])"), HasSubstr("did you mean"));
  EXPECT_THAT(refusal(R"("axes": [{"zip": [{"name": "tp", "values": [1, 2]}, {"name": "batch", "values": [1]}]}])"),
              HasSubstr("lists of one length"));
  EXPECT_THAT(refusal(R"("axes": [{"name": "set.sm_cout", "values": [1]}])"), HasSubstr("did you mean 'sm_count'"));
}

test::ProgramResult run(const Words& words) { return test::run_program("predict-model", words); }

TEST(SweepCommand, TakesFlagsWithListsAndAFile) {
  const test::TemporaryFolder folder;
  const auto flags = run({"sweep", "llm", "--model", "llama-3.2-1b", "--gpu", "h200", "--phase", "decode",
                          "--batch=1,8", "--sp", "--tp", "2", "--columns", "latency_s,fits"});
  EXPECT_EQ(flags.code, 0) << flags.err;
  test::put_file(folder / "s.json", R"({"schema": 1, "base": {"model": "llama-3.2-1b", "gpu": "h200", "phase": "decode",
    "sp": true, "tp": 2}, "axes": [{"name": "batch", "values": [1, 8]}], "columns": ["latency_s", "fits"]})");
  EXPECT_EQ(run({"sweep", folder / "s.json"}).out, flags.out);
  EXPECT_EQ(lines_of(run({"sweep", folder / "s.json", "--batch", "1:8:1"}).out).size(), 9U);
  const auto op = run({"sweep", "op", "gemm", "M=1:64:x8", "N=512", "K=512", "--gpu", "h200", "--format", "json"});
  EXPECT_EQ(op.code, 0) << op.err;
  EXPECT_EQ(Json::parse(op.out).at("points").size(), 3U);
  const auto part = run(
      {"sweep", "op", "gemm", "M=1", "N=512", "K=512", "--gpu", "h200", "--dtype", "bf16,fp7", "--format", "table"});
  EXPECT_EQ(part.code, 3);
  EXPECT_THAT(part.out, HasSubstr("fp7"));
  for (const char* format : {"csv", "table", "html", "json", "jsonl"}) {
    const auto none = run({"sweep", folder / "s.json", "--where", "latency_s<=1e-9", "--objective", "latency_s",
                           "--top", "2", "--format", format});
    EXPECT_EQ(none.code, 1) << none.err;
  }
}

/// What a sweep noted of how far it is.
std::string notes_in(const test::TemporaryFolder& folder) {
  std::string notes;
  for (const std::string& name : folder.names()) {
    if (name.ends_with(".state") || name.ends_with(".best")) notes += test::whole_file(folder / name);
  }
  return notes;
}

/// Runs the words, and kills them some moments after they noted that they got further: exit code, or nothing where they
/// were killed.
std::optional<int> run_and_kill(Words words, const test::TemporaryFolder& folder, std::chrono::microseconds moments) {
  std::vector<char*> argv;
  for (std::string& each : words) argv.push_back(each.data());
  argv.push_back(nullptr);
  const std::string before = notes_in(folder);
  pid_t pid = 0;
  posix_spawn_file_actions_t quiet;
  posix_spawn_file_actions_init(&quiet);
  posix_spawn_file_actions_addopen(&quiet, 2, "/dev/null", O_WRONLY, 0);
  EXPECT_EQ(::posix_spawn(&pid, words.front().c_str(), &quiet, nullptr, argv.data(), environ), 0);
  posix_spawn_file_actions_destroy(&quiet);
  int status = 0;
  pid_t ended = 0;
  while (notes_in(folder) == before && (ended = ::waitpid(pid, &status, WNOHANG)) == 0) {
    std::this_thread::sleep_for(std::chrono::microseconds(500));
  }
  if (ended == 0) {
    std::this_thread::sleep_for(moments);
    ::kill(pid, SIGKILL);
    ::waitpid(pid, &status, 0);
  }
  if (WIFSIGNALED(status)) return std::nullopt;
  return WEXITSTATUS(status);
}

class KilledSweep : public ::testing::TestWithParam<Words> {};

/// Killed at random moments and gone on with until it ends: the bytes of one run.
TEST_P(KilledSweep, LosesNothing) {
  const test::TemporaryFolder folder;
  const std::string out = folder / "out";
  Words words{"sweep",   "llm",    "--model",   "llama-3.2-1b", "--gpu", "h200",    "--phase",   "decode",
              "--batch", "1:64:1", "--context", "128:1024:128", "--tp",  "1,2,3,4", "--threads", "2"};
  words.insert(words.end(), GetParam().begin(), GetParam().end());
  const auto whole = run(words);
  words.insert(words.end(), {"--resume", "--out", out});
  Words command = words;
  command.insert(command.begin(), testing_support::programs_folder() + "/predict-model");
  std::mt19937 random(20261123);
  std::optional<int> code;
  int kills = 0;
  while (!code && kills < 5) {
    code = run_and_kill(command, folder, std::chrono::microseconds(random() % 5000));
    if (!code) ++kills;
  }
  EXPECT_GT(kills, 0);
  if (!code) code = run(words).code;
  EXPECT_EQ(code, whole.code);
  EXPECT_EQ(test::whole_file(out), whole.out);
  EXPECT_THAT(folder.names(), ElementsAre("out"));
}
INSTANTIATE_TEST_SUITE_P(Some, KilledSweep,
                         ::testing::Values(Words{}, Words{"--format", "json"},
                                           Words{"--pareto", "tokens_per_s,latency_s", "--format", "csv"},
                                           Words{"--objective", "max tokens_per_J", "--top", "40", "--format",
                                                 "table"}));

/// The best points of all, whatever a run knew when it was ended.
TEST(Sweep, GoesOnWithTheBestPointsSoFar) {
  Study study = small_study();
  study.objective = "max tokens_per_s";
  study.columns = {"tokens_per_s", "energy_J"};
  for (const bool front : {false, true}) {
    if (front) study.pareto = {"tokens_per_s", "energy_J"};
    const std::int64_t top = front ? 0 : 5;
    SweepOptions options;
    options.block = 7;
    std::vector<std::pair<SweepProgress, std::vector<std::int64_t>>> moments;
    options.note = [&](const SweepProgress& p, const std::vector<std::int64_t>& best) {
      moments.emplace_back(p, best);
    };
    const StudyRows whole = best_points(study, top, options, 1000);
    ASSERT_EQ(moments.size(), 14U);
    for (const auto& [progress, best] : test::sampled(moments)) {
      SweepOptions later;
      later.before = progress;
      later.best_before = best;
      const StudyRows rest = best_points(study, top, later, 1000);
      ASSERT_EQ(rest.rows.size(), whole.rows.size());
      for (std::size_t i = 0; i < rest.rows.size(); ++i) {
        EXPECT_EQ(rest.rows[i].point, whole.rows[i].point);
        EXPECT_EQ(rest.rows[i].figures, whole.rows[i].figures);
        EXPECT_EQ(rest.rows[i].settings, whole.rows[i].settings);
      }
      EXPECT_EQ(rest.counts.kept, whole.counts.kept);
      EXPECT_EQ(rest.counts.refused, whole.counts.refused);
    }
  }
}

/// Points that others answer, all of them or until they are gone: the bytes of one process.
TEST(Sweep, TakesPartsFromHelpers) {
  Study study = small_study();
  study.where = {"batch!=4"};
  study.objective = "max tokens_per_s";
  const std::string whole = swept(study);
  const StudyRows best = best_points(study, 6, {}, 1000);
  for (const int answers : {0, 3, 1000}) {
    SweepOptions options;
    options.block = 5;
    for (const bool ranked : {false, true}) {
      int left = answers, asked = 0;
      SweepServant servant(study, options, ranked, 6);
      options.helpers = {[&](std::int64_t first, std::int64_t count) -> std::optional<SweepPart> {
        ++asked;
        if (left-- <= 0) return std::nullopt;
        return servant.answer(first, count);
      }};
      if (!ranked) EXPECT_EQ(swept(study, options), whole);
      else EXPECT_EQ(best_points(study, 6, options, 1000).rows.front().figures, best.rows.front().figures);
      EXPECT_LE(asked, answers + 1);
    }
  }
}

/// Figures are those of the lines; of points that are left out there is nothing.
TEST(Sweep, GivesRowsToo) {
  Study study = small_study();
  study.where = {"batch!=4"};
  const Words lines = lines_of(swept(study));
  std::size_t line = 1;
  const SweepProgress counts = sweep_rows(study, {}, [&](const StudyRow& row) {
    ASSERT_LT(line, lines.size());
    std::string begin;
    for (const std::string& each : row.settings) begin += each + ",";
    EXPECT_THAT(lines[line], ::testing::StartsWith(begin));
    if (row.error.empty()) EXPECT_THAT(lines[line], HasSubstr(std::get<std::string>(row.figures[4])));
    else EXPECT_THAT(lines[line], HasSubstr("tp 3"));
    ++line;
  });
  EXPECT_EQ(line, lines.size());
  EXPECT_EQ(counts.kept + 24, counts.points);
  EXPECT_EQ(axis_names(study), (Words{"context", "set.memory.bandwidth", "set.sm_count", "batch", "tp"}));
  EXPECT_EQ(column_names(study), study.columns);
}

}  // namespace
}  // namespace plumbline::sweep_test
