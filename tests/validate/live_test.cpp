// The measuring loop on measurers that are no card: nothing that was measured is lost, whatever happens.
#include "validate/measure/live.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <sstream>

#include "arch/files.hpp"
#include "tests/support/hand_made_recording.hpp"
#include "tests/support/run_program.hpp"
#include "validate/cli/live.hpp"
#include "validate/record/study.hpp"

namespace plumbline::live_test {
namespace {

using ::testing::HasSubstr;
using namespace testing_support;

constexpr const char* kStudy =
    "op,dtype,shape,cache,clock\n"
    "gemm,bf16,M=16;N=4096;K=4096,cold,burst\n"
    "rmsnorm,bf16,rows=64;cols=4096,cold,burst\n"
    "gemm,bf16,M=8192;N=8192;K=8192,cold,steady\n"
    "copy,bf16,rows=65536;cols=4096,cold,burst\n";

Measurement usual(int, const StudyCase& what, KernelSet kernels) { return measured_case(what, 20, kernels); }

/// One run of the command with a fake card.
struct LiveRun {
  explicit LiveRun(FakeMeasurer::Answer answer, const std::function<void(LiveRequest&)>& change = {}) {
    test::put_file(folder / "study.csv", kStudy);
    LiveRequest request;
    request.studies = {folder / "study.csv"};
    request.out_file = folder / "out.json";
    if (change) change(request);
    std::ostringstream out_text, err_text;
    code = run_live(
        request, [&] { return std::make_unique<FakeMeasurer>(std::move(answer)); }, out_text, err_text, false);
    out = out_text.str();
    err = err_text.str();
  }
  Recording recording() const { return read_recording(folder / "out.json"); }

