// A small recording in which every figure is round, and measurers that are no card.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "arch/error.hpp"
#include "ops/table/text.hpp"
#include "validate/record/recorded.hpp"

namespace plumbline::testing_support {

inline StudyCase study_case(const char* op, const char* dtype, const char* shape, CacheState cache = CacheState::cold,
                            ClockMode clock = ClockMode::burst) {
  StudyCase what;
  what.op = parse_op(op, dtype, shape);
  what.shape = shape_text(what.op);
  what.cache = cache;
  what.clock = clock;
  what.study = "heldout";
  what.place = "heldout.csv:2";
  return what;
}

inline Measurement measured_case(StudyCase what, double time_us, KernelSet kernels = KernelSet::own) {
  Measurement c;
  c.what = std::move(what);
  c.kernels = kernels;
  c.kernel = kernels == KernelSet::own ? "own_kernel" : "nvjet_kernel";
  c.plan = "tile 128x256";
  c.time = time_us * units::us;
  c.low = 0.98 * c.time;
  c.high = 1.03 * c.time;
  c.samples = 20;
  c.launches = {{"own_kernel<128, 256>", c.time, 132, 384, 168, 200000, 2}};
  c.conditions.sm_clock = 1980.0 * units::MHz;
  c.conditions.memory_clock = 3201.0 * units::MHz;
  c.conditions.power = 450.0 * units::W;
  c.conditions.temperature_C = 41;
  return c;
}

inline MeasuringSession hand_made_session() {
  MeasuringSession s;
  s.gpu = "h200_sxm";
  s.card = "NVIDIA H200";
  s.driver = "580.1";
  s.toolkit = "13.0";
  s.profiler = "CUPTI 130001";
  s.date = "2026-11-20";
  s.l2_B = 62914560;
  s.memory_B = 150e9;
  s.power_limit_W = 700;
  s.sms = 132;
  return s;
}

/// 8192^3 in 1.5 ms is 733 TFLOP/s; 1 GiB of copy in 250 us is 4.29 TB/s, 89 % of an H200's 4.8.
inline Recording hand_made_recording() {
  Recording r;
  r.session = hand_made_session();
  const StudyCase cube = study_case("gemm", "bf16", "M=8192;N=8192;K=8192");
  const StudyCase decode = study_case("gemm", "bf16", "M=16;N=4096;K=4096");
  r.cases = {measured_case(cube, 1500),
             measured_case(cube, 1425, KernelSet::library),
             measured_case(decode, 12),
             measured_case(decode, 10.8, KernelSet::library),
             measured_case(study_case("copy", "bf16", "rows=65536;cols=4096"), 250),
             measured_case(study_case("copy", "bf16", "rows=512;cols=4096", CacheState::warm), 3),
             measured_case(study_case("rmsnorm", "bf16", "rows=65536;cols=4096"), 300),
             measured_case(study_case("cumsum", "fp32", "n=1000000"), 8)};
  Measurement steady =
      measured_case(study_case("gemm", "bf16", "M=8192;N=8192;K=8192", CacheState::cold, ClockMode::steady), 1700);
  steady.conditions.sm_clock = 1600.0 * units::MHz;
  steady.conditions.power = 690.0 * units::W;
  steady.conditions.clock_event_reasons = 0x4;
  steady.energy = 1.2 * units::J;
  r.cases.push_back(steady);
  Measurement fault;
  fault.what = study_case("topk", "bf16", "rows=4;cols=128256;k=50");
  fault.fault = "no kernel for <this> shape";
  r.cases.push_back(fault);
  return r;
}

/// A measurer whose answers are given by a function of how many came before.
class FakeMeasurer : public Measurer {
 public:
  using Answer = std::function<Measurement(int number, const StudyCase& what, KernelSet kernels)>;
  explicit FakeMeasurer(Answer answer) : answer_(std::move(answer)) {}
  MeasuringSession session() const override { return here; }
  Measurement measure(const StudyCase& what, KernelSet kernels, const OpPrediction&) override {
    return answer_(calls++, what, kernels);
  }
  int calls = 0;
  MeasuringSession here = hand_made_session();

 private:
  Answer answer_;
};

}  // namespace plumbline::testing_support
