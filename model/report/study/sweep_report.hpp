// The points of a sweep that are left: as a table, lines and a page.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "model/report/columns.hpp"
#include "model/study.hpp"
#include "model/words.hpp"

namespace plumbline {

struct SweepReport {
  const Study& study;
  const StudyRows& rows;
  std::int64_t top = 0;
};

std::string sweep_table(const SweepReport& report, const TextStyle& style);
/// In the form that sweep() streams.
std::string sweep_lines(const SweepReport& report, SweepFormat format);
/// A page of its own: points by an axis or against each other, a heat map of two axes, the points under their GPU's roofs
/// where work and bytes are among the columns, all in a table that sorts, and what the answers were made of.
std::string sweep_html(const SweepReport& report);

enum class SweepPlot { points, heat };
inline constexpr std::array<Word<SweepPlot>, 2> kSweepPlotWords{
    {{"points", SweepPlot::points}, {"heat", SweepPlot::heat}}};
/// One plot of the page alone. Throws BadInput where the study has nothing that it could be of.
std::string sweep_svg(const SweepReport& report, SweepPlot plot);

/// A figure as people read it: "9.72 ms" of latency_s.
std::string figure_text(const std::string& column, const StudyFigure& figure);
/// What a study asks, in a line: "llm model=llama-3.1-8b gpu=h200 ...".
std::string study_line(const Study& study);
Columns sweep_columns(const SweepReport& report);
/// "63 of 96 points are on the front of tokens_per_s and energy_J".
std::string sweep_summary(const SweepReport& report);

}  // namespace plumbline
