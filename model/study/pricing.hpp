// A study's points, priced: what threads of a sweep share, and what each of them has.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/study/columns.hpp"
#include "model/study/points.hpp"

namespace plumbline {

/// One point as it came out.
struct PricedPoint {
  enum class Outcome { dropped, kept, refused, bug };
  Outcome outcome = Outcome::dropped;
  std::vector<StudyFigure> figures;  ///< of StudyPlan::columns
  bool fits = true;
  std::string error;
};

/// What is asked of each point. Never changes; read by all threads.
class StudyPlan {
 public:
  explicit StudyPlan(const Study& study);

  const Study& study() const { return study_; }
  const StudyPoints& points() const { return points_; }
  /// Columns that are written, and behind them those that only conditions and objectives read.
  const std::vector<const FigureColumn*>& columns() const { return columns_; }
  const std::vector<std::string>& written() const { return written_; }
  std::size_t place_of(const std::string& column) const;
  /// Whether the axes' own conditions leave the point, before it is priced.
  bool left_by_axes(const std::vector<const std::string*>& settings) const;
  bool left_by_figures(const PricedPoint& point) const;

 private:
  struct AxisCondition {
    std::size_t setting;
    Condition condition;
  };
  struct FigureCondition {
    std::size_t column;
    Condition condition;
  };
  std::size_t add_column(const std::string& name, const std::string& place);

  const Study& study_;
  StudyPoints points_;
  std::vector<const FigureColumn*> columns_;
  std::vector<std::string> written_;
  std::vector<AxisCondition> by_axis_;
  std::vector<FigureCondition> by_figure_;
};

/// Prices points one after another; one a thread.
class Pricer {
 public:
  Pricer(const StudyPlan& plan, StudyInputs& inputs) : plan_(plan), asker_(inputs) {}

  /// Never throws for a point that can't be priced.
  void price(const std::vector<std::uint32_t>& places, PricedPoint& out);
  const std::vector<const std::string*>& settings() const { return settings_; }

 private:
  const StudyPlan& plan_;
  Asker asker_;
  Inquiry question_;
  std::vector<const std::string*> settings_;
};

}  // namespace plumbline
