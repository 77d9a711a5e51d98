#include "validate/record/step.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "arch/error.hpp"
#include "arch/files.hpp"
#include "validate/statistics.hpp"
#include "validate/step/step_report.hpp"

namespace plumbline::step_test {
namespace {

using ::testing::HasSubstr;

const char* const kList =
    "study,model,phase,batch,context,prompt,page,clock\n"
    "train,llama-3.2-1b,decode,8,512,,64,burst\n"
    "heldout,llama-3.2-1b,prefill,2,,100,,steady\n";

std::string refusal(const std::string& csv) {
  try {
    parse_step_study(csv, "some/list.csv");
  } catch (const BadInput& error) {
    return error.what();
  }
  return "";
}

/// Both steps of the list, measured as what the model says, or 10 % slower and with 5 % more energy.
StepRecording recorded() {
  StepRecording r;
  r.session.gpu = "h200_sxm";
  r.session.card = "NVIDIA H200";
  for (const StepCase& what : parse_step_study(kList, "some/list.csv")) {
    MachineOptions options{"own"};
    options.clock = what.clock;
    const auto step =
        predict(load_llm(what.model), what.workload, make_machine(load_gpu("h200_sxm"), options), RunOptions{});
    StepMeasurement m;
    m.what = what;
    const double slower = what.clock == ClockMode::steady ? 1.1 : 1;
    m.time = slower * step.latency;
    m.low = 0.99 * m.time;
    m.high = 1.01 * m.time;
    m.samples = 7;
    m.memory_B = 1e9;
    m.conditions.sm_clock = step.clock;
    if (what.clock == ClockMode::steady) {
      m.energy = 1.05 * *step.energy;
      m.conditions.power = *m.energy / m.time;
      m.traced = 1.01 * m.time;
    }
    for (const NodePrediction& n : step.nodes) {
      m.ops.push_back(
          {n.node->name, std::string(op_name(n.node->op)), "kernel", n.node->count, 1, slower * (n.op.time + n.gap)});
    }
    r.steps.push_back(m);
  }
  return r;
}

TEST(StepStudy, ReadsCasesOfBothPhases) {
  const auto cases = parse_step_study(kList, "some/list.csv");
  ASSERT_EQ(cases.size(), 2U);
  EXPECT_EQ(step_text(cases[0]), "llama-3.2-1b decode batch=8 context=512 page=64, burst");
  EXPECT_EQ(step_text(cases[1]), "llama-3.2-1b prefill batch=2 prompt=100, steady");
  EXPECT_EQ(cases[0].study, "train");
  EXPECT_EQ(cases[0].place, "list.csv:2");
  EXPECT_TRUE(is_step_study(kList, "list.csv"));
  EXPECT_FALSE(is_step_study("op,dtype,shape\ngemm,bf16,M=1;N=1;K=1\n", "list.csv"));
}

TEST(StepStudy, RefusesWhatIsNoStep) {
  EXPECT_THAT(refusal("model,phase,batch,context\nx,decod,1,5\n"), HasSubstr("did you mean 'decode'"));
  EXPECT_THAT(refusal("model,phase,batch,context\nx,decode,1,\n"), HasSubstr("context"));
  EXPECT_THAT(refusal("model,phase,batch,context\nx,decode,-1,5\n"), HasSubstr("whole number"));
  EXPECT_THAT(refusal("model,phase,batch,context\nx,decode,1,5\nx,decode,1,5\n"), HasSubstr("once"));
  EXPECT_THAT(refusal("model,phase,batch,context\n"), HasSubstr("none"));
}

TEST(StepRecording, ReadsBackAsItWasWritten) {
  StepRecording r = recorded();
  StepMeasurement& broken = r.steps.emplace_back();
  broken.what = r.steps[0].what;
  broken.what.workload.batch = 9;
  broken.fault = "step: needs 200 GB; the card has 141 GB free";
  const std::string text = step_recording_json(r);
  EXPECT_TRUE(is_step_recording(text));
  const StepRecording back = parse_step_recording(text, "some.json");
  EXPECT_EQ(step_recording_json(back), text);
  ASSERT_EQ(back.steps.size(), 3U);
  EXPECT_EQ(back.steps[1].energy, r.steps[1].energy);
  EXPECT_EQ(back.steps[1].ops.size(), r.steps[1].ops.size());
  EXPECT_EQ(back.steps[2].fault, broken.fault);
}

const char* const kSharedList =
    "study,model,phase,batch,context,prompt,page,tp,layers,clock\n"
    "train,llama-3.1-70b,decode,8,512,,64,4,16,steady\n"
    "train,llama-3.1-70b,decode,8,512,,64,4,,steady\n"
    "train,llama-3.1-70b,prefill,1,,100,,2,16,burst\n";

TEST(StepStudy, StepsOfSeveralCardsAndOfFewerLayers) {
  const auto cases = parse_step_study(kSharedList, "some/list.csv");
  ASSERT_EQ(cases.size(), 3U);
  EXPECT_EQ(step_text(cases[0]), "llama-3.1-70b decode batch=8 context=512 page=64 tp=4 layers=16, steady");
  EXPECT_EQ(step_text(cases[1]), "llama-3.1-70b decode batch=8 context=512 page=64 tp=4, steady");
  EXPECT_EQ(cases[2].workload.parallel.tensor, 2);
  EXPECT_EQ(step_llm(cases[0]).main().order.size(), 16U);
  EXPECT_EQ(step_llm(cases[1]).main().order.size(), 80U);
  StepCase what = cases[0];
  what.layers = 81;
  EXPECT_THROW(step_llm(what), BadInput);
}

TEST(StepRecording, KeepsEveryRank) {
  StepRecording r;
  r.session.gpu = "h200_sxm";
  r.session.card = "NVIDIA H200";
  for (const StepCase& what : parse_step_study(kSharedList, "some/list.csv")) {
    StepMeasurement m;
    m.what = what;
    m.time = m.low = m.high = 1.5 * units::ms;
    m.samples = 3;
    for (std::int64_t rank = 0; rank < what.workload.parallel.tensor; ++rank) {
      m.ranks.push_back({static_cast<double>(1 + rank) * units::ms, 1.7 * units::GHz, {}});
    }
    m.ranks.back().power = 432.0 * units::W;
    r.steps.push_back(m);
  }
  const std::string text = step_recording_json(r);
  const StepRecording back = parse_step_recording(text, "some.json");
  EXPECT_EQ(step_recording_json(back), text);
  ASSERT_EQ(back.steps[0].ranks.size(), 4U);
  EXPECT_EQ(back.steps[0].what.layers, 16);
  EXPECT_EQ(back.steps[0].ranks[3].power, r.steps[0].ranks[3].power);
  EXPECT_FALSE(back.steps[0].ranks[0].power);
  r.steps[0].ranks.pop_back();
  EXPECT_THROW(parse_step_recording(step_recording_json(r), "some.json"), BadInput);
}

/// Prediction and recording go by the same words: a step on two cards, half as many layers of which take half as long.
TEST(WholeStepReport, PricesStepsOfSeveralCards) {
  StepRecording r;
  r.session.gpu = "h200_sxm";
  for (const char* layers : {"8", "16"}) {
    StepMeasurement m;
    m.what = parse_step_study(std::string("model,phase,batch,context,page,tp,layers\nllama-3.2-1b,decode,4,512,64,2,") +
                                  layers + "\n",
                              "list.csv")
                 .front();
    m.time = m.low = m.high = 1.0 * units::ms;
    m.samples = 3;
    r.steps.push_back(m);
  }
  const WholeStepReport report = compare_steps(r, {"h200_sxm"});
  for (const StepRow& row : report.rows) ASSERT_TRUE(row.good()) << row.error;
  const double both = report.rows[1].predicted / report.rows[0].predicted;
  EXPECT_GT(both, 1.5);
  EXPECT_LT(both, 2.0);
}

TEST(StepRecording, RefusesUnknownKeysAndRepeats) {
  StepRecording r = recorded();
  std::string text = step_recording_json(r);
  text.replace(text.find("\"samples\""), 9, "\"samplez\"");
  EXPECT_THROW(parse_step_recording(text, "some.json"), BadInput);
  r.steps[1].what = r.steps[0].what;
  EXPECT_THROW(parse_step_recording(step_recording_json(r), "some.json"), BadInput);
}

TEST(WholeStepReport, HoldsPredictionsAgainstStepsAndOperators) {
  const WholeStepReport report = compare_steps(recorded(), {"h200_sxm"});
  ASSERT_EQ(report.rows.size(), 2U);
  EXPECT_NEAR(report.rows[0].time_error(), 0, 1e-9);
  EXPECT_FALSE(report.rows[0].energy_error());
  EXPECT_NEAR(report.rows[1].time_error(), -std::log(1.1), 1e-9);
  EXPECT_NEAR(*report.rows[1].energy_error(), -std::log(1.05), 1e-9);
  for (const StepOpRow& op : report.rows[1].ops) EXPECT_NEAR(op.predicted / op.measured, 1 / 1.1, 1e-9) << op.name;
  const std::string table = step_table(report);
  EXPECT_THAT(table, HasSubstr("llama-3.2-1b prefill batch=2 prompt=100, steady"));
  EXPECT_THAT(table, HasSubstr("prefill steady, heldout"));
  EXPECT_THAT(table, HasSubstr("-9.5"));
  EXPECT_THAT(step_csv(report), HasSubstr("gate_up_proj"));
}

TEST(WholeStepReport, SaysWhatCouldNotBeMeasured) {
  StepRecording r = recorded();
  r.steps[0].fault = "the step's logits are not finite";
  const WholeStepReport report = compare_steps(r, {"h200_sxm"});
  EXPECT_FALSE(report.rows[0].good());
  EXPECT_THAT(step_table(report), HasSubstr("logits are not finite"));
}

/// The recorded steps, replayed: a change of the model may not make them worse. Lower the ceilings when it gets better.
/// At the same work the first, the third and the fourth card draw 8, 14 and 13 % more than the second; energies lie
/// near the mean of fifteen boards, of which six that share steps by twos draw 3 % less than is predicted.
TEST(StepGate, RecordedStepsAreNotPredictedWorseThanAllowed) {
  struct Ceiling {
    const char* file;
    Phase phase;
    double time, energy;
  };
  for (const Ceiling& ceiling :
       {Ceiling{"steps.json", Phase::decode, 0.022, 0.06}, Ceiling{"steps.json", Phase::prefill, 0.04, 0.03},
        Ceiling{"steps.second_card.json", Phase::decode, 0.013, 0.04},
        Ceiling{"steps.second_card.json", Phase::prefill, 0.033, 0.03},
        Ceiling{"steps.third_card.json", Phase::decode, 0.022, 0.105},
        Ceiling{"steps.third_card.json", Phase::prefill, 0.022, 0.027},
        Ceiling{"steps.fourth_card.json", Phase::decode, 0.02, 0.13}}) {
    const std::string file = data_folder() + "/measurements/h200/" + ceiling.file;
    const WholeStepReport report = compare_steps(parse_step_recording(read_text_file(file), file), {"h200_sxm"});
    std::vector<double> time, energy;
    for (const StepRow& row : report.rows) {
      ASSERT_TRUE(row.good()) << row.error;
      if (row.measured.what.workload.phase != ceiling.phase) continue;
      time.push_back(std::abs(row.time_error()));
      if (const auto e = row.energy_error()) energy.push_back(std::abs(*e));
    }
    EXPECT_LT(median(time), ceiling.time) << ceiling.file;
    EXPECT_LT(median(energy), ceiling.energy) << ceiling.file;
  }
}

/// Tensor-parallel steps of our kernels on two H200 and, all of Llama-3.1-70B, on four, predicted before they were run.
/// To one of the former, the decode of 64 sequences of 8192 in the second file, the power of links that are awake was
/// fitted; nothing else.
TEST(StepGate, StepsOnSeveralGpusAreNotPredictedWorseThanAllowed) {
  struct Ceiling {
    Phase phase;
    ClockMode clock;
    double time, worst, power;
  };
  struct Recording {
    const char* file;
    double power_of_prompts;  ///< boards of the four draw 687 to 694 W at their cap of 700, where 677 are predicted
  };
  for (const auto& [file, power_of_prompts] :
       {Recording{"steps.tp2.json", 0.02}, {"steps.tp2.second.json", 0.02}, {"steps.tp4.json", 0.025}}) {
    const std::string place = data_folder() + "/measurements/h200/" + file;
    const WholeStepReport report = compare_steps(parse_step_recording(read_text_file(place), place), {"h200_sxm"});
    for (const Ceiling& ceiling : {Ceiling{Phase::decode, ClockMode::burst, 0.025, 0.09, 0},
                                   Ceiling{Phase::decode, ClockMode::steady, 0.025, 0.09, 0.03},
                                   Ceiling{Phase::prefill, ClockMode::steady, 0.05, 0.06, power_of_prompts}}) {
      std::vector<double> time, power;
      for (const StepRow& row : report.rows) {
        ASSERT_TRUE(row.good()) << row.error;
        const StepCase& what = row.measured.what;
        if (what.workload.phase != ceiling.phase || what.clock != ceiling.clock) continue;
        time.push_back(std::abs(row.time_error()));
        if (const auto e = row.power_error()) power.push_back(std::abs(*e));
      }
      EXPECT_LT(median(time), ceiling.time) << file;
      EXPECT_LT(*std::max_element(time.begin(), time.end()), ceiling.worst) << file;
      if (ceiling.clock == ClockMode::steady) {
        EXPECT_LT(median(power), ceiling.power) << file;
      }
    }
  }
}

}  // namespace
}  // namespace plumbline::step_test
