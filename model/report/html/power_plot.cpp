#include "model/report/html/power_plot.hpp"

#include <algorithm>
#include <vector>

#include "arch/format.hpp"
#include "model/report/html/markup.hpp"
#include "model/report/html/plot.hpp"
#include "model/report/power_trace.hpp"

namespace plumbline::html {
namespace {

constexpr double kHeight = 220;        // of a plot, in pixels
constexpr double kHeadroom = 1.12;     // above the highest power: the names of parts stand there
constexpr double kNameDown = 14;       // from the top of the plot, or of a bar, to the foot of its name
constexpr double kLongPart = 0.05;     // of the step: a part that takes more has one repetition drawn large
constexpr std::size_t kMostLarge = 4;  // ... of at most so many parts

/// Microseconds or milliseconds, whichever keeps the axis' numbers short.
struct TimeUnit {
  Seconds unit;
  const char* title;
};
TimeUnit unit_for(Seconds most) {
  return most < 2.0 * units::ms ? TimeUnit{units::us, "us"} : TimeUnit{units::ms, "ms"};
}

double watts(Watts power) { return power.in(units::W); }

std::string times_name(const PowerSegment& part) {
  const std::string name = part.segment->name;
  return part.repeat > 1 ? name + " x " + std::to_string(part.repeat) : name;
}

Seconds whole(const PowerSegment& part) { return static_cast<double>(part.repeat) * part.period; }

Joules energy(const PowerSegment& part) {
  Joules sum;
  for (const PowerSlice& slice : part.slices) sum += slice.duration * slice.power;
  return static_cast<double>(part.repeat) * sum;
}

Watts board_limit(const StepReport& r) { return r.machine.options().power_cap.value_or(r.machine.gpu().tdp); }

/// One repetition as a closed shape from the x axis up, in the units of Plot::stretched.
std::string shape(const PowerSegment& part, const Plot& plot, double per_second) {
  std::string path = "M0 " + fixed(plot.height());
  for (const PowerSlice& slice : part.slices) {
    const Seconds end = slice.start - part.start + slice.duration;
    path += "V" + fixed(plot.down(watts(slice.power))) + "H" + fixed(end.in(units::s)*per_second);
  }
  return path + "V" + fixed(plot.height()) + "Z";
}

/// Each part's shape once, and a reference to it for each repetition, every other one lighter.
std::string repeated_shapes(const std::vector<PowerSegment>& trace, const Plot& plot, Seconds latency) {
  const double per_second = kStretched / latency.in(units::s);
  std::string out;
  for (std::size_t i = 0; i < trace.size(); ++i) {
    const PowerSegment& part = trace[i];
    const std::string id = "part" + std::to_string(i);
    out += "<defs><path id=\"" + id + "\" d=\"" + shape(part, plot, per_second) + "\"></path></defs>\n";
    for (std::int64_t r = 0; r < part.repeat; ++r) {
      const Seconds start = part.start + static_cast<double>(r) * part.period;
      out += "<use href=\"#" + id + "\" x=\"" + fixed(start.in(units::s)*per_second) + "\" class=\"trace" +
             (r % 2 == 1 ? " odd" : "") + "\"></use>";
    }
    out += "\n";
  }
  return out;
}

void draw_limit(Plot& plot, Watts limit) {
  plot.line(plot.x().from, watts(limit), plot.x().to, watts(limit), "limit", "board limit " + format(limit));
}

std::string whole_step(const StepReport& r, const std::vector<PowerSegment>& trace, double top) {
  const StepPrediction& s = r.step;
  const TimeUnit unit = unit_for(s.latency);
  Plot plot(linear_axis(s.latency.in(unit.unit)), linear_axis(top), kHeight, "power over the step");
  plot.axes(std::string("time in the step, ") + unit.title,
            "board power, W (mean " + format(*s.power) + ", limit " + format(board_limit(r)) + ")");
  plot.stretched(repeated_shapes(trace, plot, s.latency));
  for (const PowerSegment& part : trace) {
    const double from = part.start.in(unit.unit), to = (part.start + whole(part)).in(unit.unit);
    const std::string name = times_name(part);
    plot.column(from, to, top, "hit",
                name + ": " + format(whole(part)) + ", mean " + format(energy(part) / whole(part)));
    if (part.start > Seconds{}) plot.line(from, 0, from, top, "split");
    const LabelFit fit = label_fit(name, whole(part) / s.latency);
    if (fit.fits) {
      plot.label((from + to) / 2, top, name, Plot::Anchor::middle, 0, kNameDown, "halo " + std::string(fit.css));
    }
  }
  plot.line(0, watts(*s.power), plot.x().to, watts(*s.power), "mean", "mean " + format(*s.power));
  draw_limit(plot, board_limit(r));
  return plot.svg();
}

std::string one_repetition(const StepReport& r, const PowerSegment& part, const StepParts& colours, double top) {
  const TimeUnit unit = unit_for(part.period);
  const std::string name = part.segment->name;
  Plot plot(linear_axis(part.period.in(unit.unit)), linear_axis(top), kHeight, "power over one " + name);
  plot.axes(std::string("time, ") + unit.title, "board power, W");
  double x = 0;
  for (const PowerSlice& slice : part.slices) {
    const double end = x + slice.duration.in(unit.unit);
    const std::string label = slice.gap ? "waiting for a launch" : label_of(*slice.node->node);
    plot.column(x, end, watts(slice.power), slice.gap ? "gap" : colours.css(*slice.node->node),
                label + ": " + format(slice.power) + " for " + format(slice.duration));
    const LabelFit fit = label_fit(label, slice.duration / part.period);
    if (fit.fits) {
      plot.label((x + end) / 2, watts(slice.power), label, Plot::Anchor::middle, 0, kNameDown,
                 "in " + std::string(fit.css));
    }
    x = end;
  }
  draw_limit(plot, board_limit(r));
  const std::string heading = part.repeat > 1 ? "One " + name + " of " + std::to_string(part.repeat) : name;
  return "<h3>" + escaped(heading) + ", " + escaped(format(part.period)) + "</h3>\n" + plot.svg();
}

/// Longest first.
std::vector<const PowerSegment*> long_parts(const std::vector<PowerSegment>& trace, Seconds latency) {
  std::vector<const PowerSegment*> out;
  for (const PowerSegment& part : trace) {
    if (whole(part) >= kLongPart * latency) out.push_back(&part);
  }
  std::stable_sort(out.begin(), out.end(), [](const auto* a, const auto* b) { return whole(*a) > whole(*b); });
  if (out.size() > kMostLarge) out.resize(kMostLarge);
  return out;
}

}  // namespace

std::string no_power(const Machine& machine) {
  return machine.kernels() == KernelSet::ideal ? "Ideal kernels are a floor of time: they have no power."
                                               : "No energies of this card are on file.";
}

std::string power_plots(const StepReport& r, const StepParts& colours) {
  const auto trace = board_power(power_trace(r.step));
  if (trace.empty()) return note(no_power(r.machine));
  Watts most = std::max(*r.step.power, board_limit(r));
  for (const PowerSegment& part : trace) {
    for (const PowerSlice& slice : part.slices) most = std::max(most, slice.power);
  }
  const double top = kHeadroom * watts(most);
  std::string out = whole_step(r, trace, top);
  for (const PowerSegment* part : long_parts(trace, r.step.latency)) out += one_repetition(r, *part, colours, top);
  return out + note("Power of an operator is its mean, launches and tails included; waits shorter than " +
                    format(kShortestWait) +
                    " are part of the operator before them. Colours are those of the operators "
                    "above.");
}

}  // namespace plumbline::html