  test::TemporaryFolder folder;
  ExitCode code = ExitCode::our_bug;
  std::string out, err;
};

TEST(LiveTasks, OwnKernelsHaveTheLibraryBesideThem) {
  const auto cases = parse_study(kStudy, "study.csv");
  const auto own = live_tasks(cases, KernelSet::own);
  ASSERT_EQ(own.size(), 6U);
  EXPECT_EQ(own[0].kernels, KernelSet::own);
  EXPECT_EQ(own[1].kernels, KernelSet::library);
  EXPECT_EQ(own[1].what.shape, own[0].what.shape);
  EXPECT_EQ(own[3].kernels, KernelSet::library);  // the next pair the other way round
  EXPECT_EQ(own[4].kernels, KernelSet::own);
  EXPECT_EQ(own[4].what.shape, own[3].what.shape);
  EXPECT_EQ(live_tasks(cases, KernelSet::library).size(), 2U);
}

TEST(Live, MeasuresEverythingAndReports) {
  const LiveRun run(usual);
  EXPECT_EQ(run.code, ExitCode::done) << run.err;
  EXPECT_EQ(run.recording().cases.size(), 6U);
  EXPECT_THAT(run.out, HasSubstr("4 rows compared"));
  EXPECT_THAT(run.out, HasSubstr("NVIDIA H200"));
  EXPECT_THAT(run.err, HasSubstr("validate: 1 of 6, 0:"));
  EXPECT_THAT(run.err, Not(HasSubstr("\r")));
  EXPECT_EQ(run.folder.names().size(), 2U);  // nothing half-written beside
}

TEST(Live, AReplayOfItsRecordingIsTheSameReport) {
  const LiveRun run(usual, [](LiveRequest& r) { r.compared.report.format = "csv"; });
  ReplayRequest request;
  request.compared.report.format = "csv";
  request.file = run.folder / "out.json";
  std::ostringstream out, err;
  EXPECT_EQ(run_replay(request, out, err), ExitCode::done);
  EXPECT_EQ(out.str(), run.out);
}

TEST(Live, FaultsAreListedAndTheRestIsCompared) {
  const LiveRun run([](int number, const StudyCase& what, KernelSet kernels) {
    if (number == 2) throw NotModelled("no kernel for rmsnorm");
    Measurement c = measured_case(what, 20, kernels);
    if (number == 1) c.fault = "the library answered 15";
    if (number == 5) c.time = Seconds{};
    return c;
  });
  EXPECT_EQ(run.code, ExitCode::not_modelled);
  EXPECT_THAT(run.err,
              HasSubstr("validate: 2 of 4 cases could not be measured or priced; first: study.csv:3: rmsnorm"));
  EXPECT_THAT(run.out,
              HasSubstr("\n  1 row: no kernel for rmsnorm (first: study.csv:3 rmsnorm bf16 rows=64;cols=4096"));
  EXPECT_THAT(run.out, HasSubstr("\n  1 row: no time was measured (first: "));
  EXPECT_THAT(run.out, HasSubstr("2 rows compared, 2 not measured"));
  const Recording recording = run.recording();
  ASSERT_EQ(recording.cases.size(), 6U);
  EXPECT_EQ(recording.cases[1].fault, "the library answered 15");
}

TEST(Live, ADeviceErrorInTheMiddleLosesNothing) {
  const LiveRun run([](int number, const StudyCase& what, KernelSet kernels) {
    if (number == 3) throw DeviceError("cudaGraphLaunch: unspecified launch failure");
    return usual(number, what, kernels);
  });
  EXPECT_EQ(run.code, ExitCode::no_device);
  EXPECT_EQ(run.recording().cases.size(), 3U);
  EXPECT_THAT(run.err, HasSubstr("device lost after 3 of 6 cases: gemm bf16 M=8192;N=8192;K=8192, cold steady: cuda"));
  EXPECT_THAT(run.out, HasSubstr("2 rows compared"));
}

TEST(Live, CtrlCStopsAfterThePresentCase) {
  const LiveRun run([](int number, const StudyCase& what, KernelSet kernels) {
    if (number == 2) std::raise(SIGINT);
    return usual(number, what, kernels);
  });
  EXPECT_EQ(run.code, ExitCode::interrupted);
  EXPECT_EQ(static_cast<int>(run.code), 130);
  EXPECT_EQ(run.recording().cases.size(), 3U);  // the case in which it came is kept
  EXPECT_THAT(run.err, HasSubstr("interrupted after 3 of 6 cases"));
  EXPECT_THAT(run.out, HasSubstr("2 rows compared"));
}

TEST(Live, CtrlCBeforeTheFirstResultIsNoReport) {
  const LiveRun run([](int, const StudyCase&, KernelSet) -> Measurement { throw DeviceError("gone"); });
  EXPECT_EQ(run.code, ExitCode::no_device);
  EXPECT_EQ(run.out, "");
  EXPECT_TRUE(run.recording().cases.empty());
}

TEST(Live, SignalsAreGivenBack) {
  struct sigaction before {
  }, after{};
  sigaction(SIGINT, nullptr, &before);
  { const StopOnSignal signals; }
  sigaction(SIGINT, nullptr, &after);
  EXPECT_EQ(before.sa_handler, after.sa_handler);
}

TEST(Live, AsksTheCardOnlyWhenTheQuestionIsSound) {
  bool asked = false;
  const MakeMeasurer make = [&]() -> std::unique_ptr<Measurer> {
    asked = true;
    throw DeviceError("no CUDA driver");
  };
  std::ostringstream out, err;
  const auto refused = [&](const std::function<void(LiveRequest&)>& change) {
    LiveRequest request;
    request.quick = true;
    change(request);
    EXPECT_THROW(run_live(request, make, out, err, false), BadInput);
    EXPECT_FALSE(asked);
  };
  refused([](LiveRequest& r) { r.compared.rows.ops = {"gem"}; });
  refused([](LiveRequest& r) { r.studies = {"/nowhere/study.csv"}; });
  refused([](LiveRequest& r) { r.out_file = "/nowhere/out.json"; });
  refused([](LiveRequest& r) { r.compared.stack = "ideal"; });
  LiveRequest sound;
  sound.quick = true;
  EXPECT_THROW(run_live(sound, make, out, err, false), DeviceError);
  EXPECT_TRUE(asked);
}

TEST(Live, AnUnknownCardNeedsAName) {
  class Unknown : public FakeMeasurer {
   public:
    using FakeMeasurer::FakeMeasurer;
    MeasuringSession session() const override {
      MeasuringSession s = hand_made_session();
      s.gpu = "";
      return s;
    }
  };
  const test::TemporaryFolder folder;
  test::put_file(folder / "study.csv", kStudy);
  LiveRequest request;
  request.studies = {folder / "study.csv"};
  request.out_file = folder / "out.json";
  const MakeMeasurer make = [] { return std::make_unique<Unknown>(usual); };
  std::ostringstream out, err;
  EXPECT_THROW(run_live(request, make, out, err, false), BadInput);
  request.compared.card.gpu = "h100_sxm";
  EXPECT_EQ(run_live(request, make, out, err, false), ExitCode::done);
  EXPECT_EQ(read_recording(request.out_file).session.gpu, "h100_sxm");
}

TEST(Live, ACardThatOtherProcessesUseIsSaidAndMarksTheRecording) {
  for (const int others : {0, 1, 3}) {
    const test::TemporaryFolder folder;
    test::put_file(folder / "study.csv", kStudy);
    LiveRequest request;
    request.studies = {folder / "study.csv"};
    request.out_file = folder / "out.json";
    std::ostringstream out, err;
    const auto make = [&] {
      auto measurer = std::make_unique<FakeMeasurer>(usual);
      measurer->here.other_processes = others;
      return measurer;
    };
    EXPECT_EQ(run_live(request, make, out, err, false), ExitCode::done);
    EXPECT_EQ(read_recording(request.out_file).session.other_processes, others);
    const std::string said = std::to_string(others) + " other process";
    EXPECT_EQ(err.str().find(said) != std::string::npos, others > 0) << err.str();
    EXPECT_EQ(out.str().find(said) != std::string::npos, others > 0) << out.str();
    EXPECT_EQ(err.str().find("the recording is marked"), err.str().rfind("the recording is marked"));  // once
    EXPECT_EQ(read_text_file(request.out_file).find("other_processes") != std::string::npos, others > 0);
  }
}

TEST(Live, ThePlanThatWasPricedIsTheOneThatIsMeasured) {
  class Checking : public Measurer {
   public:
    MeasuringSession session() const override { return hand_made_session(); }
    Measurement measure(const StudyCase& what, KernelSet kernels, const OpPrediction& priced) override {
      EXPECT_GT(priced.gemm_plan.tile_m, 0);
      return measured_case(what, 20, kernels);
    }
  };
  const test::TemporaryFolder folder;
  test::put_file(folder / "study.csv", "op,dtype,shape\ngemm,bf16,M=4096;N=4096;K=4096\n");
  LiveRequest request;
  request.studies = {folder / "study.csv"};
  std::ostringstream out, err;
  EXPECT_EQ(run_live(
                request, [] { return std::make_unique<Checking>(); }, out, err, false),
            ExitCode::done);
}

TEST(Progress, RewritesOneLineOnATerminal) {
  std::ostringstream text;
  const auto progress = make_progress(text, true);
  const LiveTask task{study_case("gemm", "bf16", "M=16;N=4096;K=4096"), KernelSet::library};
  progress->before(36, 912, task, 112.0 * units::s);
  EXPECT_THAT(text.str(),
              HasSubstr("\rvalidate: 37 of 912, 1:52 left, gemm bf16 M=16;N=4096;K=4096, cold burst, library"));
  progress->finish();
  EXPECT_EQ(text.str().back(), '\r');
  EXPECT_THAT(text.str(), Not(HasSubstr("\n")));
}

}  // namespace
}  // namespace plumbline::live_test
