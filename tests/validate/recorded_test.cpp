#include "validate/record/recorded.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>

#include "arch/error.hpp"
#include "tests/support/hand_made_recording.hpp"
#include "tests/support/random_op.hpp"
#include "validate/record/study.hpp"

namespace plumbline::recorded_test {
namespace {

using ::testing::HasSubstr;
using namespace testing_support;

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

std::string refusal(const std::string& json) {
  try {
    parse_recording(json, "some.json");
  } catch (const BadInput& error) {
    return error.what();
  }
  return "";
}

TEST(Recording, ReadsBackAsItWasWritten) {
  const std::string text = recording_json(hand_made_recording());
  const Recording back = parse_recording(text, "some.json");
  EXPECT_EQ(recording_json(back), text);
  ASSERT_EQ(back.cases.size(), 10U);
  EXPECT_EQ(back.session.card, "NVIDIA H200");
  EXPECT_EQ(back.cases[0].time, 1500.0 * units::us);
  EXPECT_EQ(back.cases[0].launches[0].cluster, 2);
  EXPECT_EQ(back.cases[1].kernels, KernelSet::library);
  EXPECT_EQ(back.cases[5].what.cache, CacheState::warm);
  EXPECT_EQ(back.cases[8].energy, 1.2 * units::J);
  EXPECT_EQ(back.cases[8].conditions.clock_event_reasons, 4U);
  EXPECT_EQ(back.cases[9].fault, "no kernel for <this> shape");
}

TEST(Recording, HasOneCaseALine) {
  const Recording recording = hand_made_recording();
  const std::string text = recording_json(recording);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 6 + static_cast<long>(recording.cases.size()));
  for (const Measurement& c : recording.cases) {
    const std::size_t at = text.find("\"shape\":\"" + c.what.shape + "\"");
    ASSERT_NE(at, std::string::npos);
    EXPECT_EQ(text.rfind("\n  {\"op\":", at), text.rfind('\n', at));
  }
}

TEST(Recording, WithoutCasesIsOneToo) {
  Recording empty;
  empty.session = hand_made_session();
  EXPECT_TRUE(parse_recording(recording_json(empty), "some.json").cases.empty());
}

TEST(Recording, RefusalsNamePlaceThingAndExpectation) {
  const std::string good = recording_json(hand_made_recording());
  EXPECT_EQ(refusal(good), "");
  EXPECT_THAT(refusal(replaced(good, "\"time_s\"", "\"time_us\"")), HasSubstr("some.json: /cases/0"));
  EXPECT_THAT(refusal(replaced(good, "\"time_s\"", "\"time_us\"")), HasSubstr("time_s"));
  EXPECT_THAT(refusal(replaced(good, "measurements.v1", "measurements.v9")), HasSubstr("plumbline.measurements.v1"));
  EXPECT_THAT(refusal(replaced(good, "\"op\":\"gemm\"", "\"op\":\"gem\"")), HasSubstr("gemm"));
  EXPECT_THAT(refusal(replaced(good, "\"cache\":\"cold\"", "\"cache\":\"cool\"")),
              HasSubstr("cold, warm or read-through"));
  EXPECT_THAT(refusal(replaced(good, "\"kernels\":\"own\"", "\"kernels\":\"ideal\"")), HasSubstr("own or library"));
  EXPECT_THAT(refusal(replaced(good, "\"samples\":20", "\"samples\":0")), HasSubstr("/cases/0/samples"));
  EXPECT_THAT(refusal(replaced(good, "\"time_s\":0.0015", "\"time_s\":-1")), HasSubstr("above 0"));
  EXPECT_THAT(refusal(replaced(good, "\"time_s\":0.0015", "\"time_s\":5")), HasSubstr("low_s <= time_s <= high_s"));
  EXPECT_THAT(refusal(replaced(good, "no kernel for <this> shape", "")), HasSubstr("why there is no time"));
  EXPECT_THAT(refusal(replaced(good, "\"sms\":132", "\"sms\":-1")), HasSubstr("/session/sms"));
  EXPECT_THAT(refusal("[]"), HasSubstr("expected a recording"));
  EXPECT_NE(refusal(""), "");
  EXPECT_NE(refusal(good.substr(0, good.size() / 2)), "");
  for (const std::string& bad : {replaced(good, "\"time_s\"", "\"time_us\""), std::string("{}"), std::string("[]")}) {
    EXPECT_THAT(refusal(bad), Not(HasSubstr("\n")));
  }
}

TEST(Recording, RefusesACaseTwiceButNotBothKernelSets) {
  Recording twice = hand_made_recording();
  twice.cases.push_back(twice.cases.front());
  EXPECT_THAT(refusal(recording_json(twice)), HasSubstr("each case once"));
}

TEST(Recording, SurvivesNamesThatAreNotUtf8) {
  Recording odd = hand_made_recording();
  odd.cases[0].kernel = "\xFF kernel";
  EXPECT_EQ(parse_recording(recording_json(odd), "some.json").cases[0].kernel, "\xEF\xBF\xBD kernel");
}

// --- properties ------------------------------------------------------------------------------------------------------

double random_positive() { return std::exp(*rc::gen::inRange(-3000, 1000) / 100.0); }

Measurement random_case() {
  Measurement c;
  c.what.op = random_op();
  c.what.shape = shape_text(c.what.op);
  c.what.cache = coin() ? CacheState::cold : CacheState::warm;
  c.what.clock = coin() ? ClockMode::burst : ClockMode::steady;
  c.what.study = *rc::gen::element<std::string>("train", "", "a \"quoted\" list");
  c.kernels = coin() ? KernelSet::own : KernelSet::library;
  if (coin()) {
    c.fault = "why, \\ \"not\"";
    return c;
  }
  c.time = random_positive() * units::s;
  c.low = 0.7 * c.time;
  c.high = 1.1 * c.time;
  c.samples = *rc::gen::inRange(1, 1000);
  c.kernel = *rc::gen::element<std::string>("gemm<128, 256>", "\u00e9", "");
  for (int i = *rc::gen::inRange(0, 3); i > 0; --i)
    c.launches.push_back({"k", random_positive() * units::s, 1, 2, 3, 4, 5});
  if (coin()) c.conditions.sm_clock = random_positive() * units::Hz;
  if (coin()) c.conditions.power = random_positive() * units::W;
  if (coin()) c.conditions.temperature_C = -3.5;
  if (coin()) c.conditions.memory_used = 7e9 * units::B;
  if (coin()) c.conditions.nvlink_rx = 12.5 * units::B_per_s;
  if (coin()) c.energy = random_positive() * units::J;
  c.conditions.clock_event_reasons = static_cast<std::uint64_t>(*rc::gen::inRange(0, 512));
  return c;
}

RC_GTEST_PROP(Recording, AnyOneReadsBack, ()) {
  Recording recording;
  recording.session = hand_made_session();
  recording.session.l2_B = random_positive();
  recording.cases = {random_case()};
  const std::string text = recording_json(recording);
  const Recording back = parse_recording(text, "random");
  RC_ASSERT(recording_json(back) == text);
  RC_ASSERT(back.cases[0].what.op == recording.cases[0].what.op);
  RC_ASSERT(back.cases[0].time == recording.cases[0].time);
  RC_ASSERT(back.session.l2_B == recording.session.l2_B);
}

RC_GTEST_PROP(Recording, DamagedTextIsReadOrRefused, ()) {
  static const std::string good = recording_json(hand_made_recording());
  std::string text = good;
  for (int i = *rc::gen::inRange(1, 4); i > 0; --i) {
    const auto at = static_cast<std::size_t>(*rc::gen::inRange(0, static_cast<int>(text.size())));
    const auto length = static_cast<std::size_t>(*rc::gen::inRange(0, 12));
    text.replace(at, length,
                 *rc::gen::element<std::string>("", "\"", "{", "]", "9", "-", ",", "null", "1e999", "\xFF"));
  }
  try {
    const Recording back = parse_recording(text, "damaged");
    for (const Measurement& c : back.cases) RC_ASSERT(!c.fault.empty() || c.time > Seconds{});
  } catch (const BadInput&) {
  }
}

// --- the measurer ----------------------------------------------------------------------------------------------------

TEST(RecordedMeasurer, GivesBackWhatWasMeasured) {
  const Recording recording = hand_made_recording();
  RecordedMeasurer measurer(recording);
  const auto priced = std::make_unique<OpPrediction>();
  for (const Measurement& c : recording.cases) {
    const Measurement again = measurer.measure(c.what, c.kernels, *priced);
    EXPECT_EQ(again.time, c.time);
    EXPECT_EQ(again.fault, c.fault);
    EXPECT_EQ(again.kernel, c.kernel);
  }
  EXPECT_EQ(measurer.session().card, recording.session.card);
}

TEST(RecordedMeasurer, SaysWhatItDoesNotHold) {
  RecordedMeasurer measurer(hand_made_recording());
  const auto priced = std::make_unique<OpPrediction>();
  const StudyCase what = study_case("add", "bf16", "rows=7;cols=9");
  const Measurement missing = measurer.measure(what, KernelSet::own, *priced);
  EXPECT_EQ(missing.fault, "not in the recording");
  EXPECT_EQ(missing.what.shape, what.shape);
}

}  // namespace
}  // namespace plumbline::recorded_test
