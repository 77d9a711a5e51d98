// All points of a study, as text and as figures.
#include "arch/error.hpp"
#include "model/study/blocks.hpp"
#include "model/study/parts.hpp"

namespace plumbline {

SweepPart lines_of_block(const SweepLines& lines, BlockPricer& pricer, std::int64_t first, std::int64_t count) {
  SweepPart part;
  std::vector<std::string> texts(static_cast<std::size_t>(count));
  pricer.price(first, count,
               [&](std::int64_t i, const PricedPoint& point, const std::vector<const std::string*>& settings) {
                 count_outcome(point, part.counts);
                 if (point.outcome == PricedPoint::Outcome::dropped) return;
                 // the comma before it depends on what earlier blocks kept
                 lines.append(settings, point.figures, point.error, false, texts[static_cast<std::size_t>(i)]);
               });
  for (const std::string& text : texts) part.lines += text;
  return part;
}

SweepProgress sweep(const Study& study, const SweepOptions& options,
                    const std::function<void(std::string_view)>& sink) {
  check_study(study, "study");
  const StudyPlan plan(study);
  const SweepLines lines(options.format, plan.points().names(), plan.written());
  SweepProgress sum = options.before;
  sum.points = plan.points().count();
  if (sum.done == 0) sink(lines.head());
  const auto make = [&](std::int64_t first, std::int64_t count, BlockPricer& pricer) {
    return lines_of_block(lines, pricer, first, count);
  };
  const auto take = [](SweepPart&& part, BlockPricer&) { return std::move(part); };
  const auto deliver = [&](SweepPart& part) {
    std::string& text = part.lines;
    if (options.format == SweepFormat::json && sum.kept == 0 && !text.empty()) text.erase(0, 1);
    if (!text.empty()) sink(text);
    add_counts(part.counts, sum);
    if (options.progress) options.progress(sum);
  };
  in_blocks(plan, options, make, take, deliver);
  const std::string tail = lines.tail();
  if (!tail.empty()) sink(tail);
  return sum;
}

namespace {

struct RowsOfBlock {
  SweepProgress counts;
  std::vector<StudyRow> rows;
};

RowsOfBlock rows_of_block(const StudyPlan& plan, BlockPricer& pricer, std::int64_t first, std::int64_t count) {
  RowsOfBlock block;
  block.rows.resize(static_cast<std::size_t>(count));
  pricer.price(first, count,
               [&](std::int64_t i, const PricedPoint& point, const std::vector<const std::string*>& settings) {
                 count_outcome(point, block.counts);
                 StudyRow& row = block.rows[static_cast<std::size_t>(i)];
                 row.point = point.outcome == PricedPoint::Outcome::dropped ? -1 : first + i;
                 if (row.point < 0) return;
                 for (const std::string* each : settings) row.settings.push_back(*each);
                 row.error = point.error;
                 if (row.error.empty()) row.figures = point.figures;
                 row.figures.resize(plan.written().size());
               });
  return block;
}

}  // namespace

SweepProgress sweep_rows(const Study& study, const SweepOptions& options,
                         const std::function<void(const StudyRow&)>& sink) {
  if (!options.helpers.empty()) throw BadInput("study: expected no helpers of rows, which have lines and best points");
  check_study(study, "study");
  const StudyPlan plan(study);
  SweepProgress sum = options.before;
  sum.points = plan.points().count();
  const auto make = [&](std::int64_t first, std::int64_t count, BlockPricer& pricer) {
    return rows_of_block(plan, pricer, first, count);
  };
  const auto take = [](SweepPart&&, BlockPricer&) { return RowsOfBlock(); };
  const auto deliver = [&](const RowsOfBlock& block) {
    for (const StudyRow& row : block.rows) {
      if (row.point >= 0) sink(row);
    }
    add_counts(block.counts, sum);
    if (options.progress) options.progress(sum);
  };
  in_blocks(plan, options, make, take, deliver);
  return sum;
}

}  // namespace plumbline
