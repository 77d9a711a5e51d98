// Ranges of a study's points for a sweep that another process runs.
#include "model/study/parts.hpp"

namespace plumbline {

struct SweepServant::Parts {
  Parts(const Study& asked, SweepFormat format, bool best_points, std::int64_t most)
      : study(asked),
        plan(study),
        lines(format, plan.points().names(), plan.written()),
        pricer(plan, inputs),
        best(best_points),
        top(most) {}

  Study study;
  StudyPlan plan;
  SweepLines lines;
  StudyInputs inputs;
  BlockPricer pricer;
  bool best;
  std::int64_t top;
};

SweepServant::SweepServant(const Study& study, const SweepOptions& options, bool best, std::int64_t top) {
  check_study(study, "study");
  parts_ = std::make_unique<Parts>(study, options.format, best, top);
}

SweepServant::~SweepServant() = default;

SweepPart SweepServant::answer(std::int64_t first, std::int64_t count) {
  Parts& p = *parts_;
  return p.best ? best_of_block(p.plan, p.top, p.pricer, first, count)
                : lines_of_block(p.lines, p.pricer, first, count);
}

}  // namespace plumbline
