#include "model/study/pricing.hpp"

#include <algorithm>
#include <charconv>

#include "arch/error.hpp"
#include "ops/whole_number.hpp"

namespace plumbline {
namespace {

/// A value of an axis as conditions read it: a number where it is one.
StudyFigure figure_of_setting(const std::string& text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [after, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc() && after == end) return value;
  return text;
}

}  // namespace

StudyPlan::StudyPlan(const Study& study) : study_(study), points_(study) {
  written_ = column_names(study);
  for (const std::string& name : written_) add_column(name, "columns");
  for (const std::string& text : study.where) {
    const Condition condition = parse_condition(text, "where");
    const auto& names = points_.names();
    const auto axis = std::find(names.begin(), names.end(), condition.name);
    if (axis != names.end()) {
      by_axis_.push_back({static_cast<std::size_t>(axis - names.begin()), condition});
    } else {
      by_figure_.push_back({add_column(condition.name, "where"), condition});
    }
  }
  if (!study.objective.empty())
    add_column(parse_objective(study.of_op, study.objective, "objective").name, "objective");
  for (const std::string& each : study.pareto) add_column(parse_objective(study.of_op, each, "pareto").name, "pareto");
}

std::size_t StudyPlan::add_column(const std::string& name, const std::string& place) {
  const FigureColumn& column = figure_column(study_.of_op, name, place);
  const auto known = std::find(columns_.begin(), columns_.end(), &column);
  const auto at = static_cast<std::size_t>(known - columns_.begin());
  const bool again = place == "columns" && known != columns_.end();
  if (again) throw BadInput(place + ": '" + name + "': is a column already");
  if (known == columns_.end()) columns_.push_back(&column);
  return at;
}

std::size_t StudyPlan::place_of(const std::string& column) const {
  const auto found =
      std::find_if(columns_.begin(), columns_.end(), [&](const FigureColumn* each) { return each->name == column; });
  return static_cast<std::size_t>(found - columns_.begin());
}

bool StudyPlan::left_by_axes(const std::vector<const std::string*>& settings) const {
  return std::all_of(by_axis_.begin(), by_axis_.end(), [&](const AxisCondition& each) {
    return each.condition.holds(figure_of_setting(*settings[each.setting]));
  });
}

bool StudyPlan::left_by_figures(const PricedPoint& point) const {
  return std::all_of(by_figure_.begin(), by_figure_.end(),
                     [&](const FigureCondition& each) { return each.condition.holds(point.figures[each.column]); });
}

void Pricer::price(const std::vector<std::uint32_t>& places, PricedPoint& out) {
  out.error.clear();
  out.fits = true;
  plan_.points().values(places, settings_);
  if (!plan_.left_by_axes(settings_)) {
    out.outcome = PricedPoint::Outcome::dropped;
    return;
  }
  try {
    plan_.points().ask(places, question_);
    asker_.ask(question_);
    out.figures.clear();
    for (const FigureColumn* column : plan_.columns()) out.figures.push_back(column->get(asker_));
    out.fits = asker_.fits();
    out.outcome = plan_.left_by_figures(out) ? PricedPoint::Outcome::kept : PricedPoint::Outcome::dropped;
  } catch (const Error& refusal) {
    out.outcome = PricedPoint::Outcome::refused;
    out.error = refusal.what();
  } catch (const std::exception& bug) {
    out.outcome = PricedPoint::Outcome::bug;
    out.error = std::string("internal error: ") + bug.what();
  }
}

}  // namespace plumbline
